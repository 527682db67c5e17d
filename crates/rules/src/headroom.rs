//! Where headroom is reported from, for the elastic parts of limits.

use std::fmt;

/// What says whether there is headroom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HeadroomSource {
    /// Reports for the rule's domain, from outside.
    Reported,
    /// The load of the host that decides: its processors and its memory.
    Host,
    /// The servers behind the gateway that the domain's requests go to: how long they take, and
    /// how many requests fail.
    Upstream,
}

/// Knows whether there is headroom now.
pub trait Headroom: Sync {
    /// Whether `source` reports headroom now, for limits of `domain`. A report that has expired is
    /// none.
    fn has_headroom(&self, domain: &str, source: &HeadroomSource) -> bool;
}

/// Never any headroom: for programs that measure no headroom and get no reports.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoHeadroom;

// === impl HeadroomSource ===

impl HeadroomSource {
    /// Every source.
    pub const ALL: [HeadroomSource; 3] = [
        HeadroomSource::Reported,
        HeadroomSource::Host,
        HeadroomSource::Upstream,
    ];

    /// The word in a rules file.
    pub const fn as_str(self) -> &'static str {
        match self {
            HeadroomSource::Reported => "reported",
            HeadroomSource::Host => "host",
            HeadroomSource::Upstream => "upstream",
        }
    }
}

impl fmt::Display for HeadroomSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

// === impl NoHeadroom ===

impl Headroom for NoHeadroom {
    fn has_headroom(&self, _domain: &str, _source: &HeadroomSource) -> bool {
        false
    }
}
