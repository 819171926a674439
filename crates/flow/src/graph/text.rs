//! Text in pictures: its width, and its escaped form in XML.

use std::fmt::Write;

/// The fonts of all pictures. The widths below are those of the widest font.
pub(crate) const FONTS: &str = "Inter, 'Segoe UI', Helvetica, Arial, 'DejaVu Sans', sans-serif";

/// Replaces the end of a text that is too long.
const ELLIPSIS: char = '…';

/// Returns an upper estimate of the width of a text, in units of its font size.
pub(crate) fn width(text: &str, size: f64, bold: bool) -> f64 {
    let ems: f64 = text.chars().map(ems).sum();
    ems * size * if bold { 1.13 } else { 1.0 }
}

/// Shortens a text to at most `most` characters.
pub(crate) fn shorten(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain([ELLIPSIS]).collect()
}

/// Escapes a text for the content of an element or the value of an attribute.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            // XML cannot represent most control characters.
            '\t' | '\n' | '\r' => escaped.push(' '),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => escaped.push('\u{fffd}'),
            c => escaped.push(c),
        }
    }
    escaped
}

/// Formats a coordinate with at most one decimal digit.
pub(crate) fn number(value: f64) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = write!(text, "{value:.1}");
    match text.strip_suffix(".0") {
        Some("-0") => "0".to_owned(),
        Some(whole) => whole.to_owned(),
        None => text,
    }
}

/// Returns the width of a character in the widest font.
fn ems(character: char) -> f64 {
    match character {
        'i' | 'j' | 'l' | '\'' | '|' | ' ' | '.' | ',' | '/' | '\\' | '·' => 0.34,
        ':' | ';' => 0.36,
        '[' | ']' | '(' | ')' | 'f' | 't' | 'r' | 'I' | 'J' | '-' | '!' => 0.44,
        'm' | 'W' | '…' | '%' | '@' | '→' | '—' => 1.0,
        'M' | 'w' | '<' | '>' | '=' | '+' | '#' | '~' | '^' => 0.89,
        'O' | 'Q' | 'G' | 'D' | 'H' | 'N' | 'U' | '&' => 0.8,
        'A'..='Z' => 0.7,
        'a'..='z' | '0'..='9' => 0.64,
        c if c.is_ascii() => 0.66,
        // Letters of other alphabets; East Asian characters are as wide as high.
        c if u32::from(c) < 0x0500 => 0.8,
        _ => 1.05,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_is_escaped() {
        assert_eq!(escape("a<b>&\"c'\u{1}\n"), "a&lt;b&gt;&amp;&quot;c&#39;\u{fffd} ");
    }

    #[test]
    fn long_texts_lose_their_end() {
        assert_eq!(shorten("Länge", 5), "Länge");
        assert_eq!(shorten("Längen", 5), "Läng…");
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!([1.0, -0.01, 2.25, 10.06].map(number), ["1", "0", "2.2", "10.1"]);
    }
}
