//! Protocols for tests.

use std::marker::PhantomData;

use pario_net::{Protocol, Token};

/// A protocol with these types. Its name depends on the version alone.
pub struct Test<Q, R, const VERSION: u32 = 1>(PhantomData<(Q, R)>);

impl<Q: Token, R: Token, const VERSION: u32> Protocol for Test<Q, R, VERSION> {
    const NAME: &'static str = match VERSION {
        0 => "other/1",
        1 => "test/1",
        _ => "test/2",
    };
    type Request = Q;
    type Reply = R;
}
