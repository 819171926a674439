//! The handshake: identity and proof of the key. No I/O.
//!
//! ```text
//! caller   hello:  "PARIONET" | version u16 | keyed u8 | name_len u8 | id 16 | nonce 32 | name
//! host     0 u8 | hello            or a refusal:  1 u8 | len u16 | text
//! caller   proof 32
//! host     0 u8 | proof 32         or a refusal
//! ```
//!
//! A proof is a keyed BLAKE3 hash over the prover's side and both hellos, nonces included, so that
//! it serves once and for one side only. Comparing proofs takes constant time.

use crate::error::KeyProblem;
use crate::key::{Key, SpaceId, random_bytes};

/// Version of the handshake and of everything after it.
pub(crate) const VERSION: u16 = 2;
const MAGIC: &[u8; 8] = b"PARIONET";
const FIXED_BYTES: usize = 60;
/// The longest message of a handshake.
pub(crate) const LIMIT_BYTES: usize = 1024;

/// The greeting of a space.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    pub version: u16,
    pub is_keyed: bool,
    pub id: SpaceId,
    pub nonce: [u8; 32],
    pub name: String,
}

impl Hello {
    pub fn new(name: &str, id: SpaceId, is_keyed: bool) -> Self {
        Self { version: VERSION, is_keyed, id, nonce: random_bytes(), name: name.to_owned() }
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(FIXED_BYTES + self.name.len());
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&self.version.to_le_bytes());
        bytes.push(u8::from(self.is_keyed));
        bytes.push(u8::try_from(self.name.len()).expect("names have at most 255 bytes"));
        bytes.extend_from_slice(self.id.as_bytes());
        bytes.extend_from_slice(&self.nonce);
        bytes.extend_from_slice(self.name.as_bytes());
        bytes
    }

    /// Decodes a hello and its length; `None` if more bytes are needed.
    pub fn decode(bytes: &[u8]) -> Result<Option<(Self, usize)>, String> {
        let seen = bytes.len().min(MAGIC.len());
        if bytes[..seen] != MAGIC[..seen] {
            return Err("it does not speak this protocol".to_owned());
        }
        if let Some(version) = bytes.get(8..10) {
            let version = u16::from_le_bytes([version[0], version[1]]);
            if version != VERSION {
                return Err(format!("it speaks version {version}, this is version {VERSION}"));
            }
        }
        let Some(fixed) = bytes.first_chunk::<FIXED_BYTES>() else { return Ok(None) };
        let is_keyed = match fixed[10] {
            0 => false,
            1 => true,
            _ => return Err("its hello is malformed".to_owned()),
        };
        let len = FIXED_BYTES + usize::from(fixed[11]);
        let Some(name) = bytes.get(FIXED_BYTES..len) else { return Ok(None) };
        let name = std::str::from_utf8(name).map_err(|_| "its name is not text".to_owned())?;
        let mut id = [0; 16];
        id.copy_from_slice(&fixed[12..28]);
        let mut nonce = [0; 32];
        nonce.copy_from_slice(&fixed[28..60]);
        let (id, name) = (SpaceId::from_bytes(id), name.to_owned());
        Ok(Some((Self { version: VERSION, is_keyed, id, nonce, name }, len)))
    }
}

/// The proving side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandshakeSide {
    Caller,
    Host,
}

/// A proof that only a holder of the key can compute.
pub(crate) fn proof(
    key: Option<&Key>,
    role: HandshakeSide,
    caller: &Hello,
    host: &Hello,
) -> blake3::Hash {
    let mut hasher = blake3::Hasher::new_keyed(key.map_or(&[0; 32], Key::bytes));
    hasher.update(match role {
        HandshakeSide::Caller => b"caller",
        HandshakeSide::Host => b"host..",
    });
    hasher.update(&caller.encode());
    hasher.update(&host.encode());
    hasher.finalize()
}

