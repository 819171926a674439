//! The openers of files whose accesses are atomic, at the home node of the files.
//!
//! An *opener* is a process that has the file open, or a rank of a job that has. Openers of one
//! *group* coordinate among themselves: the threads of a process, and the ranks that have opened
//! the file together. While all openers of a file are of one group, the home node *delegates* the
//! coordination to them: each accesses the file without asking, while its lease lasts. As soon as
//! there is a second group, the home node recalls all delegations; from then on every access claims
//! its bytes here.
//!
//! Invariants: while a file has openers of two groups, none of them gets a delegation, and no open
//! and no claim is granted before every delegation has been given back. An opener that does not give
//! its delegation back for the length of a lease is taken for stopped: its lease is over by then, so
//! it begins no access without asking. Claims are granted in their order ([`ByteRangeQueue`]). An
//! access that was under way when its opener gave the delegation back is a claim before all claims
//! that wait. The end of the file is not known here: an append claims all bytes from the end on, and
//! measures the file while it holds them.
//!
//! A user can *reset* openers: all their calls fail from then on, and their claims end. An opener with
//! a delegation that is reset stands in the way of others until it has closed the file, for the length
//! of a lease at most.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use pario_net::SpaceId;
use pario_proto::{
    AtomicOutcome, BytesClaim, BytesUse, DELEGATION_LEASE_MS, FileId, FilePath, HOLDERS_SHOWN,
    LOCK_WAITS_SHOWN, OPENER_CLAIMS_LIMIT, SharedFileId, WaitCause,
};

use super::byte_range_queue::ByteRangeQueue;

/// The openers of all files whose home is this node. `T` identifies the caller that a reply goes to.
#[derive(Debug)]
pub struct AtomicOpeners<T> {
    files: HashMap<FileId, FileOpeners<T>>,
    /// The files that a process has open.
    known: HashMap<SpaceId, BTreeSet<FileId>>,
}

/// The identity of an opener.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OpenerId {
    /// The address space of the process.
    pub space: SpaceId,
    /// The number that the process has given to the opener.
    pub number: u64,
}

/// A process that opens a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewOpener {
    /// Its identity.
    pub id: OpenerId,
    /// Its user.
    pub uid: u32,
    /// The path by which it has opened the file.
    pub path: FilePath,
    /// The shared file of a job that it opens as a rank.
    pub shared_file: Option<SharedFileId>,
}

/// Why a call of an opener is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenerRefusal {
    /// The home node does not know the opener: it was restarted, or the connection was lost.
    Unknown,
    /// The opener has too many claims.
    TooManyClaims,
    /// A user has reset the opener.
    Reset,
}

/// Callers and their replies.
pub type OpenerAnswers<T> = Vec<(T, Result<AtomicOutcome, OpenerRefusal>)>;

/// A wait of an opener, for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenerWait {
    /// The process that waits.
    pub space: SpaceId,
    /// Its user.
    pub uid: u32,
    /// The path by which it has opened the file.
    pub path: FilePath,
    /// The bytes that it has claimed; none if it waits in its open.
    pub bytes: Option<BytesUse>,
    /// The processes that it waits for.
    pub holders: Vec<SpaceId>,
    /// Whether they have to give delegations back.
    pub is_recall: bool,
    /// When the wait began.
    pub since_ms: u64,
}

#[derive(Debug)]
struct FileOpeners<T> {
    /// The openers by slot. A slot is the rank of the opener in the queue of claims.
    openers: BTreeMap<u32, Opener<T>>,
    next_slot: u32,
    claims: ByteRangeQueue<T>,
}

#[derive(Debug)]
struct Opener<T> {
    who: NewOpener,
    /// The number of the current delegation, or of the next one.
    delegation: u64,
    /// Whether the opener has it.
    is_delegated: bool,
    /// When it was recalled, if it was.
    recalled_ms: Option<u64>,
    /// The call that waits for a recall.
    recall_waiter: Option<T>,
    /// The open that waits, and since when.
    opening: Option<(T, u64)>,
    /// Whether a user has reset it.
    is_reset: bool,
}

