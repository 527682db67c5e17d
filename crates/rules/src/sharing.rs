//! The settings for how instances share a limit. A rule's setting wins over its domain's, and that
//! over the default of the caller who loads the rules.

use std::num::NonZeroU32;

use tollgate_core::{Mode, OnStoreError, Sharing};

use crate::draft::Spanned;

/// What `mode` takes.
pub(crate) const MODES: [&str; 3] = ["strict", "leased", "write_back"];
/// What `on_store_error` takes.
pub(crate) const ON_STORE_ERROR: [&str; 4] = ["allow", "deny", "error", "local"];
/// The range of `instances`.
pub(crate) const INSTANCES: (u32, u32) = (1, u32::MAX);

/// What `instances` was called: that word is for servers of Redis.
const INSTANCES_BEFORE: &str = "nodes";

/// The settings of a rule, or of a domain. A missing one is inherited.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SharingDraft {
    pub(crate) mode: Option<Spanned<Mode>>,
    pub(crate) on_store_error: Option<Spanned<OnStoreError>>,
    pub(crate) instances: Option<Spanned<NonZeroU32>>,
}

/// The mode of one of [`MODES`].
pub(crate) fn mode(word: &str) -> Option<Mode> {
    let modes = [Mode::Strict, Mode::Leased, Mode::WriteBack];
    modes.into_iter().find(|mode| mode.to_string() == word)
}

/// The behaviour of one of [`ON_STORE_ERROR`].
pub(crate) fn on_store_error(word: &str) -> Option<OnStoreError> {
    let all = [
        OnStoreError::Allow,
        OnStoreError::Deny,
        OnStoreError::Error,
        OnStoreError::Local,
    ];
    all.into_iter().find(|one| one.to_string() == word)
}

/// What the setting that was called `key` is called now.
pub(crate) fn current_name(key: &str) -> Option<&'static str> {
    (key == INSTANCES_BEFORE).then_some("instances")
}

// === impl SharingDraft ===

impl SharingDraft {
    /// The settings in effect, inherited from `outer` where they are missing.
    pub(crate) fn within(&self, outer: Sharing) -> Sharing {
        Sharing {
            mode: self.mode.map_or(outer.mode, |mode| mode.value),
            on_store_error: self
                .on_store_error
                .map_or(outer.on_store_error, |behaviour| behaviour.value),
            instances: self
                .instances
                .map_or(outer.instances, |instances| Some(instances.value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_a_value_and_shows_as_itself() {
        for word in MODES {
            assert_eq!(
                mode(word).map(|mode| mode.to_string()).as_deref(),
                Some(word)
            );
        }
        for word in ON_STORE_ERROR {
            let shown = on_store_error(word).map(|one| one.to_string());
            assert_eq!(shown.as_deref(), Some(word));
        }
        assert_eq!((mode("Strict"), on_store_error("")), (None, None));
    }
}
