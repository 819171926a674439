//! A group: some ranks of a team that make collective calls without the others.

use std::fmt;
use std::sync::Arc;

use pario_net::Bulk;

use super::Messaging;
use crate::board::SLOT_BYTES;
use crate::call::CollectiveCall;
use crate::collective::{self, CollectiveRounds, Reduction, RoundSlots};
use crate::error::TeamError;
use crate::number::Number;
use crate::remote::message::{DataReply, DataRequest, GroupSlot};
use crate::segments::Segments;
use crate::team::Team;

/// Bytes of all ranks of a group in one round.
const ROUND_BYTES: usize = 8 << 20;

/// Some ranks of a team, in an order of their own: rank 0 of the group is the first in its list.
/// Clones are the same group.
///
/// The ranks of the group make its collective calls, in the same order; other ranks of the team
/// take no part. The calls fail if any rank of the team is lost.
///
/// ```
/// # let team = pario_team::Team::meet("groups", 1, 0)?;
/// let group = team.messaging()?.group(&[0])?;
/// let mut steps = [3_u32];
/// group.reduce(pario_team::Reduction::Sum, &mut steps)?;
/// assert_eq!(steps, [3]);
/// let segments = group.segments(100)?; // memory of the ranks of the group
/// segments.put(b"by rank of the team", 0, 0)?;
/// # Ok::<(), pario_team::TeamError>(())
/// ```
#[derive(Clone)]
pub struct Group {
    shared: Arc<GroupShared>,
}

struct GroupShared {
    team: Team,
    number: u64,
    members: Vec<u32>,
    /// The rank of this process in the group.
    own: u32,
}

/// A completed round of a group.
pub struct GroupRound {
    number: u64,
    slots: Vec<GroupSlot>,
    bytes: Bulk,
}

impl Messaging {
    /// Forms a group of these ranks, together with all of them: all give the same list. Other ranks
    /// need not call.
    pub fn group(&self, members: &[u32]) -> Result<Group, TeamError> {
        let team = self.team().clone();
        let (size, rank) = (team.size(), team.rank());
        if let Some(wrong) = members.iter().find(|member| **member >= size) {
            let what = format!("there are {size} ranks, and so no rank {wrong} for a group");
            return Err(TeamError::Invalid(what));
        }
        if (1..members.len()).any(|number| members[..number].contains(&members[number])) {
            let what = "a rank is twice in the list of a group".to_owned();
            return Err(TeamError::Invalid(what));
        }
        let own = (0..).zip(members).find(|(_, member)| **member == rank).map(|(own, _)| own);
        let Some(own) = own else {
            let what = format!("rank {rank} is not in the list of the group that it forms");
            return Err(TeamError::Invalid(what));
        };
        let members = members.to_vec();
        let join = DataRequest::JoinGroup { members: members.clone(), by: rank };
        let reply = team.start_request(members[0], join)?;
        match team.wait_unless_missing(members[0], reply, |team| team.first_left(&members))? {
            DataReply::Group(number) => {
                Ok(Group { shared: Arc::new(GroupShared { team, number, members, own }) })
            }
            other => Err(team.unexpected_reply(members[0], other)),
        }
    }
}

impl Group {
    /// The rank of this process in the group.
    pub fn rank(&self) -> u32 {
        self.shared.own
    }

    /// The number of ranks.
    pub fn size(&self) -> u32 {
        u32::try_from(self.shared.members.len()).unwrap_or(u32::MAX)
    }

    /// The ranks of the group, as ranks of the team.
    pub fn members(&self) -> &[u32] {
        &self.shared.members
    }

    /// The team.
    pub fn team(&self) -> &Team {
        &self.shared.team
    }

    /// Waits until all ranks of the group are here. They then see what each has put before.
    pub fn barrier(&self) -> Result<(), TeamError> {
        self.round(CollectiveCall::Barrier, &[]).map(drop)
    }

    /// Takes part in the collective call that the other ranks of the group make, with an error of
    /// this rank: the call fails on all of them, with this rank and the reason. Returns that error.
    pub fn fail_call(&self, why: &str) -> TeamError {
        collective::fail_round(self, why)
    }

    /// Copies the bytes of one rank of the group to all of it. All give the same number of bytes.
    pub fn broadcast(&self, root: u32, bytes: &mut [u8]) -> Result<(), TeamError> {
        collective::broadcast(self, root, bytes)
    }

    /// Returns the bytes of each rank of the group; their numbers may differ.
    pub fn gather(&self, bytes: &[u8]) -> Result<Vec<Vec<u8>>, TeamError> {
        collective::gather(self, bytes)
    }

    /// Reduces the numbers of all ranks of the group, index by index; all of them get the result.
    pub fn reduce<T: Number>(
        &self,
        reduction: Reduction,
        numbers: &mut [T],
    ) -> Result<(), TeamError> {
        collective::reduce(self, reduction, numbers)
    }

