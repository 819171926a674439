//! What the processes print, line by line, so that lines of several ranks do not mix. The rank may
//! stand before every line.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::Child;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

/// A line that is longer is printed in several parts.
const LINE_LIMIT_BYTES: u64 = 64 << 10;

/// Held while a line is printed: both streams may lead to the same terminal or file.
static PRINTING: Mutex<()> = Mutex::new(());

/// Which streams of the processes are read here and printed line by line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Streams {
    /// What they print.
    pub stdout: bool,
    /// What they complain.
    pub stderr: bool,
}

impl Streams {
    /// For so many processes. A single process has its streams for itself. On a terminal the C
    /// library prints whole lines only if the program sees the terminal itself; with ranks before
    /// the lines it does not.
    pub fn of(size: u32, is_prefixed: bool, is_terminal: bool) -> Self {
        let is_read = is_prefixed || size > 1;
        Self { stdout: is_prefixed || is_read && !is_terminal, stderr: is_read }
    }
}

/// Threads that read what processes print.
#[derive(Debug)]
pub struct Lines {
    /// Digits of the ranks before the lines, if they are wanted.
    width: Option<usize>,
    /// Every thread has one, and lets it go when it ends.
    running: Sender<()>,
    ended: Receiver<()>,
}

impl Lines {
    /// For so many processes, with ranks before the lines or without.
    pub fn new(size: u32, is_prefixed: bool) -> Self {
        let (running, ended) = channel();
        let width = is_prefixed.then(|| (size - 1).to_string().len());
        Self { width, running, ended }
    }

    /// Begins to read from a process.
    pub fn read(&self, rank: u32, child: &mut Child) -> io::Result<()> {
        let prefix = self.width.map(|width| format!("{rank:>width$}: ")).unwrap_or_default();
        if let Some(from) = child.stdout.take() {
            self.begin(prefix.clone(), from, io::stdout)?;
        }
        if let Some(from) = child.stderr.take() {
            self.begin(prefix, from, io::stderr)?;
        }
        Ok(())
    }

    fn begin<W: Write>(
        &self,
        prefix: String,
        from: impl Read + Send + 'static,
        to: impl Fn() -> W + Send + 'static,
    ) -> io::Result<()> {
        let running = self.running.clone();
        let work = move || {
            // Where nobody reads it any more, the process gets to know that as it always does:
            // what it writes to is closed.
            let _ = copy_lines(&prefix, BufReader::new(from), to);
            drop(running);
        };
        thread::Builder::new().name("output".to_owned()).spawn(work).map(|_| ())
    }

    /// Waits until everything was printed, or a time has come: a process that has left its group
    /// may hold on to what it prints to.
    pub fn finish(self, deadline: Instant) {
        drop(self.running);
        // Nothing is ever sent: it ends when all threads have.
        let _ = self.ended.recv_timeout(deadline.saturating_duration_since(Instant::now()));
    }
}

/// Copies line by line, each with one write, so that lines of several processes do not mix.
fn copy_lines<W: Write>(
    prefix: &str,
    mut from: impl BufRead,
    to: impl Fn() -> W,
) -> io::Result<()> {
    let mut line = Vec::new();
    loop {
        line.clear();
        line.extend_from_slice(prefix.as_bytes());
        if from.by_ref().take(LINE_LIMIT_BYTES).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        // Without prefixes every byte stays as it is.
        if !line.ends_with(b"\n") && !prefix.is_empty() {
            line.push(b'\n');
        }
        print(&line, to())?;
    }
}

/// Prints a line that ends with a newline, with one write.
fn print(line: &[u8], mut to: impl Write) -> io::Result<()> {
    let _alone = PRINTING.lock().unwrap_or_else(PoisonError::into_inner);
    to.write_all(line)?;
    to.flush()
}

/// Prints a line on stderr between those of the processes.
pub fn print_error(line: &str) {
    // Where nobody reads it, nobody misses it.
    let _ = print(format!("{line}\n").as_bytes(), io::stderr());
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn streams_are_read_where_lines_could_mix() {
        let streams = |size, prefix, terminal| {
            let Streams { stdout, stderr } = Streams::of(size, prefix, terminal);
            (stdout, stderr)
        };
        assert_eq!(streams(1, false, false), (false, false));
        assert_eq!(streams(4, false, false), (true, true));
        assert_eq!(streams(4, false, true), (false, true));
        assert_eq!(streams(1, true, true), (true, true));
    }

    #[test]
    fn every_line_has_its_prefix() {
        let page = Page::default();
        copy_lines("3: ", &b"one\n\ntwo \xff\nend"[..], || page.clone()).unwrap();
        assert_eq!(*page.0.lock().unwrap(), b"3: one\n3: \n3: two \xff\n3: end\n");
        let page = Page::default();
        let limit = usize::try_from(LINE_LIMIT_BYTES).unwrap();
        copy_lines("3: ", &vec![b'x'; limit + 1][..], || page.clone()).unwrap();
        assert_eq!(page.0.lock().unwrap().len(), limit + 1 + 2 * "3: \n".len());
        assert!(page.0.lock().unwrap().ends_with(b"x\n3: x\n"));
        let page = Page::default();
        copy_lines("", &b"one\n\xff\nend"[..], || page.clone()).unwrap();
        assert_eq!(*page.0.lock().unwrap(), b"one\n\xff\nend");
    }
}
