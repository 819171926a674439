//! Where processes attach to a resident program.

use std::net::SocketAddr;

use pario_net::Key;

/// How other processes may attach to a program; see
/// [`Program::allow_attach`](crate::Program::allow_attach).
///
/// ```
/// use pario_flow::{AttachOptions, Key};
///
/// // Processes of this user on this machine, and processes anywhere that know the key.
/// let key = Key::random();
/// let options = AttachOptions::this_user().tcp("127.0.0.1:0".parse()?, key).limit(100);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct AttachOptions {
    pub(crate) tcp: Option<(SocketAddr, Key)>,
    pub(crate) limit: usize,
}

impl AttachOptions {
    /// Processes of this user, and of root, on this machine may attach: at most 1024 at once.
    pub fn this_user() -> Self {
        Self { tcp: None, limit: 1024 }
    }

    /// Processes that know the key may attach over TCP too. Port 0 lets the system choose; see
    /// [`RunningProgram::tcp_address`](crate::RunningProgram::tcp_address).
    pub fn tcp(mut self, address: SocketAddr, key: Key) -> Self {
        self.tcp = Some((address, key));
        self
    }

    /// Limits the processes that are attached at once.
    pub fn limit(mut self, processes: usize) -> Self {
        self.limit = processes.max(1);
        self
    }
}

/// Where a resident program is; see [`Program::attach`](crate::Program::attach).
#[derive(Clone, Debug)]
pub enum ResidentAddress {
    /// On this machine, started by the same user.
    ThisMachine,
    /// At an address, with the key of the program.
    Tcp(SocketAddr, Key),
}
