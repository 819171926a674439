//! How a copy treats symbolic links on this machine; the cluster has none.

/// The links that a copy follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LinkPolicy {
    /// Links that the user named; links inside directories are skipped.
    #[default]
    Named,
    /// All.
    All,
    /// None.
    Never,
}
