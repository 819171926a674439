//! Access rules: tokens and host names.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::str::FromStr;

use axum::http::header;
use axum::http::request::Parts;
use pario_net::read_private_file;
use rustix::rand::{GetRandomFlags, getrandom};
use thiserror::Error;

use crate::exit::UsageError;

/// A secret that clients must send: letters, digits, `-` and `_`.
#[derive(Clone, Debug)]
pub struct AccessToken(String);

/// The text is not a valid token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a token must have {LEAST_TOKEN} to {MOST_TOKEN} letters, digits, - and _")]
pub struct TokenError;

const LEAST_TOKEN: usize = 12;
const MOST_TOKEN: usize = 128;

impl AccessToken {
    /// Generates a random token.
    pub fn random() -> io::Result<Self> {
        let mut bytes = [0; 16];
        getrandom(&mut bytes, GetRandomFlags::empty())?;
        Ok(Self(bytes.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Compares a text with the token in constant time.
    pub fn is(&self, given: &str) -> bool {
        blake3::hash(self.0.as_bytes()) == blake3::hash(given.as_bytes())
    }
}

impl FromStr for AccessToken {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<Self, TokenError> {
        let is_good = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if (LEAST_TOKEN..=MOST_TOKEN).contains(&text.len()) && text.bytes().all(is_good) {
            Ok(Self(text.to_owned()))
        } else {
            Err(TokenError)
        }
    }
}

/// Reads a token from a file or an environment variable, and returns it with the name of its
/// source. Returns `None` if there is neither.
pub fn read_token(
    file: Option<&Path>,
    variable: &str,
) -> Result<Option<(AccessToken, String)>, UsageError> {
    let (text, source) = if let Some(path) = file {
        let source = path.display().to_string();
        let text = read_private_file(path, true).map_err(|error| match error.kind() {
            // The error already names the file.
            io::ErrorKind::PermissionDenied => UsageError(format!("no token: {error}")),
            _ => UsageError(format!("no token: {source}: {error}")),
        })?;
        (text, source)
    } else if let Ok(text) = std::env::var(variable) {
        (text, variable.to_owned())
    } else {
        return Ok(None);
    };
    match text.trim().parse() {
        Ok(token) => Ok(Some((token, source))),
        Err(error) => Err(UsageError(format!("the token in {source}: {error}"))),
    }
}

/// Returns whether a request on a loopback address names this machine, so that a page of a foreign
/// site cannot reach the server through its own host name.
pub fn is_for_this_machine(request: &Parts) -> bool {
    host(request).is_some_and(is_this_machine)
}

/// Returns the host name of the request, without the port.
fn host(request: &Parts) -> Option<&str> {
    let named = request.headers.get(header::HOST).and_then(|host| host.to_str().ok())?;
    match named.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => Some(name),
        _ => Some(named),
    }
}

fn is_this_machine(name: &str) -> bool {
    let v6 = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    match v6 {
        Some(v6) => v6.parse().is_ok_and(|address: Ipv6Addr| IpAddr::V6(address).is_loopback()),
        None => {
            name.eq_ignore_ascii_case("localhost")
                || name.parse().is_ok_and(|address: Ipv4Addr| address.is_loopback())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_long_and_plain() {
        assert_eq!(AccessToken::random().unwrap().as_str().len(), 32);
        assert_ne!(
            AccessToken::random().unwrap().as_str(),
            AccessToken::random().unwrap().as_str()
        );
        for text in ["", "short", "has a space in it", "umläut-umläut", &"x".repeat(129)] {
            assert!(text.parse::<AccessToken>().is_err(), "{text}");
        }
    }
}
