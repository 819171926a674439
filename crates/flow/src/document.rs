//! Configuration documents: TOML with the line of every key and value.
//!
//! A reader visits the tables of a [`Document`] in the order of the text and takes typed values.
//! A [`DocumentError`] names the line, quotes the value and suggests a similar key. A reader may
//! return the first error or collect all of them.
//!
//! It does not deserialise into types, because the errors that a user sees need the position of
//! values that are valid TOML but make no sense together.
//!
//! ```
//! use pario_flow::document::{Document, DocumentError};
//!
//! fn threads(text: &str) -> Result<u64, Vec<DocumentError>> {
//!     let document = Document::parse(text)?;
//!     let mut threads = 1;
//!     for (key, value) in document.root().entries() {
//!         match key.name() {
//!             "threads" => {
//!                 let number = value.as_integer();
//!                 threads = value.require(number, "threads", "a number").map_err(|e| vec![e])?;
//!             }
//!             _ => return Err(vec![key.unknown("a pool", &["threads"])]),
//!         }
//!     }
//!     Ok(threads)
//! }
//!
//! assert_eq!(threads("threads = 4").unwrap(), 4);
//! let errors = threads("# two lines\nthread = 4").unwrap_err();
//! assert_eq!(errors[0].line, 2);
//! let told = errors[0].problem.to_string();
//! assert_eq!(told, "a pool has no setting \"thread\"; did you mean \"threads\"?");
//! ```

use std::borrow::Cow;
use std::ops::Range;

use thiserror::Error;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The longest value that an error quotes, in bytes.
const QUOTE_LIMIT: usize = 40;

/// A TOML document.
#[derive(Debug)]
pub struct Document<'t> {
    text: &'t str,
    root: DeTable<'t>,
}

/// A table of a [`Document`].
#[derive(Clone, Copy, Debug)]
pub struct DocumentTable<'d> {
    text: &'d str,
    table: &'d DeTable<'d>,
}

/// A key of a [`DocumentTable`].
#[derive(Clone, Copy, Debug)]
pub struct DocumentKey<'d> {
    text: &'d str,
    key: &'d Spanned<Cow<'d, str>>,
}

/// A value in a [`Document`].
#[derive(Clone, Copy, Debug)]
pub struct DocumentValue<'d> {
    text: &'d str,
    value: &'d Spanned<DeValue<'d>>,
}

/// A problem in a document, and its position.
#[derive(Debug)]
pub struct DocumentError {
    /// The line, from 1.
    pub line: usize,
    /// The column, from 1, if the text is not TOML.
    pub column: Option<usize>,
    /// The problem.
    pub problem: DocumentProblem,
}

/// A problem in a document.
#[derive(Debug, Error)]
#[allow(missing_docs, reason = "the messages explain the fields")]
pub enum DocumentProblem {
    /// The text is not TOML.
    #[error("not valid TOML: {0}")]
    Syntax(String),
    /// A duplicate key.
    #[error("\"{key}\" is given twice, first in line {first}")]
    Duplicate { key: String, first: usize },
    /// An unknown key.
    #[error("{within} has no setting \"{key}\"{}", did_you_mean(.suggestion.as_deref()))]
    UnknownKey { within: String, key: String, suggestion: Option<String> },
    /// A value of the wrong type.
    #[error("{what} must be {expected}, but is {found}")]
    Type { what: String, expected: &'static str, found: String },
}

impl<'t> Document<'t> {
    /// Parses a text. Fails with all syntax errors and duplicate keys.
    pub fn parse(text: &'t str) -> Result<Self, Vec<DocumentError>> {
        let (root, errors) = DeTable::parse_recoverable(text);
        let root = root.into_inner();
        if errors.is_empty() {
            return Ok(Self { text, root });
        }
        Err(errors.iter().map(|error| syntax_error(text, &root, error)).collect())
    }

    /// Returns the outermost table.
    pub fn root(&self) -> DocumentTable<'_> {
        DocumentTable { text: self.text, table: &self.root }
    }
}

impl<'d> DocumentTable<'d> {
    /// Returns the entries in the order of the text.
    pub fn entries(&self) -> Vec<(DocumentKey<'d>, DocumentValue<'d>)> {
        let text = self.text;
        let mut entries: Vec<_> = self.table.iter().collect();
        entries.sort_by_key(|(key, _)| key.span().start);
        let entry = |(key, value)| (DocumentKey { text, key }, DocumentValue { text, value });
        entries.into_iter().map(entry).collect()
    }
}

impl<'d> DocumentKey<'d> {
    /// Returns the name.
    pub fn name(&self) -> &'d str {
        self.key.get_ref()
    }

    /// Returns the line, from 1.
    pub fn line(&self) -> usize {
        line(self.text, &self.key.span())
    }

    /// Returns the error of a key that `within` does not have; `known` are its keys.
    pub fn unknown(&self, within: impl Into<String>, known: &[&str]) -> DocumentError {
        let suggestion = nearest(self.name(), known.iter().copied());
        let (within, key) = (within.into(), self.name().to_owned());
        let problem = DocumentProblem::UnknownKey { within, key, suggestion };
        DocumentError { line: self.line(), column: None, problem }
    }
}

