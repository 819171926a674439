//! The message layer: the processes of the job, groups of them, and scopes.
//!
//! It begins with `armci_msg_init` or `ARMCI_Init`, whichever comes first, and ends with
//! `armci_msg_finalize`, or with `ARMCI_Finalize` if the program has not called `armci_msg_init`.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::{c_char, c_int};
use pario::memory::{Group, Messaging, Number, Reduction, Team};
use parking_lot::{Mutex, RwLock};

use crate::boundary::{exit_failed, exit_on_error};
use crate::errors::{CallResult, ErrnoError, print_line};
use crate::process;
use crate::team::{self, team_result};

/// All processes.
pub const SCOPE_ALL: c_int = 333;
/// The processes of this machine.
pub const SCOPE_NODE: c_int = 337;
/// The first process of each machine.
pub const SCOPE_MASTERS: c_int = 339;

/// The group of all processes.
pub const WORLD: c_int = 0;

/// The message layer of this process.
pub struct MessageLayer {
    /// The team of the job.
    pub team: Team,
    /// Messages and groups of the team.
    pub messaging: Messaging,
    groups: Mutex<GroupTable>,
    /// Groups that scopes stand for, by their ranks.
    scopes: Mutex<HashMap<Vec<u32>, Group>>,
    /// For each process: notifications sent to it, and waits for its notifications.
    pub notified: Mutex<HashMap<u32, (c_int, c_int)>>,
}

/// The groups of this process, by number.
#[derive(Default)]
struct GroupTable {
    groups: HashMap<c_int, Arc<ArmciGroup>>,
    last: c_int,
    default: c_int,
}

/// A group of processes.
pub struct ArmciGroup {
    /// Its processes, as ranks of the job.
    pub members: Vec<u32>,
    /// The group in the team; none for all processes, and if this process is not in the group.
    group: Option<Group>,
}

/// The processes that take part in a collective call.
pub enum Participants {
    /// All processes of the job.
    All(Team),
    /// Some of them.
    Some(Group),
    /// Only this one.
    One,
}

static LAYER: RwLock<Option<Arc<MessageLayer>>> = RwLock::new(None);
/// Whether the program has called `armci_msg_init`.
static IS_EXPLICIT: AtomicBool = AtomicBool::new(false);

/// Starts the message layer, collectively, unless it is there.
pub fn start() -> CallResult<Arc<MessageLayer>> {
    let mut layer = LAYER.write();
    if let Some(layer) = &*layer {
        return Ok(layer.clone());
    }
    let team = team::current()?;
    let messaging = team_result(team.messaging())?;
    let started = Arc::new(MessageLayer {
        team,
        messaging,
        groups: Mutex::default(),
        scopes: Mutex::default(),
        notified: Mutex::default(),
    });
    *layer = Some(started.clone());
    Ok(started)
}

/// Returns the message layer. Fails before `armci_msg_init` and `ARMCI_Init`.
pub fn layer() -> CallResult<Arc<MessageLayer>> {
    process::check_fork()?;
    LAYER.read().clone().ok_or_else(|| {
        ErrnoError::invalid(
            "neither armci_msg_init nor ARMCI_Init has been called: call one first, on all \
             processes",
        )
    })
}

/// Ends the message layer after `ARMCI_Finalize`, unless the program ends it by
/// `armci_msg_finalize`.
pub fn end_implicit() {
    if !IS_EXPLICIT.load(Ordering::Acquire) {
        end();
    }
}

/// Drops the message layer at the exit of the process, unless a call is starting it.
pub fn forget() {
    let layer = LAYER.try_write().and_then(|mut layer| layer.take());
    drop(layer);
}

fn end() {
    let layer = LAYER.write().take();
    drop(layer);
    team::leave();
}

impl MessageLayer {
    /// Converts the number of a process to a rank.
    pub fn rank(&self, proc: c_int) -> CallResult<u32> {
        let size = self.team.size();
        u32::try_from(proc).ok().filter(|rank| *rank < size).ok_or_else(|| {
            ErrnoError::invalid(format!(
                "process {proc} does not exist: the job has {size} processes"
            ))
        })
    }

    /// Adds a group of these ranks, together with all of them. Returns its number.
    pub fn add_group(&self, members: Vec<u32>) -> CallResult<c_int> {
        let is_in = members.contains(&self.team.rank());
        let group = if is_in { Some(team_result(self.messaging.group(&members))?) } else { None };
        let mut table = self.groups.lock();
        table.last += 1;
        let number = table.last;
        table.groups.insert(number, Arc::new(ArmciGroup { members, group }));
        Ok(number)
    }

