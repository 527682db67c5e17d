//! The form of what a command tells, one option for all of them.

use clap::ValueEnum;

/// For whom a command's output is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people.
    #[default]
    Human,
    /// For programs: one JSON document.
    Json,
}

// === impl Output ===

impl Output {
    /// JSON if the old flag `--json` says so, else this.
    pub(crate) fn or_json(self, json: bool) -> Output {
        if json { Output::Json } else { self }
    }
}