/// Openers that coordinate among themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OpenerGroup {
    /// The threads of one opener.
    Opener(OpenerId),
    /// The ranks that have opened a file together.
    Ranks(u32, SharedFileId),
}

impl<T> Default for AtomicOpeners<T> {
    fn default() -> Self {
        Self { files: HashMap::new(), known: HashMap::new() }
    }
}

impl<T> AtomicOpeners<T> {
    /// Opens a file. The reply comes when no opener of another group holds a delegation.
    pub fn open(
        &mut self,
        file: FileId,
        who: NewOpener,
        ticket: T,
        now_ms: u64,
    ) -> OpenerAnswers<T> {
        self.known.entry(who.id.space).or_default().insert(file);
        let openers = self.files.entry(file).or_default();
        if openers.is_reset(who.id) {
            return vec![(ticket, Err(OpenerRefusal::Reset))];
        }
        // An opener that opens again has lost the reply to its first open.
        let mut answers = openers.remove(who.id);
        openers.add(who, ticket, now_ms);
        answers.extend(openers.advance(now_ms));
        answers
    }

    /// Claims bytes, or delegates the coordination to the opener.
    pub fn claim(
        &mut self,
        file: FileId,
        id: OpenerId,
        (number, bytes): (u64, BytesUse),
        ticket: T,
        now_ms: u64,
    ) -> OpenerAnswers<T> {
        let Some((openers, slot)) = self.find(file, id) else {
            return vec![(ticket, Err(OpenerRefusal::Unknown))];
        };
        if openers.is_reset(id) {
            return vec![(ticket, Err(OpenerRefusal::Reset))];
        }
        if openers.claims.count_of(slot) >= OPENER_CLAIMS_LIMIT {
            return vec![(ticket, Err(OpenerRefusal::TooManyClaims))];
        }
        if let Some(outcome) = openers.delegate(slot) {
            return vec![(ticket, Ok(outcome))];
        }
        openers.claims.add(BytesClaim { rank: slot, number, bytes, since_ms: now_ms }, ticket);
        openers.advance(now_ms)
    }

    /// Releases claimed bytes.
    pub fn release(
        &mut self,
        file: FileId,
        id: OpenerId,
        number: u64,
        ticket: T,
        now_ms: u64,
    ) -> OpenerAnswers<T> {
        let mut answers = vec![(ticket, Ok(AtomicOutcome::Done))];
        if let Some((openers, slot)) = self.find(file, id) {
            openers.claims.release(slot, number);
            answers.extend(openers.advance(now_ms));
        }
        answers
    }

    /// Waits until a delegation is recalled.
    pub fn await_recall(
        &mut self,
        file: FileId,
        id: OpenerId,
        delegation: u64,
        ticket: T,
    ) -> OpenerAnswers<T> {
        let Some((openers, slot)) = self.find(file, id) else {
            return vec![(ticket, Err(OpenerRefusal::Unknown))];
        };
        let Some(opener) = openers.openers.get_mut(&slot) else { return Vec::new() };
        if opener.is_reset {
            return vec![(ticket, Err(OpenerRefusal::Reset))];
        }
        if delegation < opener.delegation || opener.recalled_ms.is_some() {
            return vec![(ticket, Ok(AtomicOutcome::Recalled))];
        }
        let before = opener.recall_waiter.replace(ticket);
        before.into_iter().map(|ticket| (ticket, Ok(AtomicOutcome::Done))).collect()
    }

    /// Takes a delegation back, with the accesses that are under way.
    pub fn give_back(
        &mut self,
        file: FileId,
        id: OpenerId,
        (delegation, claims): (u64, Vec<(u64, BytesUse)>),
        ticket: T,
        now_ms: u64,
    ) -> OpenerAnswers<T> {
        let mut answers = vec![(ticket, Ok(AtomicOutcome::Done))];
        let Some((openers, slot)) = self.find(file, id) else { return answers };
        let room = match openers.is_reset(id) {
            true => 0,
            false => OPENER_CLAIMS_LIMIT.saturating_sub(openers.claims.count_of(slot)),
        };
        // Also those of a delegation that has expired: the opener accesses these bytes.
        for (number, bytes) in claims.into_iter().take(room) {
            let claim = BytesClaim { rank: slot, number, bytes, since_ms: now_ms };
            openers.claims.add_granted(claim);
        }
        if let Some(opener) = openers.openers.get_mut(&slot)
            && opener.delegation == delegation
        {
            opener.end_delegation();
        }
        answers.extend(openers.advance(now_ms));
        answers
    }

