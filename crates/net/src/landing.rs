//! Memory of an asker into which the bytes of an answer are read, without a buffer in between.
//!
//! *Who may touch it.* The asker lends its memory and takes it back with [`Landing::end`]. Whoever
//! reads the socket holds the lock of the landing from before it looks at the memory until after
//! the system has written to it; `end` takes the same lock. Reading never waits for the peer, so
//! neither does `end`. What is still to come of an answer whose landing has ended goes to memory
//! that nobody sees.
//!
//! *What lands.* The one long segment of an answer that is as long as the landing; it is empty when
//! the answer is received. Everything else comes as if there were no landing.

use std::collections::HashMap;
use std::fmt;
use std::io::IoSliceMut;
use std::ptr::NonNull;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};

/// What one call of the system takes is more, but then a slab of the link follows.
const PARTS_LIMIT: usize = 512;

/// Memory that was lent for the bytes of one answer; see
/// [`RpcClient::start_into`](crate::RpcClient::start_into).
pub struct Landing {
    len: usize,
    lent: Mutex<Lent>,
}

/// What the lock of a landing protects: the memory itself as well.
pub(crate) struct Lent {
    parts: Vec<Part>,
    /// An answer is on its way to it; there is only one.
    is_taken: bool,
    is_filled: bool,
    is_ended: bool,
}

/// Consecutive bytes.
struct Part {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a part is used only under the lock of its landing, and `Landing::new` demands memory that
// is bound to no thread.
unsafe impl Send for Part {}

impl Landing {
    /// Lends memory: its parts are filled in order. None if there is too little of it to be worth
    /// the while, or in too many parts.
    ///
    /// # Safety
    /// Each part is memory that may be written to from any thread; until [`end`](Self::end) was
    /// called nobody else reads or writes it and it stays where it is, also if the answer does not
    /// come.
    pub unsafe fn new(parts: impl IntoIterator<Item = (NonNull<u8>, usize)>) -> Option<Arc<Self>> {
        let part = |(start, len)| Part { start, len };
        let parts: Vec<Part> = parts.into_iter().map(part).collect();
        let len = parts.iter().map(|part| part.len).sum();
        if len < crate::wire::BULK_BYTES || parts.len() > PARTS_LIMIT {
            return None;
        }
        let lent = Lent { parts, is_taken: false, is_filled: false, is_ended: false };
        Some(Arc::new(Self { len, lent: Mutex::new(lent) }))
    }

    /// Takes the memory back: nothing is written to it from now on. Whether all of it was filled.
    pub fn end(&self) -> bool {
        let mut lent = self.lent.lock();
        lent.is_ended = true;
        lent.is_filled
    }

    /// An answer is to land here; false if one did before, or the memory was taken back.
    fn begin(&self) -> bool {
        let mut lent = self.lent.lock();
        !lent.is_ended && !std::mem::replace(&mut lent.is_taken, true)
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Lent> {
        self.lent.lock()
    }
}

impl Lent {
    /// Whether the memory was taken back.
    pub fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// The memory behind its first `skip` bytes.
    ///
    /// # Panics
    /// If it was taken back.
    pub fn after(&mut self, mut skip: usize) -> impl Iterator<Item = IoSliceMut<'_>> {
        assert!(!self.is_ended, "memory that was taken back is not lent");
        let slice = move |part: &mut Part| {
            let from = skip.min(part.len);
            skip -= from;
            // SAFETY: within the part. The caller of `Landing::new` vouches for it until `end` was
            // called, which needs the lock that is held here; `&mut self` makes the access
            // exclusive.
            let rest = unsafe {
                std::slice::from_raw_parts_mut(part.start.add(from).as_ptr(), part.len - from)
            };
            IoSliceMut::new(rest)
        };
        self.parts.iter_mut().map(slice).filter(|rest| !rest.is_empty())
    }

    /// All of it was filled.
    pub fn finish(&mut self) {
        self.is_filled = true;
    }
}

impl fmt::Debug for Landing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Landing({} bytes)", self.len)
    }
}

/// The landings of a link, by the channel of the answers and the number of the question.
#[derive(Debug, Default)]
pub(crate) struct Landings(Mutex<HashMap<(u32, u64), Arc<Landing>>>);

impl Landings {
    /// Expects an answer, until it comes or what is given is dropped.
    pub fn expect(self: &Arc<Self>, channel: u32, number: u64, landing: &Arc<Landing>) -> Expected {
        self.0.lock().insert((channel, number), landing.clone());
        Expected { landings: self.clone(), key: (channel, number) }
    }

    /// Where the long segment of an answer lands that is so long, once. The head of an answer
    /// begins with the number of its question.
    pub fn take(&self, channel: u32, head: &[u8], len: usize) -> Option<Arc<Landing>> {
        let mut landings = self.0.lock();
        if landings.is_empty() {
            return None;
        }
        let key = (channel, u64::from_le_bytes(*head.first_chunk()?));
        match landings.get(&key) {
            Some(landing) if landing.len() == len && landing.begin() => landings.remove(&key),
            _ => None,
        }
    }
}

/// An answer that is expected to land.
pub(crate) struct Expected {
    landings: Arc<Landings>,
    key: (u32, u64),
}

impl Drop for Expected {
    fn drop(&mut self) {
        let _landing = self.landings.0.lock().remove(&self.key);
    }
}
