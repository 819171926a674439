//! The state of a cluster and its diagnosis: what `pario status`, `why`, `top` and `fsck` print.
//!
//! [`Cluster`](crate::Cluster) returns these types from [`status`](crate::Cluster::status),
//! [`map`](crate::Cluster::map), [`check`](crate::Cluster::check) and the calls beside them;
//! [`File::test_lock`](crate::File::test_lock) returns a [`HeldLock`].

pub use pario_proto::{
    AtomicWait, BytesUse, BytesUser, BytesWait, Call, CheckDepth, CheckReport, CheckRequest,
    ClientStatus, ClusterMap, DiskInfo, DiskStatus, FileId, Finding, FindingKind, HeldLock,
    Identity, JobStatus, LOCK_END, LastCall, LockRange, LockWait, MissingRank, NodeInfo,
    NodeStatus, PeerStatus, ProcessProgress, RankList, Seek, SharedFileId, SharedFileStatus,
    ShownRank, StartedRequestStatus, StorageThreadStatus, WaitCause, WaitStatus, WaitTarget,
};

pub use crate::running::{RunningNode, RunningNodes, running_nodes};
