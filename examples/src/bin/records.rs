//! A record file: each process keeps a part of every record on its local disk, and all processes
//! read, write and accumulate the whole. No node is needed.
//!
//! ```text
//! cargo build -p pario-examples
//! pario run -n 4 target/debug/records /tmp
//! mpirun -n 4 target/debug/records /tmp
//! ```

use anyhow::ensure;
use pario::Job;

/// The number of values: a prime, so that no number of processes divides it.
const VALUES: u64 = 10_007;

fn main() -> anyhow::Result<()> {
    let directory = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    let job = Job::from_env()?;
    work(&job, &directory)?;
    if job.rank() == 0 {
        let size = job.size();
        println!("{VALUES} values over the disks of {size} processes, and every sum is right");
    }
    Ok(())
}

/// Runs the example as one process of a job.
pub fn work(job: &Job, directory: &str) -> anyhow::Result<()> {
    let path = format!("{directory}/records-in-rust");
    let (rank, size) = (u64::from(job.rank()), u64::from(job.size()));
    let file = job.records().open_or_create(&path)?;
    let grid = file.create_record(8 * VALUES)?;
    let sum = file.create_record(8)?;

    // Rank r of n writes the values r, r + n, ...; the library finds the disk of each.
    for at in (rank..VALUES).step_by(usize::try_from(size)?) {
        file.write(&at.to_ne_bytes(), grid, 8 * at..8 * at + 8)?;
    }
    // Each process adds up the values on its own disk.
    job.barrier()?;
    for block in file.held_here(grid)? {
        let (first, end) = (block.start.div_ceil(8), (block.start + block.len).div_ceil(8));
        for at in first..end {
            let mut value = [0; 8];
            file.read(&mut value, grid, 8 * at..8 * at + 8)?;
            file.accumulate(&[u64::from_ne_bytes(value)], 1, sum, 0..8)?;
        }
    }
    file.close()?;

    // Any later job can open the file, also with another number of processes.
    let file = job.records().open(&path)?;
    let mut total = [0; 8];
    file.read(&mut total, sum, 0..8)?;
    let total = u64::from_ne_bytes(total);
    ensure!(total == VALUES * (VALUES - 1) / 2, "the sum is {total}");
    file.close()?;
    job.records().delete(&path)?;
    Ok(())
}
