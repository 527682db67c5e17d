//! All settings of one part of the gateway that cannot be used, so that they are reported at once.

use tollgate_http::InvalidSetting;

/// Collects what is wrong while settings are read.
#[derive(Debug, Default)]
pub(crate) struct InvalidSettings(Vec<InvalidSetting>);

// === impl InvalidSettings ===

impl InvalidSettings {
    /// What was read; `None` if it is wrong.
    pub(crate) fn take<T>(&mut self, read: Result<T, InvalidSetting>) -> Option<T> {
        read.map_err(|invalid| self.0.push(invalid)).ok()
    }

    /// As [`InvalidSettings::take`], for what may have several errors, all below `key`.
    pub(crate) fn take_all<T>(
        &mut self,
        read: Result<T, Vec<InvalidSetting>>,
        key: &str,
    ) -> Option<T> {
        let mut keep = |invalid: Vec<InvalidSetting>| {
            let invalid = invalid.into_iter();
            self.0.extend(invalid.map(|invalid| invalid.below(key)));
        };
        read.map_err(&mut keep).ok()
    }

    /// All of them, in the order in which they were read.
    pub(crate) fn into_errors(self) -> Vec<InvalidSetting> {
        self.0
    }
}
