//! The files that settings of the gateway name and that may change: those of TLS to upstreams, and
//! the keys of tokens.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;

use super::{GatewaySettings, UpstreamSettings};

/// The most bytes of a file that are compared. What has more cannot be used: it is read elsewhere,
/// within its own bound.
const COMPARED_BYTES_MAX: u64 = 4 * 1024 * 1024;

// === impl GatewaySettings ===

impl GatewaySettings {
    /// All of them; lists, which are read again alone, are not among them.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        let upstreams = self.upstreams.values();
        let identities = self.routes.iter().filter_map(|one| one.identity.as_ref());
        let identities = identities.chain([&self.identity]);
        let keys = identities.filter_map(|identity| identity.keys_file());
        upstreams.flat_map(UpstreamSettings::files).chain(keys)
    }

    /// A hash of what they have. Equal files have equal ones, in this process.
    pub(crate) fn hash_files(&self) -> u64 {
        hash_files(self.files())
    }
}

// === impl UpstreamSettings ===

impl UpstreamSettings {
    fn files(&self) -> impl Iterator<Item = &PathBuf> {
        let tls = self.tls.iter();
        tls.flat_map(|tls| [&tls.ca, &tls.cert, &tls.key].into_iter().flatten())
    }

    /// The same of its own files.
    pub(crate) fn hash_files(&self) -> u64 {
        hash_files(self.files())
    }
}

/// A hash of what files have, to notice that one has changed. Equal files have equal ones, in this
/// process.
pub fn hash_files<'f>(files: impl Iterator<Item = &'f PathBuf>) -> u64 {
    let mut hasher = DefaultHasher::new();
    for file in files {
        // Why one cannot be read is said where it is used.
        tollgate_files::read(file, COMPARED_BYTES_MAX)
            .ok()
            .hash(&mut hasher);
    }
    hasher.finish()
}
