//! The member that this process is, from the variables of launchers.

use pario_proto::Member;

use crate::error::Error;
use crate::host;

/// The variable with the rank that `pario run` sets.
const PARIO_RANK: &str = "PARIO_RANK";

/// The variables of a launcher.
struct Launcher {
    rank: &'static str,
    size: &'static str,
    /// The variables that name the job together.
    job: &'static [&'static str],
    /// The variable that tells whether the job runs on other machines, if there is one.
    machines: Option<MachineCount>,
}

/// How a launcher tells whether a job has processes on other machines.
enum MachineCount {
    /// The number of processes on this machine.
    Processes(&'static str),
    /// The number of machines.
    Machines(&'static str),
}

/// The first launcher whose rank variable is set counts: Slurm may have started an MPI launcher.
const LAUNCHERS: [Launcher; 4] = [
    Launcher { rank: PARIO_RANK, size: "PARIO_SIZE", job: &["PARIO_JOB"], machines: None },
    Launcher {
        rank: "OMPI_COMM_WORLD_RANK",
        size: "OMPI_COMM_WORLD_SIZE",
        job: &["PMIX_NAMESPACE"],
        machines: Some(MachineCount::Processes("OMPI_COMM_WORLD_LOCAL_SIZE")),
    },
    Launcher {
        rank: "PMI_RANK",
        size: "PMI_SIZE",
        job: &["SLURM_JOB_ID", "SLURM_STEP_ID"],
        machines: Some(MachineCount::Processes("MPI_LOCALNRANKS")),
    },
    Launcher {
        rank: "SLURM_PROCID",
        size: "SLURM_NTASKS",
        job: &["SLURM_JOB_ID", "SLURM_STEP_ID"],
        machines: Some(MachineCount::Machines("SLURM_STEP_NUM_NODES")),
    },
];

/// What the environment says of the job of this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemberOrigin {
    /// The job, with a name that its ranks share.
    Named(Member),
    /// Size and rank of a job to which nothing gives a name that its ranks share.
    Unnamed {
        /// The number of ranks.
        size: u32,
        /// The rank of this process.
        rank: u32,
        /// A name that the ranks of this machine share, because their launcher has started them here.
        on_machine: Option<String>,
    },
}

/// Returns the size of the job and the rank of this process.
pub fn size_and_rank(variable: impl Fn(&str) -> Option<String>) -> Result<(u32, u32), Error> {
    Ok(match member_origin(variable, None)? {
        MemberOrigin::Named(Member { size, rank, .. })
        | MemberOrigin::Unnamed { size, rank, .. } => (size, rank),
    })
}

/// Returns the member that this process is: with the given size and rank, or else with those of the
/// launcher.
///
/// PARIO_JOB always names the job. A launcher names it if it has started exactly this rank of a job
/// of this size: otherwise its variables belong to another job, such as that of the shell from
/// which this process was started.
pub fn member_origin(
    variable: impl Fn(&str) -> Option<String>,
    size_and_rank: Option<(u32, u32)>,
) -> Result<MemberOrigin, Error> {
    let launcher = launcher(&variable);
    let (size, rank) = match (size_and_rank, launcher) {
        (Some(given), _) => given,
        (None, Some(launcher)) => launcher.size_and_rank(&variable)?,
        (None, None) => return Ok(MemberOrigin::Named(process_alone())),
    };
    let named = |job| Ok(MemberOrigin::Named(Member { job, size, rank }));
    if let Some(job) = variable("PARIO_JOB") {
        return named(job);
    }
    let has_started_this_rank = |launcher: &&Launcher| {
        launcher.size_and_rank(&variable).is_ok_and(|numbers| numbers == (size, rank))
    };
    let mut on_machine = None;
    if let Some(launcher) = launcher.filter(has_started_this_rank).filter(|_| size > 1) {
        if let Some(job) = launcher.job_name(&variable) {
            return named(job);
        }
        // The processes that a launcher of other makers starts on one machine have the same parent.
        if launcher.rank != PARIO_RANK {
            if elsewhere(&variable).is_none() {
                return named(of_parent());
            }
            on_machine = Some(of_parent());
        }
    }
    match size {
        1 => Ok(MemberOrigin::Named(Member { rank, ..process_alone() })),
        _ => Ok(MemberOrigin::Unnamed { size, rank, on_machine }),
    }
}

/// Returns the launcher of this process, if there is one.
fn launcher(variable: impl Fn(&str) -> Option<String>) -> Option<&'static Launcher> {
    LAUNCHERS.iter().find(|launcher| variable(launcher.rank).is_some())
}

