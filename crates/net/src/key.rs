//! The key that the spaces of one program share, and their ids.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::error::KeyError;

/// A secret of 32 bytes. Processes that know it may join.
#[derive(Clone, PartialEq, Eq)]
pub struct Key([u8; 32]);

impl Key {
    /// A new key from the system's source of randomness.
    pub fn random() -> Self {
        Self(random_bytes())
    }

    /// The key of these bytes.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The key of 64 hexadecimal digits; white space around them is ignored.
    pub fn from_hex(text: &str) -> Result<Self, KeyError> {
        let text = text.trim();
        match blake3::Hash::from_hex(text) {
            Ok(hash) => Ok(Self(*hash.as_bytes())),
            Err(_) => Err(KeyError { len: text.len() }),
        }
    }

    /// The key as 64 hexadecimal digits. Store it where no other user can read it.
    pub fn to_hex(&self) -> String {
        blake3::Hash::from_bytes(self.0).to_hex().to_string()
    }

    /// Derives the key for one purpose. Only holders of this key can derive it.
    #[must_use]
    pub fn for_purpose(&self, purpose: &str) -> Self {
        Self(*blake3::keyed_hash(&self.0, purpose.as_bytes()).as_bytes())
    }

    pub(crate) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(secret)")
    }
}

/// A random number of 128 bits that identifies a space, even among spaces of the same name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct SpaceId([u8; 16]);

impl SpaceId {
    /// A new id.
    pub fn random() -> Self {
        Self(random_bytes())
    }

    /// The id of these bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// Its bytes.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Display for SpaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for SpaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SpaceId({self})")
    }
}

impl FromStr for SpaceId {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        u128::from_str_radix(text, 16).map(|number| Self(number.to_be_bytes()))
    }
}

pub(crate) fn random_bytes<const N: usize>() -> [u8; N] {
    use rustix::rand::{GetRandomFlags, getrandom};
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        match getrandom(&mut bytes[filled..], GetRandomFlags::empty()) {
            Ok(more) => filled += more,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("the system gives no random bytes: {error}"),
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_written_and_read_but_not_shown() {
        let key = Key::random();
        assert_eq!(Key::from_hex(&format!(" {}\n", key.to_hex())).unwrap(), key);
        assert_ne!(Key::random(), key);
        assert!(Key::from_hex("abc").is_err() && Key::from_hex(&"x".repeat(64)).is_err());
        assert!(!format!("{key:?}").contains(&key.to_hex()[..8]));
        let id = SpaceId::random();
        assert_eq!(id.to_string().parse::<SpaceId>().unwrap(), id);
    }
}
