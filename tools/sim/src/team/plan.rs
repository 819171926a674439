//! The plan of a run: which process claims which rank on which machine, and the programs of the
//! ranks. Programs are random, with matching calls unless the ranks are to disagree.

use fastrand::Rng;
use pario_team::simulation::SLOT_BYTES;
use pario_team::{CollectiveCall, Reduction};

/// A team: its machines, its processes, and the programs of its ranks.
pub struct TeamPlan {
    /// The number of ranks.
    pub size: u32,
    /// The number of machines; the coordinator runs on the first.
    pub machines: usize,
    /// The processes, leaders before the others of their machine.
    pub processes: Vec<PlannedProcess>,
    /// The calls of each rank.
    pub programs: Vec<Vec<RoundCall>>,
    /// The number of the first round.
    pub first_round: u32,
}

/// The rank that a process claims, and its machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlannedProcess {
    pub rank: u32,
    pub machine: usize,
    pub is_leader: bool,
}

/// The call of a rank in a round, and the bytes that it sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RoundCall {
    pub call: CollectiveCall,
    pub bytes: Vec<u8>,
}

impl TeamPlan {
    /// A random plan.
    pub fn random(rng: &mut Rng) -> Self {
        let mut machines = rng.usize(1..5);
        let counts: Vec<usize> = (0..machines).map(|_| rng.usize(1..5)).collect();
        let size = u32::try_from(counts.iter().sum::<usize>()).unwrap_or(0);
        let mut ranks: Vec<u32> = (0..size).collect();
        rng.shuffle(&mut ranks);
        let mut processes = Vec::new();
        for (machine, count) in counts.into_iter().enumerate() {
            for number in 0..count {
                let Some(rank) = ranks.pop() else { break };
                processes.push(PlannedProcess { rank, machine, is_leader: number == 0 });
            }
        }
        // Some processes claim a rank that another process has, some of them as leaders.
        for _ in 0..if rng.u8(0..4) == 0 { rng.usize(1..3) } else { 0 } {
            let rank = rng.u32(0..size);
            let is_leader = rng.bool();
            let machine = if is_leader { machines } else { rng.usize(0..machines) };
            machines += usize::from(is_leader);
            processes.push(PlannedProcess { rank, machine, is_leader });
        }
        let programs = programs(rng, size);
        // The numbers of rounds wrap around.
        let first_round = if rng.u8(0..4) == 0 { u32::MAX - rng.u32(0..6) } else { 0 };
        Self { size, machines, processes, programs, first_round }
    }
}

fn programs(rng: &mut Rng, size: u32) -> Vec<Vec<RoundCall>> {
    let can_disagree = rng.u8(0..3) == 0;
    let mut programs: Vec<Vec<RoundCall>> = (0..size).map(|_| Vec::new()).collect();
    for _ in 0..rng.usize(0..8) {
        let common = any_call(rng, size);
        let odd = (can_disagree && rng.u8(0..4) == 0).then(|| rng.u32(0..size));
        for (rank, program) in (0..).zip(&mut programs) {
            let call = if odd == Some(rank) { any_call(rng, size) } else { common };
            program.push(round_call(rng, rank, call));
        }
    }
    // Some ranks leave early.
    for _ in 0..if rng.u8(0..3) == 0 { rng.usize(1..4) } else { 0 } {
        let program = &mut programs[rng.usize(0..size as usize)];
        program.truncate(rng.usize(0..=program.len()));
    }
    programs
}

fn any_call(rng: &mut Rng, size: u32) -> CollectiveCall {
    match rng.u8(0..6) {
        0 => CollectiveCall::Barrier,
        1 => CollectiveCall::Broadcast { root: rng.u32(0..size), bytes: rng.u64(0..40) },
        2 => CollectiveCall::Reduce { reduction: Reduction::Sum, kind: 6, count: rng.u64(0..5) },
        3 => CollectiveCall::Allocate,
        _ => CollectiveCall::Gather { bytes: 0 },
    }
}

/// Adds random bytes to a call, as many as it takes.
fn round_call(rng: &mut Rng, rank: u32, call: CollectiveCall) -> RoundCall {
    let (call, len) = match call {
        CollectiveCall::Broadcast { root, bytes } => (call, if root == rank { bytes } else { 0 }),
        CollectiveCall::Reduce { count, .. } => (call, count * 8),
        CollectiveCall::Gather { .. } => {
            let is_large = rng.u16(0..2000) == 0;
            let bytes = if is_large { SLOT_BYTES as u64 } else { rng.u64(0..40) };
            (CollectiveCall::Gather { bytes }, bytes)
        }
        other => (other, 0),
    };
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
    rng.fill(&mut bytes);
    RoundCall { call, bytes }
}
