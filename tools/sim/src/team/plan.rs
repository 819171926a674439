//! Who is where, and what each rank does: random, but so that all mean the same by it, unless they
//! are to disagree.

use fastrand::Rng;
use pario_team::simulation::SLOT_BYTES;
use pario_team::{CollectiveCall, Reduction};

/// A team: its machines, its processes, and what its ranks do.
pub struct Plan {
    /// How many ranks there are.
    pub size: u32,
    /// How many machines; the host is at the first.
    pub machines: usize,
    /// The processes, captains before the others of their machine.
    pub places: Vec<Place>,
    /// What each rank calls, by rank.
    pub programs: Vec<Vec<Said>>,
    /// The number of the first round.
    pub first_round: u32,
}

/// A process: which rank it says that it is, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub rank: u32,
    pub machine: usize,
    pub is_captain: bool,
}

/// What a rank calls in a round, and what it tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    pub call: CollectiveCall,
    pub bytes: Vec<u8>,
}

impl Plan {
    /// A random one.
    pub fn random(rng: &mut Rng) -> Self {
        let mut machines = rng.usize(1..5);
        let counts: Vec<usize> = (0..machines).map(|_| rng.usize(1..5)).collect();
        let size = u32::try_from(counts.iter().sum::<usize>()).unwrap_or(0);
        let mut ranks: Vec<u32> = (0..size).collect();
        rng.shuffle(&mut ranks);
        let mut places = Vec::new();
        for (machine, count) in counts.into_iter().enumerate() {
            for number in 0..count {
                let Some(rank) = ranks.pop() else { break };
                places.push(Place { rank, machine, is_captain: number == 0 });
            }
        }
        // Some say that they are a rank that another process is: as a guest, or as a captain.
        for _ in 0..if rng.u8(0..4) == 0 { rng.usize(1..3) } else { 0 } {
            let rank = rng.u32(0..size);
            let is_captain = rng.bool();
            let machine = if is_captain { machines } else { rng.usize(0..machines) };
            machines += usize::from(is_captain);
            places.push(Place { rank, machine, is_captain });
        }
        let programs = programs(rng, size);
        // Numbers of rounds begin again after the last one.
        let first_round = if rng.u8(0..4) == 0 { u32::MAX - rng.u32(0..6) } else { 0 };
        Self { size, machines, places, programs, first_round }
    }
}

fn programs(rng: &mut Rng, size: u32) -> Vec<Vec<Said>> {
    let can_disagree = rng.u8(0..3) == 0;
    let mut programs: Vec<Vec<Said>> = (0..size).map(|_| Vec::new()).collect();
    for _ in 0..rng.usize(0..8) {
        let common = any_call(rng, size);
        let odd = (can_disagree && rng.u8(0..4) == 0).then(|| rng.u32(0..size));
        for (rank, program) in (0..).zip(&mut programs) {
            let call = if odd == Some(rank) { any_call(rng, size) } else { common };
            program.push(say(rng, rank, call));
        }
    }
    // Some leave early.
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

/// What a rank tells with a call: as much as the call wants, and nobody else the same.
fn say(rng: &mut Rng, rank: u32, call: CollectiveCall) -> Said {
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
    Said { call, bytes }
}
