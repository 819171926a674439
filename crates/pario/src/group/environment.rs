//! Which process of which job this is, as launchers say.

use pario_proto::Seat;

use crate::error::Error;

/// Variables in which a launcher says which process this is.
struct Launcher {
    rank: &'static str,
    size: &'static str,
    /// Those that together name the job.
    job: &'static [&'static str],
}

/// The first one that has said something counts: launchers of MPI may have been started by Slurm.
const LAUNCHERS: [Launcher; 4] = [
    Launcher { rank: "PARIO_RANK", size: "PARIO_SIZE", job: &["PARIO_JOB"] },
    Launcher {
        rank: "OMPI_COMM_WORLD_RANK",
        size: "OMPI_COMM_WORLD_SIZE",
        job: &["PMIX_NAMESPACE"],
    },
    Launcher { rank: "PMI_RANK", size: "PMI_SIZE", job: &["SLURM_JOB_ID", "SLURM_STEP_ID"] },
    Launcher {
        rank: "SLURM_PROCID",
        size: "SLURM_NTASKS",
        job: &["SLURM_JOB_ID", "SLURM_STEP_ID"],
    },
];

/// The seat of this process. A process that nobody has launched is a job of its own.
pub fn seat(variable: impl Fn(&str) -> Option<String>) -> Result<Seat, Error> {
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
        return Ok(Seat { job: name(launcher.job, variable), size, rank });
    }
    let job = format!("process {}", std::process::id());
    Ok(Seat { job, size: 1, rank: 0 })
}

/// The name of the job of this process. Processes that nobody has launched have that of their
/// parent, so that those which one program has started can be a job.
pub fn job(variable: impl Fn(&str) -> Option<String>) -> String {
    let launcher = LAUNCHERS.iter().find(|launcher| variable(launcher.rank).is_some());
    name(launcher.map_or(&[], |launcher| launcher.job), variable)
}

fn name(of_launcher: &[&str], variable: impl Fn(&str) -> Option<String>) -> String {
    let named: Option<Vec<String>> = of_launcher.iter().map(|name| variable(name)).collect();
    match (variable("PARIO_JOB"), named) {
        (Some(job), _) => job,
        (None, Some(parts)) if !parts.is_empty() => parts.join("."),
        // All processes that one launcher has started have the same parent.
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

    fn seat_of(variables: &[(&str, &str)]) -> Result<Seat, Error> {
        let find = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        seat(find)
    }

    #[test]
    fn launchers_are_understood() {
        let is = |variables: &[(&str, &str)], job: &str, size, rank| {
            assert_eq!(seat_of(variables).unwrap(), Seat { job: job.to_owned(), size, rank });
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
        let mpich = seat_of(&[("PMI_RANK", "1"), ("PMI_SIZE", "2")]).unwrap();
        assert_eq!((mpich.size, mpich.rank), (2, 1));
        let parent = rustix::process::getppid().unwrap().as_raw_nonzero();
        assert_eq!(mpich.job, format!("of process {parent}"));
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
    fn without_a_launcher_a_process_is_alone_and_nonsense_is_told() {
        let alone = seat_of(&[]).unwrap();
        assert_eq!((alone.size, alone.rank), (1, 0));
        let error = seat_of(&[("PARIO_RANK", "x"), ("PARIO_SIZE", "2")]).unwrap_err();
        assert_eq!(error.to_string(), "PARIO_RANK: \"x\" is not a number");
        let error = seat_of(&[("SLURM_PROCID", "1")]).unwrap_err().to_string();
        assert_eq!(error, "SLURM_PROCID is set and SLURM_NTASKS is not: set both, or neither");
    }
}
