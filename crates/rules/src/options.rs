//! How rules files are read.

use tollgate_core::Sharing;

/// How files are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Several documents may add descriptors to one domain. Otherwise a domain that appears twice
    /// is an error.
    pub merge_domains: bool,
    /// How instances share a limit, unless its rule or its domain sets it.
    pub sharing: Sharing,
}
