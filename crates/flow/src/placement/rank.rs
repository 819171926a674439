//! The rank that mpirun or srun assigned to this process.

/// The rank of this process among the processes that a launcher started together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LauncherRank {
    /// The number of this process, from 0.
    pub rank: usize,
    /// The number of processes, at least 2.
    pub size: usize,
    /// The unique name of the job, if the launcher sets one.
    pub job: Option<String>,
}

impl LauncherRank {
    /// Reads the variables of Open MPI, MPICH or Slurm; `variable` looks up the environment.
    ///
    /// Returns `None` for a job of one process. In Slurm, only processes that `srun` started have a
    /// rank; the script of the job has none.
    ///
    /// ```
    /// use pario_flow::placement::LauncherRank;
    /// let rank = LauncherRank::from_environment(|name| std::env::var(name).ok());
    /// println!("{rank:?}");
    /// ```
    pub fn from_environment(variable: impl Fn(&str) -> Option<String>) -> Option<LauncherRank> {
        let number = |name: &str| variable(name)?.trim().parse::<usize>().ok();
        let step = slurm_step(&variable);
        // The innermost launcher decides: mpirun within a Slurm step sets its own variables.
        let (rank, size, job) = if variable("OMPI_COMM_WORLD_RANK").is_some() {
            let job = variable("PMIX_NAMESPACE").or_else(|| variable("OMPI_MCA_ess_base_jobid"));
            (number("OMPI_COMM_WORLD_RANK")?, number("OMPI_COMM_WORLD_SIZE")?, job)
        } else if variable("PMI_RANK").is_some() {
            let job = variable("PMI_JOBID").or(step);
            (number("PMI_RANK")?, number("PMI_SIZE")?, job)
        } else {
            let step = step?;
            let size = number("SLURM_STEP_NUM_TASKS").or_else(|| number("SLURM_NTASKS"))?;
            (number("SLURM_PROCID")?, size, Some(step))
        };
        (size > 1 && rank < size).then_some(LauncherRank { rank, size, job })
    }
}

/// Returns job and step if `srun` started this process.
///
/// Slurm runs the script of a job and the shell of an allocation in special steps, numbered from
/// the upper end of 32 bits.
fn slurm_step(variable: &impl Fn(&str) -> Option<String>) -> Option<String> {
    const FIRST_SPECIAL: u32 = 0xffff_fff0;
    let job = variable("SLURM_JOB_ID")?;
    let step = variable("SLURM_STEP_ID")?;
    match step.trim().parse::<u32>() {
        Ok(number) if number < FIRST_SPECIAL => Some(format!("{}.{number}", job.trim())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(variables: &[(&str, &str)]) -> Option<LauncherRank> {
        LauncherRank::from_environment(|name| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_string())
        })
    }

    fn some(rank: usize, size: usize, job: Option<&str>) -> Option<LauncherRank> {
        Some(LauncherRank { rank, size, job: job.map(str::to_owned) })
    }

    #[test]
    fn nothing_in_the_environment_is_no_rank() {
        assert_eq!(rank(&[]), None);
    }

    #[test]
    fn open_mpi() {
        let open_mpi = [("OMPI_COMM_WORLD_RANK", "2"), ("OMPI_COMM_WORLD_SIZE", "4")];
        assert_eq!(rank(&open_mpi), some(2, 4, None));
        let named = [open_mpi[0], open_mpi[1], ("PMIX_NAMESPACE", "prterun-n1-77@1")];
        assert_eq!(rank(&named), some(2, 4, Some("prterun-n1-77@1")));
    }

    #[test]
    fn mpich() {
        assert_eq!(rank(&[("PMI_RANK", "0"), ("PMI_SIZE", "3")]), some(0, 3, None));
    }

    #[test]
    fn slurm_counts_only_within_a_step() {
        let allocation = [("SLURM_PROCID", "1"), ("SLURM_NTASKS", "2"), ("SLURM_JOB_ID", "91")];
        assert_eq!(rank(&allocation), None);
        let step = |number| [&allocation[..], &[("SLURM_STEP_ID", number)]].concat();
        assert_eq!(rank(&step("0")), some(1, 2, Some("91.0")));
        assert_eq!(rank(&step("4294967291")), None, "the step of the job's script");
        assert_eq!(rank(&step("4294967290")), None, "the step of the allocation's shell");
    }

    #[test]
    fn a_step_smaller_than_its_job_has_its_own_size() {
        let variables = [
            ("SLURM_PROCID", "1"),
            ("SLURM_NTASKS", "8"),
            ("SLURM_STEP_NUM_TASKS", "2"),
            ("SLURM_JOB_ID", "91"),
            ("SLURM_STEP_ID", "3"),
        ];
        assert_eq!(rank(&variables), some(1, 2, Some("91.3")));
    }

    #[test]
    fn the_innermost_launcher_decides() {
        let variables = [
            ("OMPI_COMM_WORLD_RANK", "0"),
            ("OMPI_COMM_WORLD_SIZE", "1"),
            ("SLURM_PROCID", "1"),
            ("SLURM_NTASKS", "2"),
            ("SLURM_JOB_ID", "91"),
            ("SLURM_STEP_ID", "0"),
        ];
        assert_eq!(rank(&variables), None, "mpirun -n 1 is one process");
        assert_eq!(rank(&variables[2..]), some(1, 2, Some("91.0")));
    }

    #[test]
    fn nonsense_is_no_rank() {
        assert_eq!(rank(&[("PMI_RANK", "3"), ("PMI_SIZE", "3")]), None);
        assert_eq!(rank(&[("PMI_RANK", "-1"), ("PMI_SIZE", "3")]), None);
        assert_eq!(rank(&[("PMI_RANK", "0")]), None);
    }
}
