//! Tokens: the values that flow through a program, and how they cross process borders.

use std::any::{Any, type_name};

use pario_net::{Bulk, DecodeError, EncodeError, Outgoing};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) use crate::graph::short_name;

/// A value that flows through a program.
///
/// Every type with `#[derive(Serialize, Deserialize)]` that owns its contents is a token; there is
/// nothing else to implement. Between threads of one process a token moves by pointer. Between
/// processes its fields travel encoded; fields of type [`Bulk`] travel unencoded and uncopied.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot flow through a program",
    label = "this type is not a token",
    note = "a token may travel to another process: add `#[derive(Serialize, Deserialize)]` to `{Self}` (it must own its contents)"
)]
pub trait Token: Serialize + DeserializeOwned + Send + 'static {}

impl<T: Serialize + DeserializeOwned + Send + 'static> Token for T {}

/// A token without its type. The steps on both sides of it know the type.
pub(crate) type ErasedToken = Box<dyn Any + Send>;

/// Encodes and decodes the tokens of one type.
#[derive(Clone, Copy)]
pub(crate) struct TokenCodec {
    pub(crate) encode: fn(ErasedToken, &mut Outgoing<'_>) -> Result<(), EncodeError>,
    pub(crate) decode: fn(&[u8], Vec<Bulk>) -> Result<ErasedToken, DecodeError>,
    pub(crate) type_name: fn() -> &'static str,
}

impl TokenCodec {
    pub(crate) fn of<T: Token>() -> Self {
        Self {
            encode: |token, out| pario_net::encode_value(&downcast::<T>(token), out),
            decode: |head, segments| {
                Ok(Box::new(pario_net::decode_value::<T>(head, segments)?) as ErasedToken)
            },
            type_name: type_name::<T>,
        }
    }
}

/// Restores the type of a token. The compiler has checked the types of neighbouring steps, so a
/// mismatch is a bug in this crate.
pub(crate) fn downcast<T: 'static>(token: ErasedToken) -> T {
    match token.downcast::<T>() {
        Ok(token) => *token,
        Err(_) => unreachable!("a step received a token that is not a {}", type_name::<T>()),
    }
}

/// Borrows a token with its type; see [`downcast`].
pub(crate) fn downcast_ref<T: 'static>(token: &ErasedToken) -> &T {
    token.downcast_ref().unwrap_or_else(|| {
        unreachable!("a step borrowed a token that is not a {}", type_name::<T>())
    })
}

/// Returns the short name of a function, such as `Disk::read`, or `fallback` for a closure.
pub(crate) fn function_name<F>(fallback: &str) -> String {
    let full = type_name::<F>();
    if full.contains("{{closure}}") || full.starts_with("fn(") || full.starts_with("for<") {
        return fallback.to_owned();
    }
    let parts = split_path(full);
    let last_two = &parts[parts.len().saturating_sub(2)..];
    match last_two {
        [owner, name] if owner.starts_with(|c: char| c.is_uppercase() || c == '<') => {
            format!("{}::{}", short_name(type_of(owner)), short_name(name))
        }
        [.., name] => short_name(name),
        [] => fallback.to_owned(),
    }
}

/// Returns the type in `<Type as Trait>`.
fn type_of(owner: &str) -> &str {
    let inner = owner.strip_prefix('<').and_then(|rest| rest.strip_suffix('>'));
    inner.map_or(owner, |inner| inner.rsplit_once(" as ").map_or(inner, |(type_, _)| type_))
}

/// Splits a path at every `::` outside of angle brackets.
fn split_path(full: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut depth, mut start) = (0, 0);
    for (at, character) in full.char_indices() {
        match character {
            '<' => depth += 1,
            '>' => depth -= 1,
            ':' if depth == 0 && full[at..].starts_with("::") => {
                parts.push(&full[start..at]);
                start = at + 2;
            }
            _ => {}
        }
    }
    parts.push(&full[start..]);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Disk;
    impl Disk {
        fn read() {}
    }
    fn alone() {}

    fn name_of<F>(_: F) -> String {
        function_name::<F>("closure")
    }

    #[test]
    fn names_are_short() {
        assert_eq!(short_name("a::b::Tile<c::Pixel, u8>"), "Tile<Pixel, u8>");
        assert_eq!(short_name("alloc::vec::Vec<(u8, x::Y)>"), "Vec<(u8, Y)>");
        assert_eq!(name_of(Disk::read), "Disk::read");
        assert_eq!(name_of(<Vec<Vec<u8>> as Clone>::clone), "Vec<Vec<u8>>::clone");
        assert_eq!(name_of(u64::to_string), "u64::to_string");
        assert_eq!(name_of(alone), "alone");
        assert_eq!(name_of(|| 1), "closure");
    }
}