impl<'d> DocumentValue<'d> {
    /// Returns the line, from 1.
    pub fn line(&self) -> usize {
        line(self.text, &self.value.span())
    }

    /// Returns a string.
    pub fn as_str(&self) -> Option<&'d str> {
        self.value.get_ref().as_str()
    }

    /// Returns a boolean.
    pub fn as_bool(&self) -> Option<bool> {
        self.value.get_ref().as_bool()
    }

    /// Returns an integer that is not negative.
    pub fn as_integer(&self) -> Option<u64> {
        let number = self.value.get_ref().as_integer()?;
        u64::from_str_radix(number.as_str(), number.radix()).ok()
    }

    /// Returns a number with or without a fraction. TOML's `nan` and `inf` are such numbers.
    pub fn as_number(&self) -> Option<f64> {
        match self.value.get_ref() {
            DeValue::Float(number) => number.as_str().parse().ok(),
            _ => self.as_integer().map(|number| number as f64),
        }
    }

    /// Returns the items of an array.
    pub fn as_array(&self) -> Option<impl Iterator<Item = DocumentValue<'d>> + use<'d>> {
        let text = self.text;
        let array = self.value.get_ref().as_array()?;
        Some(array.iter().map(move |value| DocumentValue { text, value }))
    }

    /// Returns a table.
    pub fn as_table(&self) -> Option<DocumentTable<'d>> {
        let table = self.value.get_ref().as_table()?;
        Some(DocumentTable { text: self.text, table })
    }

    /// Returns a string, or the error that `what` must be one.
    pub fn string(&self, what: &str) -> Result<&'d str, DocumentError> {
        self.require(self.as_str(), what, "a string")
    }

    /// Returns what was found in the value, or the error that `what` must be `expected`.
    pub fn require<T>(
        &self,
        found: Option<T>,
        what: &str,
        expected: &'static str,
    ) -> Result<T, DocumentError> {
        found.ok_or_else(|| self.wrong_type(what, expected))
    }

    /// Returns the error that `what` must be `expected`, with the value itself if it is short.
    pub fn wrong_type(&self, what: &str, expected: &'static str) -> DocumentError {
        let found = self.text.get(self.value.span()).unwrap_or_default();
        let is_quotable = !found.is_empty() && !found.contains('\n') && found.len() <= QUOTE_LIMIT;
        let found = match is_quotable {
            true => found.to_owned(),
            false => format!("a value of type {}", self.value.get_ref().type_str()),
        };
        let problem = DocumentProblem::Type { what: what.to_owned(), expected, found };
        DocumentError { line: self.line(), column: None, problem }
    }
}

/// Returns the name in `known` that is most similar to `written`, if one is similar enough.
pub fn nearest<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    const LEAST_SIMILARITY: f64 = 0.75;
    let lower = written.to_lowercase();
    known
        .into_iter()
        .map(|name| (strsim::jaro_winkler(&lower, &name.to_lowercase()), name))
        .filter(|(similarity, _)| *similarity >= LEAST_SIMILARITY)
        .max_by(|(left, _), (right, _)| left.total_cmp(right))
        .map(|(_, name)| name.to_owned())
}

/// Returns the end of a message that suggests a name; empty without a suggestion.
pub fn did_you_mean(suggestion: Option<&str>) -> String {
    suggestion.map(|name| format!("; did you mean \"{name}\"?")).unwrap_or_default()
}

/// Formats the position of an error: `file:line:column`, as far as it is known.
pub fn location(file: &str, line: Option<usize>, column: Option<usize>) -> String {
    let numbers = [line, column].into_iter().flatten().map(|number| format!(":{number}"));
    std::iter::once(file.to_owned()).chain(numbers).collect()
}

fn syntax_error(text: &str, root: &DeTable<'_>, error: &toml::de::Error) -> DocumentError {
    let span = error.span().unwrap_or(0..0);
    let line_of = |span| line(text, span);
    if error.message().starts_with("duplicate key")
        && let Some(key) = text.get(span.clone()).map(|key| key.trim_matches(['"', '\'']))
        && let Some(first) = last_key_before(root, key, span.start)
    {
        let problem = DocumentProblem::Duplicate { key: key.to_owned(), first: line_of(&first) };
        return DocumentError { line: line_of(&span), column: None, problem };
    }
    let before = before(text, &span);
    let column = before[before.rfind('\n').map_or(0, |newline| newline + 1)..].chars().count() + 1;
    let problem = DocumentProblem::Syntax(error.message().trim().replace('\n', "; "));
    DocumentError { line: line_of(&span), column: Some(column), problem }
}

/// Returns the span of the last key of this name before a position.
fn last_key_before(table: &DeTable<'_>, name: &str, before: usize) -> Option<Range<usize>> {
    let here = table.iter().flat_map(|(key, value)| {
        let own = (key.get_ref() == name && key.span().start < before).then(|| key.span());
        let table = value.get_ref().as_table();
        own.into_iter().chain(table.and_then(|inner| last_key_before(inner, name, before)))
    });
    here.max_by_key(|span| span.start)
}

fn line(text: &str, span: &Range<usize>) -> usize {
    before(text, span).matches('\n').count() + 1
}

fn before<'t>(text: &'t str, span: &Range<usize>) -> &'t str {
    text.get(..span.start).unwrap_or(text)
}
