//! Which threads a line of the placement file speaks of.

use std::fmt;
use std::ops::Range;

use super::error::Problem;

/// A thread or some threads of a pool, as written: `Master`, `Slave[4]`, `Slave[0..3]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern {
    /// The thread or pool, with the names of what it is part of: `ProcessB.ThreadC`.
    pub(super) name: String,
    /// Which of the pool's threads.
    pub(super) indices: Indices,
}

/// Which threads of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Indices {
    /// The name stood alone: it is no pool.
    None,
    /// `[*]`
    All,
    /// `[2]`, `[0..3]`, `[0..=2]`; never empty.
    Some(Range<usize>),
}

impl Pattern {
    /// Understands what was written.
    pub(super) fn parse(written: &str) -> Result<Pattern, Problem> {
        let bad = |reason| Problem::BadPattern { thread: written.to_owned(), reason };
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
            None => Indices::None,
            Some("*") => Indices::All,
            Some(inside) => Indices::Some(range(written, inside)?),
        };
        Ok(Pattern { name: name.to_owned(), indices })
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.indices {
            Indices::None => write!(out, "{}", self.name),
            Indices::All => write!(out, "{}[*]", self.name),
            Indices::Some(range) if range.len() == 1 => {
                write!(out, "{}[{}]", self.name, range.start)
            }
            Indices::Some(range) => write!(out, "{}[{}..{}]", self.name, range.start, range.end),
        }
    }
}

/// Parts between dots, each of them a word that may be followed by an index.
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

fn range(written: &str, inside: &str) -> Result<Range<usize>, Problem> {
    let bad = |reason| Problem::BadPattern { thread: written.to_owned(), reason };
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
        return Err(Problem::EmptyRange { thread: written.to_owned(), hint });
    }
    Ok(start..end)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parsed(text: &str) -> (String, Indices) {
        let pattern = Pattern::parse(text).unwrap();
        (pattern.name, pattern.indices)
    }

    #[test]
    fn every_form() {
        assert_eq!(parsed("Master"), ("Master".into(), Indices::None));
        assert_eq!(parsed("Slave[*]"), ("Slave".into(), Indices::All));
        assert_eq!(parsed("Slave[4]"), ("Slave".into(), Indices::Some(4..5)));
        assert_eq!(parsed("Slave[0..3]"), ("Slave".into(), Indices::Some(0..3)));
        assert_eq!(parsed("Slave[3..=4]"), ("Slave".into(), Indices::Some(3..5)));
        assert_eq!(parsed("ProcessB.ThreadC"), ("ProcessB.ThreadC".into(), Indices::None));
        assert_eq!(parsed("Node[1].Disk[0..2]"), ("Node[1].Disk".into(), Indices::Some(0..2)));
        assert_eq!(parsed("Node[1].Disk"), ("Node[1].Disk".into(), Indices::None));
        assert_eq!(parsed(" Slave [ 0 .. 3 ] "), ("Slave".into(), Indices::Some(0..3)));
    }

    #[test]
    fn what_is_not_understood() {
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
            let problem = Pattern::parse(text).unwrap_err();
            assert!(matches!(problem, Problem::BadPattern { .. }), "{text}: {problem}");
        }
    }

    #[test]
    fn empty_ranges() {
        for text in ["Slave[3..3]", "Slave[0..0]", "Slave[4..2]", "Slave[4..=2]"] {
            let problem = Pattern::parse(text).unwrap_err();
            assert!(matches!(problem, Problem::EmptyRange { .. }), "{text}: {problem}");
        }
    }

    proptest! {
        #[test]
        fn any_text_gives_an_answer(text in "[A-C.\\[\\]0-9=* ]{0,12}") {
            let _ = Pattern::parse(&text);
        }

        #[test]
        fn what_is_shown_reads_back(
            name in "[A-Z][a-z]{0,5}(\\.[A-Z][a-z]{0,5})?", start in 0usize..50, length in 1usize..50,
        ) {
            let pattern = Pattern { name, indices: Indices::Some(start..start + length) };
            prop_assert_eq!(Pattern::parse(&pattern.to_string()).unwrap(), pattern);
        }
    }
}
