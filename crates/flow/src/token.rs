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
///
/// Any other type becomes a *local token* by an empty implementation. A local token needs no
/// encoding, because it never leaves its process: [`launch`](crate::Program::launch) refuses a
/// placement that could send it to another one.
///
/// ```
/// use std::sync::mpsc::{Sender, channel};
///
/// use pario_flow::{Program, Token};
///
/// /// A channel has no encoding.
/// struct Job(u64, Sender<u64>);
/// impl Token for Job {}
///
/// let mut program = Program::new("local");
/// let worker = program.thread("Worker", || ());
/// let square = program.operation("square", |b| b
///     .on(worker)
///     .run(|_, Job(number, done)| done.send(number * number).is_ok()));
/// let run = program.launch(None)?;
/// let (done, squares) = channel();
/// assert!(run.call(square, Job(7, done))?);
/// assert_eq!(squares.recv()?, 49);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot flow through a program",
    label = "this type is not a token",
    note = "a token may travel to another process: add `#[derive(Serialize, Deserialize)]` to `{Self}` (it must own its contents)",
    note = "if it never leaves its process: add `impl Token for {Self} {{}}`"
)]
pub trait Token: Send + 'static {
    /// The codec for transfers between processes; `None` for a local token.
    #[doc(hidden)]
    const CODEC: Option<TokenCodec> = None;
}

impl<T: Serialize + DeserializeOwned + Send + 'static> Token for T {
    const CODEC: Option<TokenCodec> = Some(TokenCodec { encode: encode::<T>, decode: decode::<T> });
}

/// A token without its type. The steps on both sides of it know the type.
pub(crate) type ErasedToken = Box<dyn Any + Send>;

/// Encodes and decodes the tokens of one type.
#[doc(hidden)]
#[derive(Clone, Copy)]
pub struct TokenCodec {
    encode: fn(ErasedToken, &mut Outgoing<'_>) -> Result<(), EncodeError>,
    decode: fn(&[u8], Vec<Bulk>) -> Result<ErasedToken, DecodeError>,
}

fn encode<T: Serialize + 'static>(
    token: ErasedToken,
    out: &mut Outgoing<'_>,
) -> Result<(), EncodeError> {
    pario_net::encode_value(&downcast::<T>(token), out)
}

fn decode<T: DeserializeOwned + Send + 'static>(
    head: &[u8],
    segments: Vec<Bulk>,
) -> Result<ErasedToken, DecodeError> {
    Ok(Box::new(pario_net::decode_value::<T>(head, segments)?))
}

/// The type of a token: its name, and its codec.
#[derive(Clone, Copy)]
pub(crate) struct TokenType {
    pub(crate) name: fn() -> &'static str,
    /// `None` for a local token.
    codec: Option<TokenCodec>,
}

impl TokenType {
    pub(crate) fn of<T: Token>() -> Self {
        Self { name: type_name::<T>, codec: T::CODEC }
    }

    /// Whether tokens of this type cannot leave their process.
    pub(crate) fn is_local(self) -> bool {
        self.codec.is_none()
    }

    pub(crate) fn encode(
        self,
        token: ErasedToken,
        out: &mut Outgoing<'_>,
    ) -> Result<(), EncodeError> {
        match self.codec {
            Some(codec) => (codec.encode)(token, out),
            None => Err(EncodeError::Other(self.locality())),
        }
    }

    pub(crate) fn decode(
        self,
        head: &[u8],
        segments: Vec<Bulk>,
    ) -> Result<ErasedToken, DecodeError> {
        match self.codec {
            Some(codec) => (codec.decode)(head, segments),
            None => Err(DecodeError::Other(self.locality())),
        }
    }

    /// The launch refuses placements in which this is a reason.
    fn locality(self) -> String {
        format!("a {} cannot leave its process", short_name((self.name)()))
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
