//! A record file: each process keeps a part of every record on its own disk, and all read, write and
//! add to all of it. No node has to run.
//!
//! ```text
//! cargo build -p pario-examples
//! pario run -n 4 target/debug/records /tmp
//! mpirun -n 4 target/debug/records /tmp
//! ```

use anyhow::ensure;
use pario::records::RecordFile;
use pario::team::Team;

/// No number of processes divides it.
const VALUES: u64 = 10_007;

fn main() -> anyhow::Result<()> {
    let directory = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    let team = pario::team::from_env()?;
    work(&team, &directory)?;
    if team.rank() == 0 {
        let size = team.size();
        println!("{VALUES} values over the disks of {size} processes, and every sum is right");
    }
    Ok(())
}

/// Everything, as one process of a job.
pub fn work(team: &Team, directory: &str) -> anyhow::Result<()> {
    let path = format!("{directory}/records-in-rust");
    let (rank, size) = (u64::from(team.rank()), u64::from(team.size()));
    let file = RecordFile::open_or_create(team, &path)?;
    let grid = file.create_record(8 * VALUES)?;
    let sum = file.create_record(8)?;

    // Each writes every so many-th value: the library finds out on whose disk it is.
    for at in (rank..VALUES).step_by(usize::try_from(size)?) {
        file.write(grid, 8 * at..=8 * at + 7, &at.to_ne_bytes())?;
    }
    // What is here is added up here, and nothing is lost.
    team.barrier()?;
    for block in file.held_here(grid)? {
        let (first, end) = (block.start.div_ceil(8), (block.start + block.len).div_ceil(8));
        for at in first..end {
            let mut value = [0; 8];
            file.read(grid, 8 * at..=8 * at + 7, &mut value)?;
            file.accumulate(sum, 0..=7, 1, &[u64::from_ne_bytes(value)])?;
        }
    }
    file.close()?;

    // Somebody else may open it, also a later job of another number of processes.
    let file = RecordFile::open(team, &path)?;
    let mut total = [0; 8];
    file.read(sum, 0..=7, &mut total)?;
    let total = u64::from_ne_bytes(total);
    ensure!(total == VALUES * (VALUES - 1) / 2, "the sum is {total}");
    file.close()?;
    RecordFile::delete(team, &path)?;
    Ok(())
}
