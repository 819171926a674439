//! The peer of the random reads: a minimal io_uring loop on one plain file, past the page cache.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use io_uring::{IoUring, opcode, types};
use pario_store::{BUFFER_ALIGNMENT, Buffer, BufferPool};
use rustix::fs::OFlags;

/// A plain file, a ring, and one aligned buffer for each read under way.
pub struct DirectReads {
    // Dropped first: the kernel then releases buffers and file.
    ring: IoUring,
    buffers: Vec<Buffer>,
    file: File,
    read_bytes: u32,
    positions: u64,
}

impl DirectReads {
    /// A ring for the calling thread, with the same settings as the store's, if the kernel has
    /// io_uring.
    pub fn ring(under_way: usize) -> io::Result<IoUring> {
        let entries = u32::try_from(under_way).map_err(io::Error::other)?;
        IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_taskrun_flag()
            .build(entries)
    }

    /// Prepares reads of `read_bytes` each from a file, as many at once as `under_way`.
    pub fn open(path: &Path, under_way: usize, read_bytes: u32) -> Result<Self> {
        let flags = i32::try_from(OFlags::DIRECT.bits()).context("the number of O_DIRECT")?;
        let mut options = OpenOptions::new();
        let file = options.read(true).custom_flags(flags).open(path);
        let file = file.context("opening the plain file with O_DIRECT")?;
        let room = file.metadata()?.len().checked_sub(u64::from(read_bytes));
        let room = room.context("the plain file is too short")?;
        let pool = BufferPool::new(0);
        let buffers = (0..under_way).map(|_| pool.get(read_bytes as usize));
        Ok(Self {
            ring: Self::ring(under_way)?,
            buffers: buffers.collect(),
            file,
            read_bytes,
            positions: room / BUFFER_ALIGNMENT as u64 + 1,
        })
    }

    /// Reads `count` times at random positions, always with all buffers in use.
    pub fn run(&mut self, count: u64, random: &mut fastrand::Rng) -> Result<()> {
        let mut begun = 0;
        for slot in 0..self.buffers.len() {
            if begun < count {
                self.push(slot, random);
                begun += 1;
            }
        }
        let mut finished = 0;
        let mut idle = Vec::with_capacity(self.buffers.len());
        while finished < count {
            self.ring.submit_and_wait(1)?;
            for answer in self.ring.completion() {
                ensure!(
                    u32::try_from(answer.result()) == Ok(self.read_bytes),
                    "a read of the plain file answered {}",
                    answer.result()
                );
                finished += 1;
                idle.push(usize::try_from(answer.user_data())?);
            }
            for slot in idle.drain(..) {
                if begun < count {
                    self.push(slot, random);
                    begun += 1;
                }
            }
        }
        Ok(())
    }

    /// Puts a read at a random position into the ring.
    fn push(&mut self, slot: usize, random: &mut fastrand::Rng) {
        let position = random.u64(..self.positions) * BUFFER_ALIGNMENT as u64;
        let memory = self.buffers[slot].as_mut_ptr();
        let entry = opcode::Read::new(types::Fd(self.file.as_raw_fd()), memory, self.read_bytes)
            .offset(position)
            .build()
            .user_data(slot as u64);
        // SAFETY: the buffer has `read_bytes` and stays in `self` as long as the ring does; no
        // other read uses it before this one completes, and no code reads it before.
        let pushed = unsafe { self.ring.submission().push(&entry) };
        pushed.expect("the ring has a place for each buffer");
    }
}
