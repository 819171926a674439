//! The message of a panic.

use std::any::Any;

/// Returns the message of a panic from the payload that [`std::panic::catch_unwind`] returns.
///
/// ```
/// let payload = std::panic::catch_unwind(|| panic!("disk {} is gone", 3)).unwrap_err();
/// assert_eq!(pario_net::panic_text(&*payload), "disk 3 is gone");
/// ```
pub fn panic_text(payload: &(dyn Any + Send)) -> &str {
    let literal = payload.downcast_ref::<&str>().copied();
    let formatted = payload.downcast_ref::<String>().map(String::as_str);
    literal.or(formatted).unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use std::panic::{catch_unwind, panic_any};

    use super::*;

    #[test]
    fn literals_formatted_messages_and_other_payloads() {
        let text = |function: fn()| panic_text(&*catch_unwind(function).unwrap_err()).to_owned();
        assert_eq!(text(|| panic!("literal")), "literal");
        assert_eq!(text(|| panic!("number {}", 7)), "number 7");
        assert_eq!(text(|| panic_any(7)), "no message");
    }
}