    /// Returns the group with a number.
    pub fn group(&self, number: c_int) -> CallResult<Arc<ArmciGroup>> {
        if number == WORLD {
            let members = (0..self.team.size()).collect();
            return Ok(Arc::new(ArmciGroup { members, group: None }));
        }
        let found = self.groups.lock().groups.get(&number).cloned();
        found.ok_or_else(|| ErrnoError::invalid(format!("group {number} does not exist")))
    }

    /// Removes a group of this process.
    pub fn remove_group(&self, number: c_int) -> CallResult<()> {
        if number == WORLD {
            return Err(ErrnoError::invalid("the group of all processes cannot be freed"));
        }
        let mut table = self.groups.lock();
        if table.default == number {
            table.default = WORLD;
        }
        let removed = table.groups.remove(&number);
        drop(table);
        removed
            .map(drop)
            .ok_or_else(|| ErrnoError::invalid(format!("group {number} does not exist")))
    }

    /// The number of the default group.
    pub fn default_group(&self) -> c_int {
        self.groups.lock().default
    }

    /// Sets the default group.
    pub fn set_default_group(&self, number: c_int) -> CallResult<()> {
        self.group(number)?;
        self.groups.lock().default = number;
        Ok(())
    }

    /// Returns the processes of a group that a scope selects, as ranks of the job; none if this
    /// process is not one of them.
    pub fn scope_members(&self, scope: c_int, members: &[u32]) -> CallResult<Option<Vec<u32>>> {
        let team = &self.team;
        let is_selected = |place: usize| match scope {
            SCOPE_NODE => team.is_near(members[place]),
            SCOPE_MASTERS => {
                let machine = team.machine_of(members[place]);
                !members[..place].iter().any(|other| team.machine_of(*other) == machine)
            }
            _ => true,
        };
        if ![SCOPE_ALL, SCOPE_NODE, SCOPE_MASTERS].contains(&scope) {
            return Err(ErrnoError::invalid(format!(
                "scope {scope} is unknown: use SCOPE_ALL, SCOPE_NODE or SCOPE_MASTERS"
            )));
        }
        let selected: Vec<u32> = (0..members.len())
            .filter(|place| is_selected(*place))
            .map(|place| members[place])
            .collect();
        Ok(selected.contains(&team.rank()).then_some(selected))
    }

    /// Returns the processes of a group that take part in a call of a scope; none if this process
    /// is not one of them.
    pub fn participants(
        &self,
        scope: c_int,
        group: &ArmciGroup,
    ) -> CallResult<Option<Participants>> {
        let Some(members) = self.scope_members(scope, &group.members)? else { return Ok(None) };
        if members.len() == 1 {
            return Ok(Some(Participants::One));
        }
        if members.iter().copied().eq(0..self.team.size()) {
            return Ok(Some(Participants::All(self.team.clone())));
        }
        if let Some(group) = group.group.as_ref().filter(|group| group.members() == members) {
            return Ok(Some(Participants::Some(group.clone())));
        }
        let known = self.scopes.lock().get(&members).cloned();
        let group = match known {
            Some(group) => group,
            None => {
                let group = team_result(self.messaging.group(&members))?;
                self.scopes.lock().insert(members, group.clone());
                group
            }
        };
        Ok(Some(Participants::Some(group)))
    }

    /// The first process of each machine, in order.
    pub fn machine_masters(&self) -> Vec<u32> {
        let team = &self.team;
        let is_master = |rank: &u32| {
            let machine = team.machine_of(*rank);
            !(0..*rank).any(|other| team.machine_of(other) == machine)
        };
        (0..team.size()).filter(is_master).collect()
    }
}

impl ArmciGroup {
    /// The rank of a process of the job in this group.
    pub fn rank_of(&self, rank: u32) -> Option<c_int> {
        (0..).zip(&self.members).find(|(_, member)| **member == rank).map(|(own, _)| own)
    }

    /// The process of the job that has a rank in this group.
    pub fn member(&self, group_rank: c_int) -> CallResult<u32> {
        let member = usize::try_from(group_rank).ok().and_then(|rank| self.members.get(rank));
        member.copied().ok_or_else(|| {
            let size = self.members.len();
            ErrnoError::invalid(format!(
                "process {group_rank} of the group does not exist: the group has {size} processes"
            ))
        })
    }