    /// Closes a file.
    pub fn close(
        &mut self,
        file: FileId,
        id: OpenerId,
        ticket: T,
        now_ms: u64,
    ) -> OpenerAnswers<T> {
        let mut answers = self.remove(file, |known| known == id, now_ms);
        answers.push((ticket, Ok(AtomicOutcome::Done)));
        answers
    }

    /// Removes all openers of a process that is lost.
    pub fn lose(&mut self, space: SpaceId, now_ms: u64) -> OpenerAnswers<T> {
        let files = self.known.get(&space).cloned().unwrap_or_default();
        let lose = |file| self.remove(file, |known| known.space == space, now_ms);
        files.into_iter().flat_map(lose).collect()
    }

    /// Resets the openers of these files, or of all files if there are none: those of a user, or of
    /// all users. Their calls fail from now on. Returns the paths of their files.
    pub fn reset(
        &mut self,
        uid: Option<u32>,
        files: &[FilePath],
        now_ms: u64,
    ) -> (BTreeSet<FilePath>, OpenerAnswers<T>) {
        let (mut paths, mut answers) = (BTreeSet::new(), Vec::new());
        let is_wanted = |openers: &&mut FileOpeners<T>| {
            let mut known = openers.openers.values().map(|opener| &opener.who.path);
            files.is_empty() || known.any(|path| files.contains(path))
        };
        for openers in self.files.values_mut().filter(is_wanted) {
            let is_of = |opener: &&Opener<T>| uid.is_none_or(|uid| uid == opener.who.uid);
            let own = openers.openers.values().filter(is_of).filter(|opener| !opener.is_reset);
            let ids: Vec<OpenerId> = own.map(|opener| opener.who.id).collect();
            for id in ids {
                paths.extend(openers.path_of(id));
                answers.extend(openers.reset(id, now_ms));
            }
            answers.extend(openers.advance(now_ms));
        }
        (paths, answers)
    }

    /// Lets the waits go on that have waited for openers which have not given their delegations back
    /// in time.
    pub fn expire(&mut self, now_ms: u64) -> OpenerAnswers<T> {
        let files = self.files.values_mut();
        let late = files.filter(|openers| openers.next_expiry_ms().is_some_and(|at| at <= now_ms));
        late.flat_map(|openers| openers.advance(now_ms)).collect()
    }

    /// The time until which an opener has to give back a delegation that is recalled.
    pub fn next_expiry_ms(&self) -> Option<u64> {
        self.files.values().filter_map(FileOpeners::next_expiry_ms).min()
    }

    /// The number of openers of a process.
    pub fn count_of(&self, space: SpaceId) -> u64 {
        let files = self.known.get(&space).into_iter().flatten();
        let openers = files.filter_map(|file| self.files.get(file));
        let own = |opener: &&Opener<T>| opener.who.id.space == space;
        openers.map(|openers| openers.openers.values().filter(own).count() as u64).sum()
    }

    /// Whether the node knows no opener.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty() && self.known.is_empty()
    }

    /// The waits, longest first.
    pub fn waits(&self, now_ms: u64) -> Vec<OpenerWait> {
        let waits = self.files.values().flat_map(|openers| openers.waits(now_ms));
        let mut waits: Vec<_> = waits.take(LOCK_WAITS_SHOWN).collect();
        waits.sort_by_key(|wait| wait.since_ms);
        waits
    }

    fn find(&mut self, file: FileId, id: OpenerId) -> Option<(&mut FileOpeners<T>, u32)> {
        let openers = self.files.get_mut(&file)?;
        let slot = openers.slot_of(id)?;
        Some((openers, slot))
    }

    fn remove(
        &mut self,
        file: FileId,
        is_gone: impl Fn(OpenerId) -> bool,
        now_ms: u64,
    ) -> OpenerAnswers<T> {
        let Some(openers) = self.files.get_mut(&file) else { return Vec::new() };
        let ids: Vec<OpenerId> = openers.ids().filter(|id| is_gone(*id)).collect();
        let mut answers: OpenerAnswers<T> = ids.iter().flat_map(|id| openers.remove(*id)).collect();
        answers.extend(openers.advance(now_ms));
        for OpenerId { space, .. } in ids {
            if openers.ids().any(|left| left.space == space) {
                continue;
            }
            if let Some(files) = self.known.get_mut(&space) {
                files.remove(&file);
                if files.is_empty() {
                    self.known.remove(&space);
                }
            }
        }
        if openers.openers.is_empty() {
            self.files.remove(&file);
        }
        answers
    }
}

