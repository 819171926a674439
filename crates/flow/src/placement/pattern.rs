//! Thread patterns: the threads that a line of the placement file names.

use std::fmt;
use std::ops::Range;

use super::error::PlacementProblem;

/// A pattern for threads: `Master`, `Slave[4]`, `Slave[0..3]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ThreadPattern {
    /// The thread or pool with its scopes: `Server.Disk`.
    pub(super) name: String,
    /// The indices in the pool.
    pub(super) indices: PatternIndices,
}

/// The indices of a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PatternIndices {
    /// No index: a thread, not a pool.
    None,
    /// `[*]`
    All,
    /// `[2]`, `[0..3]`, `[0..=2]`; never empty.
    Some(Range<usize>),
}

impl ThreadPattern {
    /// Parses a pattern.
    pub(super) fn parse(written: &str) -> Result<ThreadPattern, PlacementProblem> {
        let bad = |reason| PlacementProblem::BadPattern { thread: written.to_owned(), reason };
        let text = written.trim();
        let (name, inside) = match text.strip_suffix(']') {
            Some(front) => {
                let (name, inside) = front.rsplit_once('[').ok_or_else(|| bad("no \"[\""))?;
                (name.trim_end(), Some(inside.trim()))
            }
            None if text.contains(['[', ']']) && !is_name(text) => {
                return Err(bad("the brackets do not match"));
            }
            None => (text, None),
        };
        if !is_name(name) {
            return Err(bad("the name is missing or is not a name"));
        }
        let indices = match inside {
            None => PatternIndices::None,
            Some("*") => PatternIndices::All,
            Some(inside) => PatternIndices::Some(range(written, inside)?),
        };
        Ok(ThreadPattern { name: name.to_owned(), indices })
    }
}

impl fmt::Display for ThreadPattern {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.indices {
            PatternIndices::None => write!(out, "{}", self.name),
            PatternIndices::All => write!(out, "{}[*]", self.name),
            PatternIndices::Some(range) if range.len() == 1 => {
                write!(out, "{}[{}]", self.name, range.start)
            }
            PatternIndices::Some(range) => {
                write!(out, "{}[{}..{}]", self.name, range.start, range.end)
            }
        }
    }
}

/// Returns whether a text is a name: words, each with an optional index, separated by dots.
fn is_name(text: &str) -> bool {
    text.split('.').all(|part| {
        let word = match part.strip_suffix(']').and_then(|part| part.split_once('[')) {
            Some((word, index)) if index.parse::<usize>().is_ok() => word,
            Some(_) => return false,
            None => part,
        };
        !word.is_empty() && !word.contains(|c: char| "[]*".contains(c) || c.is_whitespace())
    })
}

fn range(written: &str, inside: &str) -> Result<Range<usize>, PlacementProblem> {
    let bad = |reason| PlacementProblem::BadPattern { thread: written.to_owned(), reason };
    let number = |text: &str| {
        let text = text.trim();
        if !text.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(bad("an index is a number from 0"));
        }
        text.parse::<usize>()
            .ok()
            .filter(|number| *number < usize::MAX)
            .ok_or_else(|| bad("an index is a number from 0"))
    };
    let (start, end, closed) = match inside.split_once("..") {
        None => {
            let index = number(inside)?;
            (index, index + 1, false)
        }
        Some((start, end)) => match end.strip_prefix('=') {
            Some(end) => (number(start)?, number(end)? + 1, true),
            None => (number(start)?, number(end)?, false),
        },
    };
    if start >= end {
        let hint = if !closed && start == end && start > 0 {
            format!(": it ends before {end}; write {start}..={end} to include {end}")
        } else {
            String::new()
        };
        return Err(PlacementProblem::EmptyRange { thread: written.to_owned(), hint });
    }
    Ok(start..end)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parsed(text: &str) -> (String, PatternIndices) {
        let pattern = ThreadPattern::parse(text).unwrap();
        (pattern.name, pattern.indices)
    }

    #[test]
    fn every_form() {
        assert_eq!(parsed("Master"), ("Master".into(), PatternIndices::None));
        assert_eq!(parsed("Slave[*]"), ("Slave".into(), PatternIndices::All));
        assert_eq!(parsed("Slave[4]"), ("Slave".into(), PatternIndices::Some(4..5)));
        assert_eq!(parsed("Slave[0..3]"), ("Slave".into(), PatternIndices::Some(0..3)));
        assert_eq!(parsed("Slave[3..=4]"), ("Slave".into(), PatternIndices::Some(3..5)));
        assert_eq!(parsed("ProcessB.ThreadC"), ("ProcessB.ThreadC".into(), PatternIndices::None));
        assert_eq!(
            parsed("Node[1].Disk[0..2]"),
            ("Node[1].Disk".into(), PatternIndices::Some(0..2))
        );
        assert_eq!(parsed("Node[1].Disk"), ("Node[1].Disk".into(), PatternIndices::None));
        assert_eq!(parsed(" Slave [ 0 .. 3 ] "), ("Slave".into(), PatternIndices::Some(0..3)));
    }

    #[test]
    fn invalid_patterns_are_refused() {
        let bad = [
            "",
            "[0]",
            "Slave[",
            "Slave]",
            "Slave[]",
            "Slave[-1]",
            "Slave[+1]",
            "Slave[a]",
            "Slave[..3]",
            "Slave[0..]",
            "Slave[0...3]",
            "Slave[0,1]",
            "A..B",
            "A b",
            "A*",
            "Slave[18446744073709551615]",
            "Slave[0..=18446744073709551615]",
            "Slave[*].X[0]",
        ];
        for text in bad {
            let problem = ThreadPattern::parse(text).unwrap_err();
            assert!(matches!(problem, PlacementProblem::BadPattern { .. }), "{text}: {problem}");
        }
    }

    #[test]
    fn empty_ranges() {
        for text in ["Slave[3..3]", "Slave[0..0]", "Slave[4..2]", "Slave[4..=2]"] {
            let problem = ThreadPattern::parse(text).unwrap_err();
            assert!(matches!(problem, PlacementProblem::EmptyRange { .. }), "{text}: {problem}");
        }
    }

    proptest! {
        #[test]
        fn any_text_gives_an_answer(text in "[A-C.\\[\\]0-9=* ]{0,12}") {
            let _ = ThreadPattern::parse(&text);
        }

        #[test]
        fn what_is_shown_reads_back(
            name in "[A-Z][a-z]{0,5}(\\.[A-Z][a-z]{0,5})?", start in 0usize..50, length in 1usize..50,
        ) {
            let pattern = ThreadPattern { name, indices: PatternIndices::Some(start..start + length) };
            prop_assert_eq!(ThreadPattern::parse(&pattern.to_string()).unwrap(), pattern);
        }
    }
}
