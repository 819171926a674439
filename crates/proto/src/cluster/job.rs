//! Requests of the ranks of a job.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::grant::Access;
use super::path::FilePath;
use super::request::LayoutChoice;
use crate::modes::call::Call;
use crate::modes::mode::Mode;
use crate::modes::position::{Seek, Transfer};

/// The longest name of a job.
pub const JOB_NAME_LIMIT_BYTES: usize = 200;

/// Characters of the program and of the host in a [`ProcessName`].
const PROCESS_TEXT_LIMIT: usize = 80;

/// The largest number of ranks of a job.
pub const JOB_SIZE_LIMIT: u32 = 65_536;

/// A process of a job.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Member {
    /// The name of the job. Jobs of different users are different jobs.
    pub job: String,
    /// The number of ranks.
    pub size: u32,
    /// The rank of this process.
    pub rank: u32,
}

/// A process, as users know it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessName {
    /// Its process id.
    pub pid: u32,
    /// The name of its program.
    pub program: String,
    /// The name of its machine.
    pub host: String,
}

impl ProcessName {
    /// The same name without control characters and with texts of a bounded length.
    pub fn cleaned(self) -> Self {
        let clean = |text: String| {
            text.chars().filter(|c| !c.is_control()).take(PROCESS_TEXT_LIMIT).collect()
        };
        Self { pid: self.pid, program: clean(self.program), host: clean(self.host) }
    }
}

impl fmt::Display for ProcessName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "process {} ({}) on host {}", self.pid, self.program, self.host)
    }
}

/// The id of a shared file while it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SharedFileId(pub u128);

/// The id of a job memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct JobMemoryId(pub u128);

/// The location of the coordination table of a shared file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableLocation {
    /// The job memory, which the node passes to each rank.
    pub memory: JobMemoryId,
    /// The number of the table in it.
    pub number: u32,
}

/// A collective call of a job outside of files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobCall {
    /// Opens a file; all ranks must give the same options.
    Open(CollectiveOpen),
    /// A barrier.
    Barrier {
        /// Whether this process runs on the node's machine and can map the job memory.
        is_near: bool,
    },
    /// A call that this rank could not make, and why: the call of the other ranks fails.
    Failed(String),
}

/// A call of a process that opens a file without the other processes of its job: the first open of
/// the job counts for all of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobOpenCall {
    /// Begins to open a path. The reply, [`OpenTurn`](super::reply::Reply::OpenTurn), comes when no
    /// other process of the job is opening it.
    Begin(FilePath),
    /// This process, the first, has opened the file.
    Opened {
        /// The number of the open.
        open: u64,
    },
    /// This process has closed the file, or could not open it.
    Closed {
        /// The number of the open.
        open: u64,
    },
}

/// Where the machines of a job meet to use each other's memory, without a node.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TeamAddress {
    /// The address of one of the machines, in its text form.
    pub address: String,
    /// The secret that authenticates the machines, in hexadecimal digits.
    pub key: String,
}

impl fmt::Debug for TeamAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TeamAddress({}, a key)", self.address)
    }
}

/// A request of a machine about that place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TeamCall {
    /// Offers a place. The reply is the place that was offered first, perhaps this one.
    Settle(TeamAddress),
    /// Withdraws the place that this process has offered.
    Withdraw,
}

/// A collective open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectiveOpen {
    /// The path.
    pub path: FilePath,
    /// The access.
    pub access: Access,
    /// The options of a new file, if the open creates one.
    pub creation: Option<CreationOptions>,
    /// The mode.
    pub mode: Mode,
    /// Whether this process runs on the node's machine and can map the job memory. This may differ
    /// between ranks.
    pub is_near: bool,
}

/// The options of a new file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreationOptions {
    /// An existing file is an error.
    pub is_new: bool,
    /// Permissions.
    pub mode: u32,
    /// The layout.
    pub layout: LayoutChoice,
}

