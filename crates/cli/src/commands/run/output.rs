//! What the processes print, with the rank before every line.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::Child;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Instant;

/// A line that is longer is printed in several.
const LINE_LIMIT_BYTES: u64 = 64 << 10;

/// Threads that read what processes print.
#[derive(Debug)]
pub struct Prefixes {
    width: usize,
    /// Every thread has one, and lets it go when it ends.
    running: Sender<()>,
    ended: Receiver<()>,
}

impl Prefixes {
    /// For so many processes.
    pub fn new(size: u32) -> Self {
        let (running, ended) = channel();
        Self { width: (size - 1).to_string().len(), running, ended }
    }

    /// Begins to read from a process.
    pub fn read(&self, rank: u32, child: &mut Child) -> io::Result<()> {
        let prefix = format!("{rank:>width$}: ", width = self.width);
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
        if !line.ends_with(b"\n") {
            line.push(b'\n');
        }
        let mut to = to();
        to.write_all(&line)?;
        to.flush()?;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

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
    fn every_line_has_its_prefix() {
        let page = Page::default();
        copy_lines("3: ", &b"one\n\ntwo \xff\nend"[..], || page.clone()).unwrap();
        assert_eq!(*page.0.lock().unwrap(), b"3: one\n3: \n3: two \xff\n3: end\n");
        let page = Page::default();
        let limit = usize::try_from(LINE_LIMIT_BYTES).unwrap();
        copy_lines("3: ", &vec![b'x'; limit + 1][..], || page.clone()).unwrap();
        assert_eq!(page.0.lock().unwrap().len(), limit + 1 + 2 * "3: \n".len());
        assert!(page.0.lock().unwrap().ends_with(b"x\n3: x\n"));
    }
}
