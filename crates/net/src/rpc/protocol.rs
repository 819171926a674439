//! What a client and a server of an RPC port agree on.

use crate::token::Token;

/// The name and the types of the requests and replies of an RPC port.
///
/// The name carries a version. Both sides must implement the protocol with the same name: a client
/// cannot open a port whose protocol has another one. Names of Rust types play no part in this, so
/// that types can be renamed and moved.
///
/// ```
/// use pario_net::Protocol;
///
/// /// Squares of numbers.
/// enum Squares {}
///
/// impl Protocol for Squares {
///     const NAME: &'static str = "example.squares/1";
///     type Request = u64;
///     type Reply = u64;
/// }
/// ```
pub trait Protocol: 'static {
    /// The stable name with its version, for instance `pario.node/3`. Raise the version with every
    /// change of the encoding of requests or replies.
    const NAME: &'static str;
    /// What a client sends.
    type Request: Token;
    /// What the server sends back.
    type Reply: Token;
}