impl<T> Default for FileOpeners<T> {
    fn default() -> Self {
        Self { openers: BTreeMap::new(), next_slot: 0, claims: ByteRangeQueue::default() }
    }
}

impl<T> FileOpeners<T> {
    fn add(&mut self, who: NewOpener, ticket: T, now_ms: u64) {
        // The slots of a file that is open for ages start again from 0.
        while self.openers.contains_key(&self.next_slot) {
            self.next_slot = self.next_slot.wrapping_add(1);
        }
        let opener = Opener {
            who,
            delegation: 0,
            is_delegated: false,
            recalled_ms: None,
            recall_waiter: None,
            opening: Some((ticket, now_ms)),
            is_reset: false,
        };
        self.openers.insert(self.next_slot, opener);
        self.next_slot = self.next_slot.wrapping_add(1);
    }

    /// Removes an opener with its claims. Its calls that wait end.
    fn remove(&mut self, id: OpenerId) -> OpenerAnswers<T> {
        let Some(slot) = self.slot_of(id) else { return Vec::new() };
        let removed = self.openers.remove(&slot);
        let claims = self.claims.take_rank(slot).into_iter();
        let Some(Opener { recall_waiter, opening, .. }) = removed else { return Vec::new() };
        let calls = recall_waiter.into_iter().chain(opening.map(|(ticket, _)| ticket));
        calls.chain(claims).map(|ticket| (ticket, Err(OpenerRefusal::Unknown))).collect()
    }

    /// Resets an opener: its claims and its calls that wait end. Others wait for the end of its
    /// delegation, as for that of a recalled one.
    fn reset(&mut self, id: OpenerId, now_ms: u64) -> OpenerAnswers<T> {
        let Some(slot) = self.slot_of(id) else { return Vec::new() };
        let claims = self.claims.take_rank(slot).into_iter();
        let Some(opener) = self.openers.get_mut(&slot) else { return Vec::new() };
        opener.is_reset = true;
        if opener.is_delegated {
            opener.recalled_ms.get_or_insert(now_ms);
        }
        let opening = opener.opening.take().map(|(ticket, _)| ticket);
        let calls = opener.recall_waiter.take().into_iter().chain(opening);
        calls.chain(claims).map(|ticket| (ticket, Err(OpenerRefusal::Reset))).collect()
    }

    fn is_reset(&self, id: OpenerId) -> bool {
        self.openers.values().any(|opener| opener.who.id == id && opener.is_reset)
    }

    fn path_of(&self, id: OpenerId) -> Option<FilePath> {
        let opener = self.openers.values().find(|opener| opener.who.id == id)?;
        Some(opener.who.path.clone())
    }

