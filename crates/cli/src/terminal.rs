//! Output to stdout: JSON or lines of text.

use std::io::{self, BufWriter, StdoutLock, Write, stdout};
use std::path::Path;

use anyhow::Context;
use serde::Serialize;

/// Returns buffered standard output.
pub fn output() -> BufWriter<StdoutLock<'static>> {
    BufWriter::new(stdout().lock())
}

/// Prints one JSON value.
pub fn print_json(value: &impl Serialize) -> anyhow::Result<()> {
    let json = serde_json::to_string_pretty(value).context("cannot encode JSON")?;
    let mut out = output();
    writeln!(out, "{json}")?;
    Ok(out.flush()?)
}

/// Prints notes on stderr about how a file was interpreted, one per line.
pub fn print_notes(file: &Path, notes: &[String]) {
    for note in notes {
        eprintln!("pario: {}: {note}", file.display());
    }
}

/// A JSON array that is printed incrementally, one value per line.
///
/// Invariant: the output is a complete document or nothing. If a command fails before the first
/// value, nothing is printed; if it fails later, the array ends there.
#[derive(Debug)]
pub struct JsonArray<W: Write> {
    out: W,
    is_empty: bool,
    is_ended: bool,
}

impl<W: Write> JsonArray<W> {
    /// Begins an array.
    pub fn begin(out: W) -> Self {
        Self { out, is_empty: true, is_ended: false }
    }

    /// Adds a value.
    pub fn push(&mut self, value: &impl Serialize) -> anyhow::Result<()> {
        let json = serde_json::to_string(value).context("cannot encode JSON")?;
        self.out.write_all(if self.is_empty { b"[\n" } else { b",\n" })?;
        self.is_empty = false;
        Ok(self.out.write_all(json.as_bytes())?)
    }

    /// Ends the array.
    pub fn end(mut self) -> io::Result<()> {
        self.is_ended = true;
        self.out.write_all(if self.is_empty { b"[]\n" } else { b"\n]\n" })?;
        self.out.flush()
    }
}

impl<W: Write> Drop for JsonArray<W> {
    fn drop(&mut self) {
        if !self.is_ended && !self.is_empty {
            // The caller reports the failure that ended the array early.
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
