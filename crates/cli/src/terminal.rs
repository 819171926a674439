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
#[derive(Debug)]
pub struct JsonArray<W: Write> {
    out: W,
    is_empty: bool,
}

impl<W: Write> JsonArray<W> {
    /// The beginning of an array.
    pub fn begin(mut out: W) -> io::Result<Self> {
        out.write_all(b"[")?;
        Ok(Self { out, is_empty: true })
    }

    /// One more value.
    pub fn push(&mut self, value: &impl Serialize) -> anyhow::Result<()> {
        self.out.write_all(if self.is_empty { b"\n" } else { b",\n" })?;
        self.is_empty = false;
        let json = serde_json::to_string(value).context("cannot make JSON")?;
        Ok(self.out.write_all(json.as_bytes())?)
    }

    /// The end of it.
    pub fn end(mut self) -> io::Result<W> {
        self.out.write_all(if self.is_empty { b"]\n" } else { b"\n]\n" })?;
        self.out.flush()?;
        Ok(self.out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_is_json_at_its_end() {
        for values in [vec![], vec![1], vec![1, 2, 3]] {
            let mut array = JsonArray::begin(Vec::new()).unwrap();
            values.iter().try_for_each(|value| array.push(value)).unwrap();
            let text = array.end().unwrap();
            assert_eq!(serde_json::from_slice::<Vec<i32>>(&text).unwrap(), values);
        }
    }
}
