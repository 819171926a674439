//! The accesses of one opener to a file with atomic access: which of them may begin now, and which
//! have to ask the home node first. A state machine without I/O: time is an argument.
//!
//! Invariants: of two accesses that conflict, the later one does not begin before the earlier one is
//! over. An access begins under a delegation only before its lease ends. Giving a delegation back
//! reports every access that is under way under it; the home node has a claim for each of them from
//! then on, until it is released.

use pario_proto::{AtomicOutcome, BytesUse, DELEGATION_LEASE_MS};

/// The accesses of an opener, oldest first, and its delegation.
#[derive(Debug, Default)]
pub struct OpenerClaims {
    claims: Vec<LocalClaim>,
    next: u64,
    lease: Option<DelegationLease>,
    /// Delegations with lower numbers are over.
    first_valid: u64,
}

#[derive(Debug)]
struct LocalClaim {
    number: u64,
    bytes: BytesUse,
    stage: ClaimStage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClaimStage {
    /// Waits for earlier accesses of this opener.
    Queued,
    /// The home node was asked.
    Asked,
    /// Under way under the delegation.
    Delegated,
    /// Claimed at the home node, and not under way yet.
    Granted,
    /// Under way, and claimed at the home node.
    AtHome,
}

/// The right to access the file without asking the home node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DelegationLease {
    delegation: u64,
    until_ms: u64,
}

/// What an access does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClaimStep {
    /// Wait until another access of this opener is over.
    Wait,
    /// Claim the bytes at the home node, then report its reply.
    Ask,
    /// Begin.
    Go,
}

impl OpenerClaims {
    /// Adds an access. Returns its number.
    pub fn add(&mut self, bytes: BytesUse) -> u64 {
        let number = self.next;
        self.next += 1;
        self.claims.push(LocalClaim { number, bytes, stage: ClaimStage::Queued });
        number
    }

    /// Returns what an access does next.
    pub fn step(&mut self, number: u64, now_ms: u64) -> ClaimStep {
        let Some(index) = self.index_of(number) else { return ClaimStep::Go };
        if matches!(self.claims[index].stage, ClaimStage::Granted | ClaimStage::AtHome) {
            self.claims[index].stage = ClaimStage::AtHome;
            return ClaimStep::Go;
        }
        let bytes = self.claims[index].bytes;
        if self.claims[..index].iter().any(|earlier| earlier.bytes.clashes(&bytes)) {
            return ClaimStep::Wait;
        }
        let is_leased = self.lease.is_some_and(|lease| now_ms < lease.until_ms);
        let (stage, step) = match is_leased {
            true => (ClaimStage::Delegated, ClaimStep::Go),
            false => (ClaimStage::Asked, ClaimStep::Ask),
        };
        self.claims[index].stage = stage;
        step
    }

    /// Takes the reply of the home node to a claim that was sent at `asked_ms`. Returns the number
    /// of a delegation whose recall must be waited for.
    pub fn answered(&mut self, number: u64, outcome: AtomicOutcome, asked_ms: u64) -> Option<u64> {
        let delegation = self.opened(outcome, asked_ms);
        if outcome == AtomicOutcome::AtHome
            && let Some(index) = self.index_of(number)
        {
            self.claims[index].stage = ClaimStage::Granted;
        }
        delegation
    }

    /// Takes the reply of the home node to an open that was sent at `asked_ms`. Returns the number
    /// of a delegation whose recall must be waited for.
    pub fn opened(&mut self, outcome: AtomicOutcome, asked_ms: u64) -> Option<u64> {
        match outcome {
            AtomicOutcome::Delegated { delegation } if delegation >= self.first_valid => {
                let until_ms = asked_ms.saturating_add(DELEGATION_LEASE_MS);
                self.lease = Some(DelegationLease { delegation, until_ms });
                Some(delegation)
            }
            // The recall has overtaken the reply.
            AtomicOutcome::Delegated { .. } => None,
            _ => {
                self.lease = None;
                None
            }
        }
    }

    /// Ends a delegation that is recalled. Returns the accesses under way, which the home node
    /// counts as claims from now on.
    pub fn recalled(&mut self, delegation: u64) -> Vec<(u64, BytesUse)> {
        self.first_valid = self.first_valid.max(delegation.saturating_add(1));
        self.lease = self.lease.filter(|lease| lease.delegation >= self.first_valid);
        self.report_under_way()
    }

