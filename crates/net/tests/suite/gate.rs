//! A gate to a host that passes as many bytes as the test allows.
#![allow(dead_code, reason = "every test file uses a part of it")]

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex};

use pario_net::{Address, Space};

/// Stands between a host and its guests. In each direction only the allowed number of bytes passes;
/// all at first.
pub struct Gate {
    pub address: Address,
    pub to_guests: Arc<Direction>,
    pub to_host: Arc<Direction>,
    /// The connections; none any more when the gate is cut.
    streams: Arc<Mutex<Option<Vec<TcpStream>>>>,
}

/// The bytes in one direction.
pub struct Direction {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    allowed: u64,
    passed: u64,
    is_cut: bool,
}

impl Direction {
    fn new() -> Arc<Self> {
        let state = State { allowed: u64::MAX, passed: 0, is_cut: false };
        Arc::new(Self { state: Mutex::new(state), changed: Condvar::new() })
    }

    /// Lets this many more bytes through, and nothing after them.
    pub fn allow(&self, bytes: u64) {
        let mut state = self.state.lock().unwrap();
        state.allowed = state.passed + bytes;
        self.changed.notify_all();
    }

    /// Lets everything through.
    pub fn open(&self) {
        self.state.lock().unwrap().allowed = u64::MAX;
        self.changed.notify_all();
    }

    /// Waits until all allowed bytes have passed.
    pub fn wait_until_full(&self) {
        let state = self.state.lock().unwrap();
        drop(self.changed.wait_while(state, |state| state.passed < state.allowed).unwrap());
    }

    fn cut(&self) {
        self.state.lock().unwrap().is_cut = true;
        self.changed.notify_all();
    }

    /// Copies bytes as far as they are allowed, until either side closes or the gate is cut.
    fn let_through(&self, mut from: TcpStream, mut to: TcpStream) {
        let mut bytes = [0; 16 << 10];
        loop {
            let closed = |state: &mut State| state.passed >= state.allowed && !state.is_cut;
            let state = self.changed.wait_while(self.state.lock().unwrap(), closed).unwrap();
            if state.is_cut {
                return;
            }
            let room = usize::try_from(state.allowed - state.passed).unwrap_or(usize::MAX);
            drop(state);
            let wanted = room.min(bytes.len());
            let count = from.read(&mut bytes[..wanted]).unwrap_or(0);
            if count == 0 || to.write_all(&bytes[..count]).is_err() {
                let _ = to.shutdown(Shutdown::Both);
                let _ = from.shutdown(Shutdown::Both);
                return;
            }
            self.state.lock().unwrap().passed += count as u64;
            self.changed.notify_all();
        }
    }
}

impl Gate {
    /// An open gate in front of a host that listens on TCP.
    pub fn new(host: &Space) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::tcp(listener.local_addr().unwrap());
        let host = host.address().tcp.unwrap();
        let (to_guests, to_host) = (Direction::new(), Direction::new());
        let streams = Arc::new(Mutex::new(Some(Vec::new())));
        let gate = Self {
            address,
            to_guests: to_guests.clone(),
            to_host: to_host.clone(),
            streams: streams.clone(),
        };
        std::thread::spawn(move || {
            while let Ok((guest, _)) = listener.accept() {
                let Ok(host) = TcpStream::connect(host) else { continue };
                let pair = || (guest.try_clone().unwrap(), host.try_clone().unwrap());
                match &mut *streams.lock().unwrap() {
                    Some(streams) => streams.extend([pair().0, pair().1]),
                    None => return,
                }
                let (direction, (guest, host)) = (to_guests.clone(), pair());
                std::thread::spawn(move || direction.let_through(host, guest));
                let (direction, (guest, host)) = (to_host.clone(), pair());
                std::thread::spawn(move || direction.let_through(guest, host));
            }
        });
        gate
    }

    /// Ends all connections and refuses new ones.
    pub fn cut(&self) {
        self.to_guests.cut();
        self.to_host.cut();
        let streams = self.streams.lock().unwrap().take();
        for stream in streams.into_iter().flatten() {
            let _ = stream.shutdown(Shutdown::Both);
        }
        // The listener closes when it accepts the next connection.
        let _ = TcpStream::connect(self.address.tcp.unwrap());
    }
}