impl Launcher {
    /// Returns the size and the rank that the launcher gives.
    fn size_and_rank(
        &self,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<(u32, u32), Error> {
        let rank = number(self.rank, &variable(self.rank).unwrap_or_default())?;
        let Some(size) = variable(self.size) else {
            return Err(Error::invalid(format!(
                "{} is set and {} is not: set both, or neither",
                self.rank, self.size
            )));
        };
        Ok((number(self.size, &size)?, rank))
    }

    /// Returns the name that the launcher gives the job, if it gives one.
    fn job_name(&self, variable: impl Fn(&str) -> Option<String>) -> Option<String> {
        let parts: Option<Vec<String>> = self.job.iter().map(|name| variable(name)).collect();
        parts.filter(|parts| !parts.is_empty()).map(|parts| parts.join("."))
    }
}

/// A job of this process alone.
fn process_alone() -> Member {
    let job = format!("process {} on {}", std::process::id(), host::own_name());
    Member { job, size: 1, rank: 0 }
}

/// A name that follows from the parent process.
fn of_parent() -> String {
    let parent = rustix::process::getppid().map_or(0, |parent| parent.as_raw_nonzero().get());
    format!("of process {parent} on {}", host::own_name())
}

/// Describes the other machines of the job, according to the launcher; `None` if there are none.
pub fn elsewhere(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let launcher = launcher(&variable)?;
    let count = |name: &str| variable(name)?.trim().parse::<u32>().ok();
    match launcher.machines.as_ref()? {
        MachineCount::Processes(name) => {
            let (here, all) = (count(name)?, count(launcher.size)?);
            (here < all).then(|| format!("{} of its {all} processes are on others", all - here))
        }
        MachineCount::Machines(name) => {
            let machines = count(name)?;
            (machines > 1).then(|| format!("it is on {machines} machines"))
        }
    }
}

/// Whether the name of the job is the same on all machines.
pub fn is_named(variable: impl Fn(&str) -> Option<String>) -> bool {
    let launcher = launcher(&variable);
    let by_launcher =
        launcher.is_some_and(|launcher| launcher.job.iter().all(|name| variable(name).is_some()));
    by_launcher || variable("PARIO_JOB").is_some()
}

fn number(name: &str, text: &str) -> Result<u32, Error> {
    text.trim().parse().map_err(|_| Error::invalid(format!("{name}: {text:?} is not a number")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member_from(variables: &[(&str, &str)]) -> Result<Member, Error> {
        let find = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        match member_origin(find, None)? {
            MemberOrigin::Named(member) => Ok(member),
            MemberOrigin::Unnamed { .. } => panic!("the job has no name"),
        }
    }

    #[test]
    fn launchers_are_understood() {
        let is = |variables: &[(&str, &str)], job: &str, size, rank| {
            assert_eq!(member_from(variables).unwrap(), Member { job: job.to_owned(), size, rank });
        };
        is(&[("PARIO_RANK", "2"), ("PARIO_SIZE", "8"), ("PARIO_JOB", "4711")], "4711", 8, 2);
        let ompi = [
            ("OMPI_COMM_WORLD_RANK", "0"),
            ("OMPI_COMM_WORLD_SIZE", "4"),
            ("PMIX_NAMESPACE", "prterun-x-1@1"),
        ];
        is(&ompi, "prterun-x-1@1", 4, 0);
        let slurm = [
            ("SLURM_PROCID", "3"),
            ("SLURM_NTASKS", "4"),
            ("SLURM_JOB_ID", "77"),
            ("SLURM_STEP_ID", "0"),
        ];
        is(&slurm, "77.0", 4, 3);
        let mut hydra_by_slurm = slurm.to_vec();
        hydra_by_slurm.extend([("PMI_RANK", "5"), ("PMI_SIZE", "8")]);
        is(&hydra_by_slurm, "77.0", 8, 5);
        let mpich = member_from(&[("PMI_RANK", "1"), ("PMI_SIZE", "2")]).unwrap();
        assert_eq!((mpich.size, mpich.rank), (2, 1));
        assert_eq!(mpich.job, of_parent());
    }

    #[test]
    fn a_process_that_says_its_rank_is_named_only_by_what_its_job_shares() {
        let origin = |variables: &'static [(&str, &str)], given| {
            let find = |name: &str| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            member_origin(find, given).unwrap()
        };
        let named =
            |job: &str, size, rank| MemberOrigin::Named(Member { job: job.to_owned(), size, rank });
        let unnamed = |size, rank| MemberOrigin::Unnamed { size, rank, on_machine: None };
        assert_eq!(origin(&[], Some((4, 2))), unnamed(4, 2));
        assert_eq!(origin(&[("PARIO_JOB", "7")], Some((4, 2))), named("7", 4, 2));
        let srun: &[(&str, &str)] = &[
            ("SLURM_PROCID", "2"),
            ("SLURM_NTASKS", "4"),
            ("SLURM_JOB_ID", "77"),
            ("SLURM_STEP_ID", "0"),
        ];
        assert_eq!(origin(srun, Some((4, 2))), named("77.0", 4, 2));
        assert_eq!(origin(srun, Some((4, 1))), unnamed(4, 1), "from a shell within rank 2");
        assert_eq!(origin(srun, Some((2, 1))), unnamed(2, 1), "a part of the ranks");
        assert_eq!(origin(srun, None), named("77.0", 4, 2));
        let by_hand: &[(&str, &str)] = &[("PARIO_RANK", "1"), ("PARIO_SIZE", "2")];
        assert_eq!(origin(by_hand, None), unnamed(2, 1));
        let spread: &[(&str, &str)] =
            &[("PMI_RANK", "1"), ("PMI_SIZE", "4"), ("MPI_LOCALNRANKS", "2")];
        let here = MemberOrigin::Unnamed { size: 4, rank: 1, on_machine: Some(of_parent()) };
        assert_eq!(origin(spread, None), here);
        assert_eq!(origin(spread, Some((4, 2))), unnamed(4, 2), "from a shell within rank 1");
        let broken: &[(&str, &str)] = &[("PMI_RANK", "x")];
        assert_eq!(origin(broken, Some((2, 0))), unnamed(2, 0));
        // One process is a job by itself, whatever the variables of its shell say.
        let MemberOrigin::Named(alone) = origin(srun, Some((1, 0))) else { panic!("unnamed") };
        assert_eq!(alone, process_alone());
    }

    #[test]
    fn launchers_say_whether_there_are_other_machines() {
        let found = |variables: &'static [(&str, &str)]| {
            let find = |name: &str| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            (elsewhere(find), is_named(find))
        };
        let ompi: &[(&str, &str)] = &[
            ("OMPI_COMM_WORLD_RANK", "0"),
            ("OMPI_COMM_WORLD_SIZE", "4"),
            ("OMPI_COMM_WORLD_LOCAL_SIZE", "3"),
            ("PMIX_NAMESPACE", "x@1"),
        ];
        assert_eq!(found(ompi), (Some("1 of its 4 processes are on others".to_owned()), true));
        let hydra: &[(&str, &str)] =
            &[("PMI_RANK", "0"), ("PMI_SIZE", "2"), ("MPI_LOCALNRANKS", "2")];
        assert_eq!(found(hydra), (None, false));
        let slurm: &[(&str, &str)] = &[
            ("SLURM_PROCID", "0"),
            ("SLURM_NTASKS", "4"),
            ("SLURM_STEP_NUM_NODES", "2"),
            ("PARIO_JOB", "7"),
        ];
        assert_eq!(found(slurm), (Some("it is on 2 machines".to_owned()), true));
        let ours: &[(&str, &str)] = &[("PARIO_RANK", "0"), ("PARIO_SIZE", "2"), ("PARIO_JOB", "7")];
        assert_eq!(found(ours), (None, true));
        assert_eq!(found(&[]), (None, false));
    }

    #[test]
    fn without_a_launcher_a_process_is_alone_and_nonsense_is_refused() {
        let alone = member_from(&[]).unwrap();
        assert_eq!((alone.size, alone.rank), (1, 0));
        let error = member_from(&[("PARIO_RANK", "x"), ("PARIO_SIZE", "2")]).unwrap_err();
        assert_eq!(error.to_string(), "PARIO_RANK: \"x\" is not a number");
        let error = member_from(&[("SLURM_PROCID", "1")]).unwrap_err().to_string();
        assert_eq!(error, "SLURM_PROCID is set and SLURM_NTASKS is not: set both, or neither");
    }
}
