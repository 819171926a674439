//! Splits a partly typed command line into words, as shells do.

/// The last command of a line, up to the cursor.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct CompletionLine {
    /// The complete words.
    pub words: Vec<String>,
    /// The word at the cursor.
    pub current: String,
}

impl CompletionLine {
    /// Splits a line. An open quote belongs to the word at the cursor.
    pub fn parse(text: &str) -> Self {
        let mut line = Self::default();
        let mut is_word = false;
        let mut quote = None;
        let mut letters = text.chars();
        while let Some(letter) = letters.next() {
            match (quote, letter) {
                (Some('\''), '\'') | (Some('"'), '"') => quote = None,
                (Some('"') | None, '\\') => {
                    line.current.extend(letters.next());
                    is_word = true;
                }
                (Some(_), letter) => line.current.push(letter),
                (None, '\'' | '"') => {
                    quote = Some(letter);
                    is_word = true;
                }
                // A new command begins.
                (None, ';' | '|' | '&' | '(' | '\n') => {
                    line = Self::default();
                    is_word = false;
                }
                (None, letter) if letter.is_whitespace() => {
                    if is_word {
                        line.words.push(std::mem::take(&mut line.current));
                    }
                    is_word = false;
                }
                (None, letter) => {
                    line.current.push(letter);
                    is_word = true;
                }
            }
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_those_of_the_last_command() {
        for (text, words, current) in [
            ("pario ls /ru", &["pario", "ls"][..], "/ru"),
            ("pario ls ", &["pario", "ls"], ""),
            ("pario", &[], "pario"),
            (r"pario cat /a\ b/c", &["pario", "cat"], "/a b/c"),
            ("pario cat '/a b/c", &["pario", "cat"], "/a b/c"),
            ("pario cat \"/a \\\" b\" /x", &["pario", "cat", "/a \" b"], "/x"),
            ("cd x && pario rm ''  /", &["pario", "rm", ""], "/"),
            ("", &[], ""),
        ] {
            let line = CompletionLine::parse(text);
            assert_eq!(line.words, words, "{text}");
            assert_eq!(line.current, current, "{text}");
        }
    }
}