    /// Grants the opens and claims that can be granted, and recalls delegations that are in their
    /// way.
    fn advance(&mut self, now_ms: u64) -> OpenerAnswers<T> {
        let mut answers = Vec::new();
        for opener in self.openers.values_mut() {
            if opener.give_back_until_ms().is_some_and(|until| until <= now_ms) {
                opener.end_delegation();
            }
        }
        if self.has_several_groups() {
            for opener in self.openers.values_mut() {
                if opener.is_delegated && opener.recalled_ms.is_none() {
                    opener.recalled_ms = Some(now_ms);
                    let waiter = opener.recall_waiter.take();
                    answers.extend(waiter.map(|ticket| (ticket, Ok(AtomicOutcome::Recalled))));
                }
            }
            if self.openers.values().any(|opener| opener.is_delegated) {
                return answers;
            }
        }
        let opening = |(slot, opener): (&u32, &mut Opener<T>)| {
            opener.opening.take().map(|(ticket, _)| (*slot, ticket))
        };
        let opened: Vec<(u32, T)> = self.openers.iter_mut().filter_map(opening).collect();
        for (slot, ticket) in opened {
            let outcome = self.delegate(slot).unwrap_or(AtomicOutcome::AtHome);
            answers.push((ticket, Ok(outcome)));
        }
        while let Some(ticket) = self.claims.next_granted() {
            answers.push((ticket, Ok(AtomicOutcome::AtHome)));
        }
        answers
    }

    /// Delegates the coordination to an opener, if all openers are of its group.
    fn delegate(&mut self, slot: u32) -> Option<AtomicOutcome> {
        let is_alone = !self.has_several_groups();
        let opener = self.openers.get_mut(&slot)?;
        if !is_alone || opener.recalled_ms.is_some() {
            return None;
        }
        opener.is_delegated = true;
        Some(AtomicOutcome::Delegated { delegation: opener.delegation })
    }

    fn has_several_groups(&self) -> bool {
        let counts = |opener: &&Opener<T>| !opener.is_reset || opener.is_delegated;
        let mut groups = self.openers.values().filter(counts).map(Opener::group);
        let first = groups.next();
        groups.any(|group| Some(group) != first)
    }

    /// The time until which an opener has to give back a delegation that is recalled.
    fn next_expiry_ms(&self) -> Option<u64> {
        self.openers.values().filter_map(Opener::give_back_until_ms).min()
    }

    fn slot_of(&self, id: OpenerId) -> Option<u32> {
        self.openers.iter().find_map(|(slot, opener)| (opener.who.id == id).then_some(*slot))
    }

    fn ids(&self) -> impl Iterator<Item = OpenerId> {
        self.openers.values().map(|opener| opener.who.id)
    }

    fn waits(&self, now_ms: u64) -> Vec<OpenerWait> {
        let holding = self.openers.values().filter(|opener| opener.recalled_ms.is_some());
        let holding: Vec<SpaceId> =
            holding.map(|opener| opener.who.id.space).take(HOLDERS_SHOWN).collect();
        let wait = |opener: &Opener<T>, bytes, holders: Vec<SpaceId>, since_ms| OpenerWait {
            space: opener.who.id.space,
            uid: opener.who.uid,
            path: opener.who.path.clone(),
            bytes,
            is_recall: holders.is_empty() && !holding.is_empty(),
            holders: if holders.is_empty() { holding.clone() } else { holders },
            since_ms,
        };
        let opening = self.openers.values().filter_map(|opener| {
            let (_, since_ms) = opener.opening.as_ref()?;
            Some(wait(opener, None, Vec::new(), *since_ms))
        });
        let space = |slot: &u32| self.openers.get(slot).map(|opener| opener.who.id.space);
        let claims = self.claims.waits(now_ms).into_iter().filter_map(|waiting| {
            let WaitCause::Bytes(bytes) = &waiting.cause else { return None };
            let opener = self.openers.get(&waiting.arrived.first()?.0)?;
            let holders: BTreeSet<SpaceId> = bytes.ranks().iter().filter_map(space).collect();
            let holders = holders.into_iter().collect();
            Some(wait(opener, Some(bytes.wanted), holders, waiting.since_ms))
        });
        opening.chain(claims).collect()
    }
}

impl<T> Opener<T> {
    fn group(&self) -> OpenerGroup {
        match self.who.shared_file {
            Some(shared_file) => OpenerGroup::Ranks(self.who.uid, shared_file),
            None => OpenerGroup::Opener(self.who.id),
        }
    }

    fn give_back_until_ms(&self) -> Option<u64> {
        Some(self.recalled_ms?.saturating_add(DELEGATION_LEASE_MS))
    }

    fn end_delegation(&mut self) {
        self.is_delegated = false;
        self.recalled_ms = None;
        self.delegation += 1;
    }
}

#[cfg(test)]
mod tests;
