//! The output format, one option for all commands that report something.

use clap::ValueEnum;

/// The format of a command's output.
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
    /// JSON if the old flag `--json` is set, else this.
    pub(crate) fn or_json(self, json: bool) -> Output {
        if json { Output::Json } else { self }
    }
}
