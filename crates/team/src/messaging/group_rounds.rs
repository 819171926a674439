//! The rounds of groups whose first rank is on this machine: a state machine without I/O.
//!
//! A group has a number from the moment when all its ranks have joined it. A round is over when all
//! its ranks have arrived; then each gets the slots of all, and the round's number, which no other
//! round of any group has.

use std::collections::HashMap;

use pario_net::Bulk;

use crate::call::CALL_BYTES;
use crate::remote::message::{DataReply, GroupSlot};

/// Numbers of groups and their rounds have this bit, and numbers of a team's objects do not.
const GROUP_NUMBER: u64 = 1 << 63;
/// The place of the first rank of the group in a number.
const RANK_SHIFT: u32 = 48;

/// The groups of a machine. `R` sends a reply.
pub struct GroupRounds<R> {
    /// The ranks that have joined, by the list of the group's ranks.
    joining: HashMap<Vec<u32>, Vec<(u32, R)>>,
    groups: HashMap<u64, GroupState<R>>,
    /// The number of groups and rounds.
    counted: u64,
}

struct GroupState<R> {
    members: Vec<u32>,
    /// What each rank has brought to the round, in the order of the ranks in the group.
    arrived: Vec<Option<Arrival<R>>>,
    /// The number of ranks that have left the group.
    left: usize,
}

struct Arrival<R> {
    call: [u8; CALL_BYTES],
    bytes: Bulk,
    ticket: R,
}

/// Replies to send.
pub type GroupReplies<R> = Vec<(R, DataReply)>;

impl<R> Default for GroupRounds<R> {
    fn default() -> Self {
        Self { joining: HashMap::new(), groups: HashMap::new(), counted: 0 }
    }
}

impl<R> GroupRounds<R> {
    /// Adds a rank that joins the group of these ranks. Forms the group when all have joined.
    pub fn join(&mut self, members: Vec<u32>, by: u32, ticket: R) -> GroupReplies<R> {
        if !members.contains(&by) {
            let what = format!("rank {by} is not in the list of the group that it joins");
            return vec![(ticket, DataReply::Invalid(what))];
        }
        let joined = self.joining.entry(members.clone()).or_default();
        if joined.iter().any(|(rank, _)| *rank == by) {
            let what = format!("rank {by} joins the same group twice at the same time");
            return vec![(ticket, DataReply::Invalid(what))];
        }
        joined.push((by, ticket));
        if joined.len() < members.len() {
            return Vec::new();
        }
        let joined = self.joining.remove(&members).unwrap_or_default();
        let group = self.next_number(members[0]);
        let arrived = members.iter().map(|_| None).collect();
        self.groups.insert(group, GroupState { members, arrived, left: 0 });
        joined.into_iter().map(|(_, ticket)| (ticket, DataReply::Group(group))).collect()
    }

    /// Adds a rank that arrives at the round of a group.
    pub fn arrive(
        &mut self,
        group: u64,
        by: u32,
        call: [u8; CALL_BYTES],
        bytes: Bulk,
        ticket: R,
    ) -> GroupReplies<R> {
        let Some(state) = self.groups.get_mut(&group) else {
            return vec![(ticket, DataReply::Invalid("there is no such group".to_owned()))];
        };
        let slot = state.members.iter().position(|member| *member == by);
        let Some(slot) = slot.filter(|slot| state.arrived[*slot].is_none()) else {
            let what = format!("rank {by} is not in the group, or has arrived at this round");
            return vec![(ticket, DataReply::Invalid(what))];
        };
        state.arrived[slot] = Some(Arrival { call, bytes, ticket });
        if state.arrived.iter().any(Option::is_none) {
            return Vec::new();
        }
        let first = state.members[0];
        let arrived: Vec<Arrival<R>> = state.arrived.iter_mut().filter_map(Option::take).collect();
        let slot = |one: &Arrival<R>| GroupSlot { call: one.call, len: one.bytes.len() };
        let slots: Vec<GroupSlot> = arrived.iter().map(slot).collect();
        let bytes: Vec<u8> = arrived.iter().flat_map(|one| one.bytes.iter()).copied().collect();
        let (bytes, number) = (Bulk::from(bytes), self.next_number(first));
        let reply = |one: Arrival<R>| {
            let (slots, bytes) = (slots.clone(), bytes.clone());
            (one.ticket, DataReply::GroupRound { number, slots, bytes })
        };
        arrived.into_iter().map(reply).collect()
    }

    /// Removes a group that all its ranks have left.
    pub fn leave(&mut self, group: u64) {
        if let Some(state) = self.groups.get_mut(&group) {
            state.left += 1;
            if state.left == state.members.len() {
                self.groups.remove(&group);
            }
        }
    }

    /// A number that no data server has used: the first rank belongs to one machine.
    fn next_number(&mut self, first: u32) -> u64 {
        self.counted += 1;
        GROUP_NUMBER | u64::from(first) << RANK_SHIFT | self.counted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn group_of(replies: &GroupReplies<u32>) -> u64 {
        match replies[..] {
            [(_, DataReply::Group(group)), ..] => group,
            _ => panic!("{replies:?}"),
        }
    }

    #[test]
    fn a_round_is_over_when_all_ranks_of_the_group_have_arrived() {
        let mut rounds = GroupRounds::default();
        assert!(rounds.join(vec![4, 2], 2, 0).is_empty());
        // The order of ranks counts.
        assert!(rounds.join(vec![2, 4], 4, 1).is_empty());
        let group = group_of(&rounds.join(vec![4, 2], 4, 2));
        let other = group_of(&rounds.join(vec![2, 4], 2, 3));
        assert_ne!(group, other);
        for round in 0..2 {
            let call = [round; CALL_BYTES];
            assert!(rounds.arrive(group, 2, call, b"two".to_vec().into(), 10).is_empty());
            let twice = rounds.arrive(group, 2, call, Bulk::new(), 11);
            assert!(matches!(&twice[..], [(11, DataReply::Invalid(_))]));
            let replies = rounds.arrive(group, 4, call, b"4".to_vec().into(), 12);
            let tickets: Vec<u32> = replies.iter().map(|(ticket, _)| *ticket).collect();
            assert_eq!(tickets, [12, 10]);
            for (_, reply) in replies {
                let DataReply::GroupRound { slots, bytes, .. } = reply else { panic!() };
                assert_eq!(slots, [GroupSlot { call, len: 1 }, GroupSlot { call, len: 3 }]);
                assert_eq!(&bytes[..], b"4two");
            }
        }
        rounds.leave(group);
        rounds.leave(group);
        let late = rounds.arrive(group, 2, [0; CALL_BYTES], Bulk::new(), 13);
        assert!(matches!(&late[..], [(13, DataReply::Invalid(_))]));
        let stranger = rounds.arrive(other, 3, [0; CALL_BYTES], Bulk::new(), 14);
        assert!(matches!(&stranger[..], [(14, DataReply::Invalid(_))]));
    }
}