    /// Allocates segments of the ranks of the group: this many bytes of this rank. They are zero.
    /// Accesses take ranks of the team; ranks outside of the group have no bytes.
    pub fn segments(&self, bytes: usize) -> Result<Segments, TeamError> {
        let team = self.team();
        let met = self.round(CollectiveCall::Allocate, &(bytes as u64).to_le_bytes())?;
        let mut lens = vec![0; team.size() as usize];
        for (number, member) in (0..).zip(self.members()) {
            let mut told = [0; 8];
            told.copy_from_slice(&met.of(number, 8));
            let len = usize::try_from(u64::from_le_bytes(told)).unwrap_or(usize::MAX);
            lens[*member as usize] = len;
        }
        let (places, shape) = team.segment_places(&lens);
        let near: Vec<(u32, usize, usize)> = (self.members().iter())
            .filter_map(|rank| places[*rank as usize].map(|(start, len)| (*rank, start, len)))
            .collect();
        // One rank of each machine asks its data server.
        let asks = near.first().is_some_and(|(rank, ..)| *rank == team.rank());
        let asked = asks.then(|| team.allocate_near(met.number, &near, shape.bytes, self.size()));
        self.agree(asked.and_then(Result::err))?;
        let taken = team.take_near(met.number, shape, places);
        self.agree(taken.as_ref().err().cloned())?;
        taken.map(|near| Segments::new(team, met.number, near, lens))
    }

    /// Tells all ranks of the group whether something went wrong here, and fails if it did on any.
    fn agree(&self, wrong: Option<TeamError>) -> Result<(), TeamError> {
        let told = wrong.map(|wrong| wrong.to_string()).unwrap_or_default();
        for (member, told) in self.members().iter().zip(self.gather(told.as_bytes())?) {
            if !told.is_empty() {
                let (job, told) = (self.team().job(), String::from_utf8_lossy(&told));
                let what = format!("job {job}: rank {member} cannot share memory: {told}");
                return Err(TeamError::Memory(what));
            }
        }
        Ok(())
    }
}

impl CollectiveRounds for Group {
    type Round<'a> = GroupRound;

    fn size(&self) -> u32 {
        self.size()
    }

    fn rank(&self) -> u32 {
        self.rank()
    }

    fn slot_bytes(&self) -> usize {
        let each = ROUND_BYTES / self.members().len();
        each.clamp(1 << 10, SLOT_BYTES) / 8 * 8
    }

    fn round(&self, call: CollectiveCall, bytes: &[u8]) -> Result<GroupRound, TeamError> {
        let GroupShared { team, number, members, .. } = &*self.shared;
        let (group, by, first) = (*number, team.rank(), members[0]);
        let (told, bytes) = (call.to_bytes(bytes.len()), bytes.to_vec().into());
        let request = DataRequest::GroupRound { group, by, call: told, bytes };
        let reply = team.start_request(first, request)?;
        let reply = team.wait_unless_missing(first, reply, |team| team.first_left(members))?;
        let (number, slots, bytes) = match reply {
            DataReply::GroupRound { number, slots, bytes } => (number, slots, bytes),
            other => return Err(team.unexpected_reply(first, other)),
        };
        let round = GroupRound { number, slots, bytes };
        if round.slots.len() != members.len() || !round.is_whole() {
            let what = format!("the data server of rank {first} gave slots that do not fit");
            return Err(TeamError::System(what));
        }
        let calls = || round.slots.iter().map(|slot| CollectiveCall::of_bytes(&slot.call));
        let failed = (0..).zip(calls()).find(|(_, call)| *call == CollectiveCall::Failed);
        if let Some((number, _)) = failed {
            let why = String::from_utf8_lossy(round.slot(number)).into_owned();
            let (job, rank) = (team.job().to_owned(), members[number as usize]);
            return Err(TeamError::RankFailed { job, rank, why });
        }
        if calls().all(|other| call.fits(other)) {
            return Ok(round);
        }
        let calls = members.iter().copied().zip(calls()).collect();
        Err(TeamError::GroupDisagree { job: team.job().to_owned(), calls })
    }
}

impl GroupRound {
    /// Whether the slots have exactly the bytes that there are.
    fn is_whole(&self) -> bool {
        let total = self.slots.iter().try_fold(0_usize, |sum, slot| sum.checked_add(slot.len));
        total == Some(self.bytes.len())
    }

    fn slot(&self, rank: u32) -> &[u8] {
        let before = self.slots.iter().take(rank as usize).map(|slot| slot.len).sum();
        let len = self.slots.get(rank as usize).map_or(0, |slot| slot.len);
        &self.bytes[before..before + len]
    }
}

impl RoundSlots for GroupRound {
    fn of(&self, rank: u32, len: usize) -> Vec<u8> {
        let mut bytes = self.slot(rank).to_vec();
        bytes.resize(len, 0);
        bytes
    }

    fn all(&self) -> Vec<Vec<u8>> {
        (0..).zip(&self.slots).map(|(rank, _)| self.slot(rank).to_vec()).collect()
    }
}

impl Drop for GroupShared {
    fn drop(&mut self) {
        let Self { team, number, members, .. } = self;
        if team.lost_ranks().is_empty() {
            // The data server ends only after this rank has left the team.
            let leave = DataRequest::LeaveGroup { group: *number };
            drop(team.start_request(members[0], leave));
        }
    }
}

impl fmt::Debug for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Group(rank {} of {:?})", self.rank(), self.members())
    }
}
