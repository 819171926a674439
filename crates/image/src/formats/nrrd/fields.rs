//! The fields of a NRRD header.

use std::collections::BTreeMap;
use std::io::{BufRead, Read};

use super::super::{FilePosition, FormatError};

/// Limit for the length of a header.
const HEADER_LIMIT_BYTES: u64 = 1 << 20;

/// Fields by their names in lower case without spaces.
pub(super) struct Fields {
    name: String,
    fields: BTreeMap<String, String>,
}

impl Fields {
    /// Reads lines up to an empty one or the end of the stream.
    pub fn read<R: BufRead>(name: &str, source: &mut R) -> Result<Fields, FormatError> {
        let mut at = 0;
        let mut fields = BTreeMap::new();
        let mut line = Vec::new();
        let mut lines = source.take(HEADER_LIMIT_BYTES);
        loop {
            line.clear();
            let read = lines.read_until(b'\n', &mut line);
            at += read.map_err(|error| FormatError::reading(name, FilePosition::Byte(at), error))?
                as u64;
            if at == HEADER_LIMIT_BYTES {
                return Err(FormatError::damaged(
                    name,
                    FilePosition::Byte(at),
                    "the header does not end",
                ));
            }
            let text = String::from_utf8_lossy(&line);
            let text = text.trim_end();
            if text.is_empty() {
                return Ok(Fields { name: name.to_owned(), fields });
            }
            // Skip the first line, comments, and keys of users, which have an equals sign.
            if text.starts_with("NRRD") || text.starts_with('#') || is_key(text) {
                continue;
            }
            let Some((field, value)) = text.split_once(':') else {
                let what = format!("{text:?} has no colon");
                return Err(FormatError::damaged(name, FilePosition::Byte(at), what));
            };
            fields.insert(field.to_lowercase().replace(' ', ""), value.trim().to_owned());
        }
    }

    pub fn get(&self, field: &str) -> Option<&str> {
        self.fields.get(field).map(String::as_str)
    }

    pub fn required(&self, field: &str) -> Result<&str, FormatError> {
        self.get(field).ok_or_else(|| self.damaged(format!("the field {field:?} is missing")))
    }

    /// Returns the words of a field, one per axis. Spaces in brackets do not separate words.
    pub fn words(&self, field: &str, axes: usize) -> Result<Option<Vec<String>>, FormatError> {
        let Some(value) = self.get(field) else { return Ok(None) };
        let mut words = vec![String::new()];
        let mut inside = false;
        for letter in value.chars() {
            inside = letter == '(' || inside && letter != ')';
            match words.last_mut() {
                Some(word) if !letter.is_whitespace() => word.push(letter),
                Some(word) if !inside && !word.is_empty() => words.push(String::new()),
                _ => {}
            }
        }
        words.retain(|word| !word.is_empty());
        if words.len() != axes {
            let count = words.len();
            let what = format!("the field {field:?} has {count} values for {axes} axes");
            return Err(self.damaged(what));
        }
        Ok(Some(words))
    }

    /// Returns a whole number, or `otherwise` if the field is absent.
    pub fn number(&self, field: &str, otherwise: i64) -> Result<i64, FormatError> {
        let Some(value) = self.get(field) else { return Ok(otherwise) };
        let what = || self.damaged(format!("the field {field:?} is {value:?}, not a number"));
        value.parse().map_err(|_| what())
    }

    pub fn damaged(&self, what: String) -> FormatError {
        FormatError::damaged(&self.name, FilePosition::Header, what)
    }
}

/// Returns whether a line is a key and a value of a user.
fn is_key(text: &str) -> bool {
    text.split_once(':').is_some_and(|(_, value)| value.starts_with('='))
}
