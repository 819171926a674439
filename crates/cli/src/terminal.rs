//! What goes to stdout, and how: JSON for programs, lines for people.

use std::io::{self, BufWriter, StdoutLock, Write, stdout};
use std::path::Path;

use anyhow::Context;
use serde::Serialize;

/// Standard output, gathered into large writes.
pub fn output() -> BufWriter<StdoutLock<'static>> {
    BufWriter::new(stdout().lock())
}

/// Prints one JSON value.
pub fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    let json = serde_json::to_string_pretty(value).context("cannot make JSON")?;
    let mut out = output();
    writeln!(out, "{json}")?;
    Ok(out.flush()?)
}

/// Prints on stderr how a file was understood, one line for each sentence.
pub fn print_notes(file: &Path, notes: &[String]) {
    for note in notes {
        eprintln!("pario: {}: {note}", file.display());
    }
}

/// A JSON array that is printed while it is made, one value in each line.
///
/// Invariant: what is printed is a whole document or nothing. If a command fails before its first
/// value, nothing is printed; if it fails later, the array ends there.
#[derive(Debug)]
pub struct JsonArray<W: Write> {
    out: W,
    is_empty: bool,
    is_ended: bool,
}

impl<W: Write> JsonArray<W> {
    /// The beginning of an array.
    pub fn begin(out: W) -> Self {
        Self { out, is_empty: true, is_ended: false }
    }

    /// One more value.
    pub fn push(&mut self, value: &impl Serialize) -> anyhow::Result<()> {
        let json = serde_json::to_string(value).context("cannot make JSON")?;
        self.out.write_all(if self.is_empty { b"[\n" } else { b",\n" })?;
        self.is_empty = false;
        Ok(self.out.write_all(json.as_bytes())?)
    }

    /// The end of it.
    pub fn end(mut self) -> io::Result<()> {
        self.is_ended = true;
        self.out.write_all(if self.is_empty { b"[]\n" } else { b"\n]\n" })?;
        self.out.flush()
    }
}

impl<W: Write> Drop for JsonArray<W> {
    fn drop(&mut self) {
        if !self.is_ended && !self.is_empty {
            // The failure that ended it early is reported, also if this fails as well.
            let _ = self.out.write_all(b"\n]\n").and_then(|()| self.out.flush());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_is_json_at_its_end() {
        for values in [vec![], vec![1], vec![1, 2, 3]] {
            let mut text = Vec::new();
            let mut array = JsonArray::begin(&mut text);
            values.iter().try_for_each(|value| array.push(value)).unwrap();
            array.end().unwrap();
            assert_eq!(serde_json::from_slice::<Vec<i32>>(&text).unwrap(), values);
        }
    }

    #[test]
    fn an_array_that_is_given_up_is_whole_or_not_there() {
        let mut text = Vec::new();
        drop(JsonArray::begin(&mut text));
        assert!(text.is_empty());
        let mut array = JsonArray::begin(&mut text);
        array.push(&7).unwrap();
        drop(array);
        assert_eq!(serde_json::from_slice::<Vec<i32>>(&text).unwrap(), [7]);
    }
}