    /// The group in the team; none for all processes. Fails if this process is not in the group.
    pub fn joined(&self, layer: &MessageLayer) -> CallResult<Option<&Group>> {
        match &self.group {
            Some(group) => Ok(Some(group)),
            None if self.members.contains(&layer.team.rank()) => Ok(None),
            None => Err(ErrnoError::invalid(
                "this process is not in the group: only processes of the group make this call",
            )),
        }
    }
}

impl Participants {
    /// Returns what this process has prepared for a collective call. If it cannot make the call, the
    /// call fails on all that take part, with its rank and the reason.
    pub fn or_fail<T>(&self, prepared: CallResult<T>) -> CallResult<T> {
        if let Err(failed) = &prepared {
            match self {
                Self::All(team) => drop(team.fail_call(&failed.cause())),
                Self::Some(group) => drop(group.fail_call(&failed.cause())),
                Self::One => {}
            }
        }
        prepared
    }

    /// Waits until all are here.
    pub fn barrier(&self) -> CallResult<()> {
        team_result(match self {
            Self::All(team) => team.barrier(),
            Self::Some(group) => group.barrier(),
            Self::One => Ok(()),
        })
    }

    /// Copies the bytes of a process of the job to all.
    pub fn broadcast(&self, root: u32, bytes: &mut [u8]) -> CallResult<()> {
        match self {
            Self::All(team) => team_result(team.broadcast(root, bytes)),
            Self::Some(group) => {
                let own = (0..).zip(group.members()).find(|(_, member)| **member == root);
                let (own, _) = own.ok_or_else(|| {
                    ErrnoError::invalid(format!("process {root} does not take part in the call"))
                })?;
                team_result(group.broadcast(own, bytes))
            }
            Self::One => Ok(()),
        }
    }

    /// Returns the bytes of each.
    pub fn gather(&self, bytes: &[u8]) -> CallResult<Vec<Vec<u8>>> {
        match self {
            Self::All(team) => team_result(team.gather(bytes)),
            Self::Some(group) => team_result(group.gather(bytes)),
            Self::One => Ok(vec![bytes.to_vec()]),
        }
    }

    /// Reduces numbers, element by element.
    pub fn reduce<T: Number>(&self, reduction: Reduction, numbers: &mut [T]) -> CallResult<()> {
        match self {
            Self::All(team) => team_result(team.reduce(reduction, numbers)),
            Self::Some(group) => team_result(group.reduce(reduction, numbers)),
            Self::One => {
                if reduction == Reduction::BitOr && !T::HAS_BITS {
                    return Err(ErrnoError::invalid(
                        "floating-point numbers have no bitwise or: use whole numbers",
                    ));
                }
                if matches!(reduction, Reduction::SmallestMagnitude | Reduction::LargestMagnitude) {
                    numbers.iter_mut().for_each(|number| *number = number.magnitude());
                }
                Ok(())
            }
        }
    }

    /// Whether this process is the first of them.
    pub fn is_first(&self) -> bool {
        match self {
            Self::All(team) => team.rank() == 0,
            Self::Some(group) => group.rank() == 0,
            Self::One => true,
        }
    }
}

/// Starts the message layer, collectively; the arguments are ignored.
///
/// # Safety
/// None: the pointers are not used.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn armci_msg_init(_argc: *mut c_int, _argv: *mut *mut *mut c_char) {
    exit_on_error("armci_msg_init", || {
        start()?;
        IS_EXPLICIT.store(true, Ordering::Release);
        Ok(())
    });
}

/// Ends the message layer, collectively.
#[unsafe(no_mangle)]
pub extern "C" fn armci_msg_finalize() {
    exit_on_error("armci_msg_finalize", || {
        if !IS_EXPLICIT.swap(false, Ordering::AcqRel) {
            return Ok(());
        }
        let Ok(layer) = layer() else { return Ok(()) };
        // No process leaves while another still sends to it.
        team_result(layer.team.barrier())?;
        drop(layer);
        end();
        Ok(())
    });
}

/// Prints a line and ends the process.
#[unsafe(no_mangle)]
pub extern "C" fn armci_msg_abort(code: c_int) {
    print_line(&format!("pario: {}: armci_msg_abort ({code})", process::describe()));
    exit_failed(if code == 0 { 1 } else { code });
}
