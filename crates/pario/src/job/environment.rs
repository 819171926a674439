//! The member that this process is, from the variables of launchers.

use pario_proto::Member;

use crate::error::Error;

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
    Launcher { rank: "PARIO_RANK", size: "PARIO_SIZE", job: &["PARIO_JOB"], machines: None },
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

/// Returns the member that this process is. A process without a launcher is a job of its own.
pub fn member(variable: impl Fn(&str) -> Option<String>) -> Result<Member, Error> {
    for launcher in &LAUNCHERS {
        let Some(rank) = variable(launcher.rank) else { continue };
        let rank = number(launcher.rank, &rank)?;
        let size = match variable(launcher.size) {
            Some(size) => number(launcher.size, &size)?,
            None => {
                return Err(Error::invalid(format!(
                    "{} is set and {} is not: set both, or neither",
                    launcher.rank, launcher.size
                )));
            }
        };
        return Ok(Member { job: name(launcher.job, variable), size, rank });
    }
    let job = format!("process {}", std::process::id());
    Ok(Member { job, size: 1, rank: 0 })
}

/// Describes the other machines of the job, according to the launcher; `None` if there are none.
pub fn elsewhere(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let launcher = LAUNCHERS.iter().find(|launcher| variable(launcher.rank).is_some())?;
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
    let launcher = LAUNCHERS.iter().find(|launcher| variable(launcher.rank).is_some());
    let by_launcher =
        launcher.is_some_and(|launcher| launcher.job.iter().all(|name| variable(name).is_some()));
    by_launcher || variable("PARIO_JOB").is_some()
}

/// Returns the name of the job. Without a launcher, it is derived from the parent process, so that
/// the processes which one program starts can be a job.
pub fn job(variable: impl Fn(&str) -> Option<String>) -> String {
    let launcher = LAUNCHERS.iter().find(|launcher| variable(launcher.rank).is_some());
    name(launcher.map_or(&[], |launcher| launcher.job), variable)
}

fn name(of_launcher: &[&str], variable: impl Fn(&str) -> Option<String>) -> String {
    let named: Option<Vec<String>> = of_launcher.iter().map(|name| variable(name)).collect();
    match (variable("PARIO_JOB"), named) {
        (Some(job), _) => job,
        (None, Some(parts)) if !parts.is_empty() => parts.join("."),
        // All processes of one launcher have the same parent.
        _ => match rustix::process::getppid() {
            Some(parent) => format!("of process {}", parent.as_raw_nonzero()),
            None => "of process 0".to_owned(),
        },
    }
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
        member(find)
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
        let parent = rustix::process::getppid().unwrap().as_raw_nonzero();
        assert_eq!(mpich.job, format!("of process {parent}"));
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
    fn processes_without_a_launcher_can_be_a_job_of_their_parent() {
        let job_of = |variables: &'static [(&str, &str)]| {
            job(|name| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        let parent = rustix::process::getppid().unwrap().as_raw_nonzero();
        assert_eq!(job_of(&[]), format!("of process {parent}"));
        assert_eq!(job_of(&[("PARIO_JOB", "7")]), "7");
        assert_eq!(job_of(&[("OMPI_COMM_WORLD_RANK", "0"), ("PMIX_NAMESPACE", "x@1")]), "x@1");
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