/// The refusal of a peer without a key by a space that has one.
const NO_KEY: &str = "it has no key, and one is needed";
/// The refusal of a peer with a key by a space that has none.
const UNEXPECTED_KEY: &str = "it has a key, and this space has none";
/// The refusal of a wrong proof.
pub(crate) const WRONG_KEY: &str = "it does not know the key";

/// The key problem in a host's refusal, from the caller's view.
pub(crate) fn key_problem_from_refusal(reason: &str) -> Option<KeyProblem> {
    match reason {
        NO_KEY => Some(KeyProblem::Missing),
        UNEXPECTED_KEY => Some(KeyProblem::Unneeded),
        WRONG_KEY => Some(KeyProblem::Wrong),
        _ => None,
    }
}

/// The key problem that the caller finds with the host.
pub(crate) fn key_problem_from_check(reason: &str) -> Option<KeyProblem> {
    match reason {
        NO_KEY => Some(KeyProblem::Unneeded),
        UNEXPECTED_KEY => Some(KeyProblem::Missing),
        WRONG_KEY => Some(KeyProblem::Wrong),
        _ => None,
    }
}

/// Returns the key that both sides must prove. On a Unix socket, where the kernel identifies the
/// peer, a side without a key is accepted too.
pub(crate) fn shared_key<'k>(
    own: Option<&'k Key>,
    peer: &Hello,
    is_unix: bool,
) -> Result<Option<&'k Key>, String> {
    match (own, peer.is_keyed) {
        (Some(_), false) | (None, true) if is_unix => Ok(None),
        (Some(_), false) => Err(NO_KEY.to_owned()),
        (None, true) => Err(UNEXPECTED_KEY.to_owned()),
        (own, _) => Ok(own),
    }
}

/// A refusal, as it is sent.
pub(crate) fn refusal(reason: &str) -> Vec<u8> {
    let mut text = reason.as_bytes();
    text = &text[..text.len().min(400)];
    let mut bytes = vec![1];
    bytes.extend_from_slice(&u16::try_from(text.len()).unwrap_or(0).to_le_bytes());
    bytes.extend_from_slice(text);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(name: &str) -> Hello {
        Hello::new(name, SpaceId::random(), true)
    }

    #[test]
    fn hellos_are_read_whole_or_not_at_all() {
        for name in ["x", "a space with a longer name"] {
            let hello = hello(name);
            let bytes = hello.encode();
            for len in 0..bytes.len() {
                assert_eq!(Hello::decode(&bytes[..len]), Ok(None));
            }
            assert_eq!(Hello::decode(&bytes), Ok(Some((hello, bytes.len()))));
        }
        assert!(Hello::decode(b"GET / HTTP/1.1").unwrap_err().contains("protocol"));
        let mut other = hello("x").encode();
        other[8] = 77;
        assert!(Hello::decode(&other[..10]).unwrap_err().contains("version 77"));
        let mut bad = hello("x").encode();
        bad[60] = 0xff;
        assert!(Hello::decode(&bad).unwrap_err().contains("not text"));
    }

    #[test]
    fn proofs_differ_by_key_role_and_nonce() {
        let (key, other) = (Key::random(), Key::random());
        let (caller, host) = (hello("caller"), hello("host"));
        let good = proof(Some(&key), HandshakeSide::Caller, &caller, &host);
        assert_eq!(good, proof(Some(&key), HandshakeSide::Caller, &caller, &host));
        assert_ne!(good, proof(Some(&other), HandshakeSide::Caller, &caller, &host));
        assert_ne!(good, proof(None, HandshakeSide::Caller, &caller, &host));
        assert_ne!(good, proof(Some(&key), HandshakeSide::Host, &caller, &host));
        assert_ne!(good, proof(Some(&key), HandshakeSide::Caller, &host, &caller));
        let again = Hello { nonce: random_bytes(), ..host.clone() };
        assert_ne!(good, proof(Some(&key), HandshakeSide::Caller, &caller, &again));
    }
}