/// A call of a rank on a shared file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SharedCall {
    /// A collective call.
    Collective {
        /// The number of collective calls on this file that the rank has made before.
        number: u64,
        /// The call.
        call: Call,
    },
    /// Places an access, first come, first served.
    Transfer(Transfer),
    /// Moves the shared pointer.
    Seek(Seek),
    /// Asks for the shared pointer.
    Tell,
    /// Claims bytes: waits until no other rank writes them, or until no other rank uses them. A
    /// rank holds one range at a time; a new claim replaces the one before.
    Lock {
        /// The number of claims that the rank has made before.
        number: u64,
        /// The first byte.
        from: u64,
        /// Bytes.
        len: u64,
        /// Whether the rank needs them alone.
        is_write: bool,
    },
    /// Releases claimed bytes.
    Unlock {
        /// The number of the claim.
        number: u64,
    },
    /// Closes the file for this rank only.
    Close,
    /// Closes the file for all ranks, which have agreed to close it.
    CloseForAll,
    /// Drops the file without closing it: collective calls of the other ranks fail.
    Leave,
    /// The result of an access that this rank has performed for all. The bytes that it read are in
    /// the data.
    Performed {
        /// The number of the call.
        number: u64,
        /// The number of bytes, or why the access failed.
        done: Result<u64, String>,
    },
}

/// A call on a shared file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedRequest {
    /// The shared file.
    pub shared_file: SharedFileId,
    /// The call.
    pub call: SharedCall,
}

impl JobCall {
    /// Returns the call as the other ranks must make it.
    pub fn as_call(&self) -> Call {
        match self {
            JobCall::Open(open) => Call::Open(open.to_string()),
            JobCall::Barrier { .. } => Call::Barrier,
            JobCall::Failed(why) => Call::Failed(why.as_str().into()),
        }
    }
}

impl fmt::Display for CollectiveOpen {
    /// Two opens that differ have different texts.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let access = match (self.access.read, self.access.write) {
            (true, true) => "for reading and writing",
            (false, true) => "for writing",
            _ => "for reading",
        };
        write!(f, "{} {access} in mode {}", self.path, self.mode)?;
        if let Some(creation) = &self.creation {
            let is_new = if creation.is_new { "as a new file" } else { "created if needed" };
            write!(f, ", {is_new} with mode {:04o}{}", creation.mode, creation.layout)?;
        }
        Ok(())
    }
}

impl fmt::Display for SharedFileId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::cluster::request::DiskChoice;
    use crate::ids::DiskId;
    use crate::layout::disks::Disks;
    use crate::layout::encoding::Layout;
    use crate::layout::striped::Striped;

    fn opening(layout: LayoutChoice) -> CollectiveOpen {
        CollectiveOpen {
            path: FilePath::new("/runs/result").unwrap(),
            access: Access { read: true, write: true },
            creation: Some(CreationOptions { is_new: false, mode: 0o640, layout }),
            mode: Mode::Sync,
            is_near: true,
        }
    }

    /// The text of an open is for users, and differs if the opens do.
    #[test]
    fn opens_are_displayed_in_words() {
        let striped = |unit_bytes, disks| LayoutChoice::Striped { unit_bytes, disks };
        let exactly = |unit| {
            let disks = Disks::new([DiskId(0), DiskId(1)]).unwrap();
            LayoutChoice::Exactly(Layout::from(Striped::new(unit, disks).unwrap()))
        };
        let text = |layout| opening(layout).to_string();
        let plain = "/runs/result for reading and writing in mode M_SYNC, created if needed with \
                     mode 0640";
        assert_eq!(text(striped(None, DiskChoice::All)), plain);
        let units = format!("{plain}, in units of 65536 bytes, over 3 disks");
        assert_eq!(text(striped(Some(65_536), DiskChoice::Count(3))), units);
        let these = DiskChoice::These(vec![DiskId(2), DiskId(0)]);
        assert_eq!(text(striped(None, these.clone())), format!("{plain}, over disk 2, disk 0"));
        let extents = format!("{plain}, of extents, on one disk");
        assert_eq!(text(LayoutChoice::Extents { disks: DiskChoice::Count(1) }), extents);
        let choices = [
            striped(None, DiskChoice::All),
            striped(Some(1), DiskChoice::All),
            striped(None, DiskChoice::Count(2)),
            striped(None, these.clone()),
            LayoutChoice::Extents { disks: DiskChoice::All },
            LayoutChoice::Extents { disks: these },
            exactly(65_536),
            exactly(4_096),
        ];
        let texts: HashSet<_> = choices.iter().cloned().map(text).collect();
        assert_eq!(texts.len(), choices.len());
        assert!(texts.iter().all(|text| !text.contains(['{', '}'])), "{texts:?}");
    }
}
