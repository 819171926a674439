//! What flows: any type that serde can take apart and put together again.

use std::any::{Any, type_name};

use pario_net::{Bulk, DecodeError, EncodeError, Outgoing};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) use crate::graph::short_name;

/// A value that flows through a program.
///
/// Every type with `#[derive(Serialize, Deserialize)]` is one; nothing else is to be written.
/// Between threads of one process a token moves by pointer. Between processes its fields travel
/// encoded, and fields of type [`Bulk`] as they are, without a copy.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot flow through a program",
    label = "this type is not a token",
    note = "a token may have to travel to another process: add `#[derive(Serialize, Deserialize)]` to `{Self}` (it must own what it holds)"
)]
pub trait Token: Serialize + DeserializeOwned + Send + 'static {}

impl<T: Serialize + DeserializeOwned + Send + 'static> Token for T {}

/// A token whose type only the steps around it know.
pub(crate) type Parcel = Box<dyn Any + Send>;

/// How tokens of one type travel.
#[derive(Clone, Copy)]
pub(crate) struct Codec {
    pub(crate) encode: fn(Parcel, &mut Outgoing<'_>) -> Result<(), EncodeError>,
    pub(crate) decode: fn(&[u8], Vec<Bulk>) -> Result<Parcel, DecodeError>,
    pub(crate) type_name: fn() -> &'static str,
}

impl Codec {
    pub(crate) fn of<T: Token>() -> Self {
        Self {
            encode: |parcel, out| pario_net::encode_value(&open::<T>(parcel), out),
            decode: |head, segments| {
                Ok(Box::new(pario_net::decode_value::<T>(head, segments)?) as Parcel)
            },
            type_name: type_name::<T>,
        }
    }
}

/// The token in a parcel. The types of neighbouring steps were checked when the program was
/// compiled, so a wrong one is a bug in this crate.
pub(crate) fn open<T: 'static>(parcel: Parcel) -> T {
    match parcel.downcast::<T>() {
        Ok(token) => *token,
        Err(_) => unreachable!("a step got a token that is not a {}", type_name::<T>()),
    }
}

/// The token in a parcel, to look at.
pub(crate) fn peek<T: 'static>(parcel: &Parcel) -> &T {
    parcel.downcast_ref().unwrap_or_else(|| {
        unreachable!("a step looked at a token that is not a {}", type_name::<T>())
    })
}

/// The name of a function as a person would say it: `Disk::read`, or `fallback` for a closure.
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

/// The type in `<Type as Trait>`.
fn type_of(owner: &str) -> &str {
    let inner = owner.strip_prefix('<').and_then(|rest| rest.strip_suffix('>'));
    inner.map_or(owner, |inner| inner.rsplit_once(" as ").map_or(inner, |(type_, _)| type_))
}

/// The parts of a path, where `::` inside angle brackets does not part.
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