    /// Returns the accesses that are under way without a claim at the home node, which counts them
    /// as claims from now on.
    pub fn report_under_way(&mut self) -> Vec<(u64, BytesUse)> {
        let mut under_way = Vec::new();
        for claim in &mut self.claims {
            if claim.stage == ClaimStage::Delegated {
                claim.stage = ClaimStage::AtHome;
                under_way.push((claim.number, claim.bytes));
            }
        }
        under_way
    }

    /// Ends an access. Returns whether the home node has a claim for it.
    pub fn remove(&mut self, number: u64) -> bool {
        let Some(index) = self.index_of(number) else { return false };
        matches!(self.claims.remove(index).stage, ClaimStage::Granted | ClaimStage::AtHome)
    }

    /// Forgets what the home node has granted: the connection to it is lost. It numbers delegations
    /// from 0 again.
    pub fn lose_home(&mut self) {
        self.lease = None;
        self.first_valid = 0;
        for claim in &mut self.claims {
            claim.stage = match claim.stage {
                ClaimStage::Granted => ClaimStage::Queued,
                // An access that is under way stays so.
                ClaimStage::AtHome => ClaimStage::Delegated,
                stage => stage,
            };
        }
    }

    /// Whether no access is under way or waits.
    pub fn is_idle(&self) -> bool {
        self.claims.is_empty()
    }

    fn index_of(&self, number: u64) -> Option<usize> {
        self.claims.iter().position(|claim| claim.number == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DELEGATED: AtomicOutcome = AtomicOutcome::Delegated { delegation: 0 };

    fn write(from: u64, len: u64) -> BytesUse {
        BytesUse::new(from, len, true)
    }

    #[test]
    fn a_delegation_lets_accesses_begin_until_its_lease_ends() {
        let mut claims = OpenerClaims::default();
        assert_eq!(claims.opened(DELEGATED, 100), Some(0));
        let one = claims.add(write(0, 10));
        let same = claims.add(write(5, 1));
        let other = claims.add(write(10, 10));
        assert_eq!(claims.step(one, 200), ClaimStep::Go);
        assert_eq!(
            (claims.step(same, 200), claims.step(other, 200)),
            (ClaimStep::Wait, ClaimStep::Go)
        );
        assert!(!claims.remove(one));
        let end = 100 + DELEGATION_LEASE_MS;
        assert_eq!(claims.step(same, end), ClaimStep::Ask);
        assert_eq!(claims.answered(same, DELEGATED, end), Some(0));
        assert_eq!(claims.step(same, end), ClaimStep::Go);
        assert!(!claims.remove(same) && !claims.remove(other) && claims.is_idle());
    }

    #[test]
    fn a_recall_turns_accesses_under_way_into_claims() {
        let mut claims = OpenerClaims::default();
        claims.opened(DELEGATED, 0);
        let (one, two) = (claims.add(write(0, 10)), claims.add(write(0, 10)));
        claims.step(one, 1);
        claims.step(two, 1);
        assert_eq!(claims.recalled(0), [(one, write(0, 10))]);
        assert!(claims.remove(one), "the home node must know that it is over");
        assert_eq!(claims.step(two, 2), ClaimStep::Ask);
        // The reply was sent before the recall, and arrives after it.
        assert_eq!(claims.answered(two, DELEGATED, 2), None);
        assert_eq!(claims.step(two, 3), ClaimStep::Ask);
        claims.answered(two, AtomicOutcome::AtHome, 3);
        assert_eq!(claims.step(two, 4), ClaimStep::Go);
        assert!(claims.remove(two));
        let next = AtomicOutcome::Delegated { delegation: 1 };
        assert_eq!(claims.opened(next, 5), Some(1));
    }

    #[test]
    fn a_lost_home_node_has_no_claims() {
        let mut claims = OpenerClaims::default();
        let one = claims.add(write(0, 10));
        assert_eq!(claims.step(one, 0), ClaimStep::Ask);
        claims.answered(one, AtomicOutcome::AtHome, 0);
        claims.lose_home();
        assert_eq!(claims.step(one, 0), ClaimStep::Ask, "it had not begun");
        claims.answered(one, AtomicOutcome::AtHome, 0);
        assert_eq!(claims.step(one, 0), ClaimStep::Go);
        claims.lose_home();
        assert_eq!(claims.report_under_way(), [(one, write(0, 10))]);
        claims.lose_home();
        assert!(!claims.remove(one));
        claims.opened(DELEGATED, 0);
        claims.lose_home();
        let two = claims.add(write(0, 1));
        assert_eq!(claims.step(two, 0), ClaimStep::Ask);
    }
}
