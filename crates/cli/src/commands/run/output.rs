//! Prints the output of the processes line by line, so that lines of several ranks do not mix,
//! optionally with the rank before every line.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::Child;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Instant;

/// Limit of a line; longer lines are printed in parts.
const LINE_LIMIT_BYTES: u64 = 64 << 10;

/// Held while a line is printed: both streams may lead to the same terminal or file.
static PRINTING: Mutex<()> = Mutex::new(());

/// The streams of the processes that this process reads and prints line by line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CapturedStreams {
    /// Whether stdout is captured.
    pub stdout: bool,
    /// Whether stderr is captured.
    pub stderr: bool,
}

impl CapturedStreams {
    /// Chooses the streams for a number of processes. A single process keeps its own streams. On a
    /// terminal, the C library flushes every line only if the program itself sees the terminal;
    /// with prefixes it does not.
    pub fn of(size: u32, is_prefixed: bool, is_terminal: bool) -> Self {
        let is_read = is_prefixed || size > 1;
        Self { stdout: is_prefixed || is_read && !is_terminal, stderr: is_read }
    }
}

/// The threads that read the output of processes.
#[derive(Debug)]
pub struct LineReaders {
    /// Digits of the rank prefix, if there is one.
    width: Option<usize>,
    /// Cloned into every thread, which drops it when it ends.
    running: Sender<()>,
    ended: Receiver<()>,
}

impl LineReaders {
    /// Creates readers for a number of processes, with or without rank prefixes.
    pub fn new(size: u32, is_prefixed: bool) -> Self {
        let (running, ended) = channel();
        let width = is_prefixed.then(|| (size - 1).to_string().len());
        Self { width, running, ended }
    }

    /// Starts to read the output of a process.
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
            // If writing fails, the thread ends and closes the pipe, so that the process sees a
            // broken pipe as usual.
            let _ = copy_lines(&prefix, BufReader::new(from), to);
            drop(running);
        };
        thread::Builder::new().name("output".to_owned()).spawn(work).map(|_| ())
    }

    /// Waits until all output is printed, or until the deadline: a process that has left its group
    /// may keep the pipe open.
    pub fn finish(self, deadline: Instant) {
        drop(self.running);
        // Nothing is ever sent: `recv` fails when all threads have ended.
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
        // Without prefixes the bytes stay unchanged.
        if !line.ends_with(b"\n") && !prefix.is_empty() {
            line.push(b'\n');
        }
        print(&line, to())?;
    }
}

/// Prints a line, including its newline, with one write.
fn print(line: &[u8], mut to: impl Write) -> io::Result<()> {
    let _alone = PRINTING.lock().unwrap_or_else(PoisonError::into_inner);
    to.write_all(line)?;
    to.flush()
}

/// Prints a line on stderr, between those of the processes.
pub fn print_error(line: &str) {
    // There is no other place to report a failure of stderr.
    let _ = print(format!("{line}\n").as_bytes(), io::stderr());
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[derive(Clone, Default)]
    struct OutputPage(Arc<Mutex<Vec<u8>>>);

    impl Write for OutputPage {
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
            let CapturedStreams { stdout, stderr } = CapturedStreams::of(size, prefix, terminal);
            (stdout, stderr)
        };
        assert_eq!(streams(1, false, false), (false, false));
        assert_eq!(streams(4, false, false), (true, true));
        assert_eq!(streams(4, false, true), (false, true));
        assert_eq!(streams(1, true, true), (true, true));
    }

    #[test]
    fn every_line_has_its_prefix() {
        let page = OutputPage::default();
        copy_lines("3: ", &b"one\n\ntwo \xff\nend"[..], || page.clone()).unwrap();
        assert_eq!(*page.0.lock().unwrap(), b"3: one\n3: \n3: two \xff\n3: end\n");
        let page = OutputPage::default();
        let limit = usize::try_from(LINE_LIMIT_BYTES).unwrap();
        copy_lines("3: ", &vec![b'x'; limit + 1][..], || page.clone()).unwrap();
        assert_eq!(page.0.lock().unwrap().len(), limit + 1 + 2 * "3: \n".len());
        assert!(page.0.lock().unwrap().ends_with(b"x\n3: x\n"));
        let page = OutputPage::default();
        copy_lines("", &b"one\n\xff\nend"[..], || page.clone()).unwrap();
        assert_eq!(*page.0.lock().unwrap(), b"one\n\xff\nend");
    }
}
