//! What becomes of symbolic links on this machine; the cluster has none.

/// Which links are followed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Links {
    /// Those that were named; what a tree has is left out.
    #[default]
    Named,
    /// All.
    All,
    /// None.
    Never,
}
