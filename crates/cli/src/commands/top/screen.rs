//! The live screen. A second thread looks at the cluster, so that keys are answered also while a
//! node hangs.

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

use super::page::{self, PageLine, Role};
use super::rates::{Look, Rates};

/// How long a key may wait for its answer.
const KEY_WAIT: Duration = Duration::from_millis(50);

const HINT: &str = "q quits   ↑ ↓ scroll";

/// Shows the cluster until the user has seen enough.
pub fn run(cluster: &Cluster, interval: Duration, within: Duration) -> anyhow::Result<()> {
    let (looks, seen) = channel();
    let looking = cluster.clone();
    thread::Builder::new().name("looks".into()).spawn(move || {
        loop {
            let began = Instant::now();
            if looks.send(Look::at(&looking, within)).is_err() {
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

/// What is on the screen.
#[derive(Debug, Default)]
struct Screen {
    lines: Vec<PageLine>,
    /// Lines that are scrolled away at the top.
    above: u16,
}

fn show(terminal: &mut DefaultTerminal, seen: &Receiver<Look>) -> anyhow::Result<()> {
    let mut screen = Screen::default();
    let mut before: Option<Look> = None;
    loop {
        match seen.recv_timeout(KEY_WAIT) {
            Ok(look) => {
                let rates = before.as_ref().map_or_else(Rates::new, |then| look.rates_since(then));
                screen.lines = page::lines(&look, &rates);
                before = Some(look);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => anyhow::bail!("nobody looks at the cluster"),
        }
        while event::poll(Duration::ZERO)? {
            if screen.handle(&event::read()?) == Next::End {
                return Ok(());
            }
        }
        terminal.draw(|frame| screen.draw(frame))?;
    }
}

/// What follows a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Stay,
    End,
}

impl Screen {
    fn handle(&mut self, event: &Event) -> Next {
        let Event::Key(key) = event else { return Next::Stay };
        if key.kind == KeyEventKind::Release {
            return Next::Stay;
        }
        let last = u16::try_from(self.lines.len().saturating_sub(1)).unwrap_or(u16::MAX);
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return Next::End,
            KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                return Next::End;
            }
            KeyCode::Up => self.above = self.above.saturating_sub(1),
            KeyCode::Down => self.above = self.above.saturating_add(1).min(last),
            KeyCode::PageUp => self.above = self.above.saturating_sub(10),
            KeyCode::PageDown => self.above = self.above.saturating_add(10).min(last),
            KeyCode::Home => self.above = 0,
            _ => {}
        }
        Next::Stay
    }

    fn draw(&self, frame: &mut Frame<'_>) {
        let [page, hint] =
            Layout::vertical([Constraint::Min(0), Constraint::Length(1)]).areas(frame.area());
        let lines =
            self.lines.iter().map(|line| Line::styled(line.text.as_str(), style(line.role)));
        let paragraph = Paragraph::new(lines.collect::<Vec<_>>()).scroll((self.above, 0));
        frame.render_widget(paragraph, page);
        let hint_style = Style::new().add_modifier(Modifier::DIM);
        frame.render_widget(Paragraph::new(HINT).style(hint_style), hint);
    }
}

fn style(role: Role) -> Style {
    match role {
        Role::Title => Style::new().add_modifier(Modifier::BOLD),
        Role::Heads => Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED),
        Role::Row => Style::new(),
        Role::Trouble => Style::new().fg(Color::Red),
    }
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::KeyEvent;

    use super::*;
    use crate::commands::top::rates::tests::looks;

    fn screen() -> Screen {
        let (before, after) = looks(6 << 20);
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
        assert_eq!(screen.handle(&key(KeyCode::Down)), Next::Stay);
        assert!(!drawn(&screen).contains("cluster lab"));
        assert_eq!(screen.handle(&key(KeyCode::Home)), Next::Stay);
        assert!(drawn(&screen).contains("cluster lab"));
        assert_eq!(screen.handle(&key(KeyCode::Char('x'))), Next::Stay);
        assert_eq!(screen.handle(&key(KeyCode::Char('q'))), Next::End);
        let control_c = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(screen.handle(&Event::Key(control_c)), Next::End);
    }
}
