//! What the processes of a job ask together.

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

/// The largest group.
pub const JOB_SIZE_LIMIT: u32 = 65_536;

/// A process of a job.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Member {
    /// The job. Jobs of different users are different ones.
    pub job: String,
    /// How many processes it has.
    pub size: u32,
    /// Which one this is.
    pub rank: u32,
}

/// A file that was opened together, as long as it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SharedFileId(pub u128);

/// Memory that all processes of a job have in common, because they are on the machine of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct JobMemoryId(pub u128);

/// Where the processes that have opened a file together meet, in the memory of their job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableLocation {
    /// The memory, which the node gives to each of them.
    pub memory: JobMemoryId,
    /// Which of the tables in it.
    pub number: u32,
}

/// What the processes of a job do together outside of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum JobCall {
    /// Opens a file; all must want the same.
    Open(CollectiveOpen),
    /// Nothing but meeting.
    Barrier {
        /// Whether this process is on the machine of the node and can have memory in common with
        /// it.
        is_near: bool,
    },
}

/// Where the machines of a job come together to use each other's memory, which needs no node.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TeamPlace {
    /// An address of one of the machines, in its text form.
    pub address: String,
    /// The secret by which they know each other, in hexadecimal digits.
    pub key: String,
}

impl fmt::Debug for TeamPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TeamPlace({}, a key)", self.address)
    }
}

/// What a machine of a job asks about that place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TeamCall {
    /// Where it is: at the place that was offered first, perhaps this one.
    Settle(TeamPlace),
    /// Nobody has to find the place any more that this process has offered.
    Withdraw,
}

/// How a file is opened together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CollectiveOpen {
    /// Which one.
    pub path: FilePath,
    /// What for.
    pub access: Access,
    /// If it is to be created.
    pub creation: Option<CreationOptions>,
    /// In which mode.
    pub mode: Mode,
    /// Whether this process is on the machine of the node and can have memory in common with it.
    /// This may differ between processes.
    pub is_near: bool,
}

/// How a file is created.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreationOptions {
    /// An existing file is an error.
    pub is_new: bool,
    /// Permissions.
    pub mode: u32,
    /// Its layout.
    pub layout: LayoutChoice,
}

/// What a process does with a file that was opened together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SharedCall {
    /// A call in which all meet.
    Collective {
        /// How many such calls of this file it has made before.
        number: u64,
        /// What it calls.
        call: Call,
    },
    /// A place for an access, first come, first served.
    Transfer(Transfer),
    /// Moves the shared pointer.
    Seek(Seek),
    /// Where the shared pointer is.
    Tell,
    /// Waits until nobody writes some bytes, or until nobody uses them. A rank has one such range
    /// at a time: what it had before it needs no more.
    Lock {
        /// How often it has wanted some before.
        number: u64,
        /// The first byte.
        from: u64,
        /// Bytes.
        len: u64,
        /// Whether they are wanted alone.
        is_write: bool,
    },
    /// Needs them no more.
    Unlock {
        /// What it wanted them by.
        number: u64,
    },
    /// Closes the file, without the others.
    Close,
    /// Closes the file for all, who have met to close it.
    CloseForAll,
    /// Puts the file away without closing it: whoever waits for this rank is told.
    Leave,
    /// An access that was done for all: how many bytes, or why not. What was read is in the data.
    Performed {
        /// The number of the call.
        number: u64,
        /// What came of it.
        done: Result<u64, String>,
    },
}

/// Something with a file that was opened together.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedRequest {
    /// Which opening.
    pub shared_file: SharedFileId,
    /// What.
    pub call: SharedCall,
}

impl JobCall {
    /// The call as others must make it too.
    pub fn as_call(&self) -> Call {
        match self {
            JobCall::Open(open) => Call::Open(open.to_string()),
            JobCall::Barrier { .. } => Call::Barrier,
        }
    }
}

impl fmt::Display for CollectiveOpen {
    /// Two that differ have different texts.
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

    /// What is told of an opening is for people, and tells apart what must not be opened together.
    #[test]
    fn openings_are_told_in_words() {
        let striped = |unit_bytes, disks| LayoutChoice::Striped { unit_bytes, disks };
        let exactly = |unit| {
            let disks = Disks::new([DiskId(0), DiskId(1)]).unwrap();
            LayoutChoice::Exactly(Layout::from(Striped::new(unit, disks).unwrap()))
        };
        let told = |layout| opening(layout).to_string();
        let plain = "/runs/result for reading and writing in mode M_SYNC, created if needed with \
                     mode 0640";
        assert_eq!(told(striped(None, DiskChoice::All)), plain);
        let units = format!("{plain}, in units of 65536 bytes, over 3 disks");
        assert_eq!(told(striped(Some(65_536), DiskChoice::Count(3))), units);
        let these = DiskChoice::These(vec![DiskId(2), DiskId(0)]);
        assert_eq!(told(striped(None, these.clone())), format!("{plain}, over disk 2, disk 0"));
        let extents = format!("{plain}, of extents, on one disk");
        assert_eq!(told(LayoutChoice::Extents { disks: DiskChoice::Count(1) }), extents);
        let wishes = [
            striped(None, DiskChoice::All),
            striped(Some(1), DiskChoice::All),
            striped(None, DiskChoice::Count(2)),
            striped(None, these.clone()),
            LayoutChoice::Extents { disks: DiskChoice::All },
            LayoutChoice::Extents { disks: these },
            exactly(65_536),
            exactly(4_096),
        ];
        let texts: HashSet<_> = wishes.iter().cloned().map(told).collect();
        assert_eq!(texts.len(), wishes.len());
        assert!(texts.iter().all(|text| !text.contains(['{', '}'])), "{texts:?}");
    }
}
