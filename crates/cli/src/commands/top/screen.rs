//! The live screen. A second thread takes the snapshots, so that keys work while a node hangs.

use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use pario::Cluster;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::Paragraph;
use ratatui::{DefaultTerminal, Frame};

use super::page::{self, LineKind, PageLine};
use super::rates::{ClusterSnapshot, Rates};

/// Longest delay before a key is handled.
const KEY_WAIT: Duration = Duration::from_millis(50);

const HINT: &str = "q quits   ↑ ↓ scroll";

/// Shows the cluster until the user quits.
pub fn run(cluster: &Cluster, interval: Duration, within: Duration) -> anyhow::Result<()> {
    let (snapshots, seen) = channel();
    let looking = cluster.clone();
    thread::Builder::new().name("snapshots".into()).spawn(move || {
        loop {
            let began = Instant::now();
            if snapshots.send(ClusterSnapshot::at(&looking, within)).is_err() {
                return;
            }
            thread::sleep(interval.saturating_sub(began.elapsed()));
        }
    })?;
    let mut terminal = ratatui::try_init().context("cannot use the terminal; try --once")?;
    let shown = show(&mut terminal, &seen);
    ratatui::restore();
    shown
}

/// The content of the screen.
#[derive(Debug, Default)]
struct Screen {
    lines: Vec<PageLine>,
    /// Lines scrolled off at the top.
    above: u16,
}

fn show(terminal: &mut DefaultTerminal, seen: &Receiver<ClusterSnapshot>) -> anyhow::Result<()> {
    let mut screen = Screen::default();
    let mut before: Option<ClusterSnapshot> = None;
    loop {
        match seen.recv_timeout(KEY_WAIT) {
            Ok(snapshot) => {
                let rates =
                    before.as_ref().map_or_else(Rates::new, |then| snapshot.rates_since(then));
                screen.lines = page::lines(&snapshot, &rates);
                before = Some(snapshot);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => {
                anyhow::bail!("the snapshot thread ended unexpectedly; this is a bug")
            }
        }
        while event::poll(Duration::ZERO)? {
            if screen.handle(&event::read()?) == KeyAction::End {
                return Ok(());
            }
        }
        terminal.draw(|frame| screen.draw(frame))?;
    }
}

/// The action that a key causes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeyAction {
    Stay,
    End,
}

impl Screen {
    fn handle(&mut self, event: &Event) -> KeyAction {
        let Event::Key(key) = event else { return KeyAction::Stay };
        if key.kind == KeyEventKind::Release {
            return KeyAction::Stay;
        }
        let last = u16::try_from(self.lines.len().saturating_sub(1)).unwrap_or(u16::MAX);
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return KeyAction::End,
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                return KeyAction::End;
            }
            KeyCode::Up => self.above = self.above.saturating_sub(1),
            KeyCode::Down => self.above = self.above.saturating_add(1).min(last),
            KeyCode::PageUp => self.above = self.above.saturating_sub(10),
            KeyCode::PageDown => self.above = self.above.saturating_add(10).min(last),
            KeyCode::Home => self.above = 0,
            _ => {}
        }
        KeyAction::Stay
    }

    fn draw(&self, frame: &mut Frame<'_>) {
        let [page, hint] =
            Layout::vertical([Constraint::Min(0), Constraint::Length(1)]).areas(frame.area());
        let lines =
            self.lines.iter().map(|line| Line::styled(line.text.as_str(), style(line.kind)));
        let paragraph = Paragraph::new(lines.collect::<Vec<_>>()).scroll((self.above, 0));
        frame.render_widget(paragraph, page);
        let hint_style = Style::new().add_modifier(Modifier::DIM);
        frame.render_widget(Paragraph::new(HINT).style(hint_style), hint);
    }
}

fn style(kind: LineKind) -> Style {
    match kind {
        LineKind::Title => Style::new().add_modifier(Modifier::BOLD),
        LineKind::Heads => Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED),
        LineKind::Row => Style::new(),
        LineKind::Trouble => Style::new().fg(Color::Red),
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::KeyEvent;

    use super::*;
    use crate::commands::top::rates::tests::snapshots;

    fn screen() -> Screen {
        let (before, after) = snapshots(6 << 20);
        Screen { lines: page::lines(&after, &after.rates_since(&before)), above: 0 }
    }

    fn drawn(screen: &Screen) -> String {
        let mut terminal = Terminal::new(TestBackend::new(80, 12)).unwrap();
        terminal.draw(|frame| screen.draw(frame)).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn the_page_and_the_hint_are_drawn() {
        let text = drawn(&screen());
        assert!(text.contains("cluster lab   1 node "), "{text}");
        assert!(text.contains("a/disk0  ███████░░░  75 %"), "{text}");
        assert!(text.contains("q quits"), "{text}");
    }

    #[test]
    fn keys_scroll_and_end() {
        let mut screen = screen();
        let key = |code| Event::Key(KeyEvent::from(code));
        assert_eq!(screen.handle(&key(KeyCode::Down)), KeyAction::Stay);
        assert!(!drawn(&screen).contains("cluster lab"));
        assert_eq!(screen.handle(&key(KeyCode::Home)), KeyAction::Stay);
        assert!(drawn(&screen).contains("cluster lab"));
        assert_eq!(screen.handle(&key(KeyCode::Char('x'))), KeyAction::Stay);
        assert_eq!(screen.handle(&key(KeyCode::Char('q'))), KeyAction::End);
        let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(screen.handle(&Event::Key(control_c)), KeyAction::End);
    }
}
