//! The arguments about what a command reports on the events that it decides, and their store.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::Arg;
use tollgate_replay::{Condition, Memories, Options, TOP_KEYS, TOP_KEYS_MAX};

use crate::output::Output;
use crate::replay::failure::is_standard;

/// What is reported, and the store.
#[derive(Debug, clap::Args)]
pub(crate) struct ReportArgs {
    /// Exit with status 3 if this condition holds, such as `denied > 0.1%`; if repeated, if any of
    /// them holds.
    ///
    /// A metric, a comparison (> >= < <= == !=), and a number or a percentage. Metrics: events,
    /// allowed, denied, over_soft, delayed, without_limit, skipped. Percentages are of all events;
    /// for skipped, of all lines. If no event met a limit, a condition on what limits do cannot be
    /// judged, and the exit status is 2; events, skipped and without_limit can be.
    #[arg(long, value_name = "CONDITION")]
    pub(crate) fail_if: Vec<Condition>,
    /// Report format.
    #[arg(long, value_enum, default_value_t = Output::Human)]
    pub(crate) output: Output,
    /// Another name of `--output json`.
    #[arg(long, hide = true, conflicts_with = "output")]
    pub(crate) json: bool,
    /// How many keys to list in the report, those with the most denials first.
    #[arg(long, value_name = "N", default_value_t = TOP_KEYS, value_parser = top_keys)]
    pub(crate) top: usize,
    /// Write a page of HTML to this file, with charts: outcomes over time and by rule, who is
    /// denied and how they behave, how long they would wait, requests per key and window.
    ///
    /// The page needs no network. Making it takes time, because all events are decided a second
    /// time.
    #[arg(long, value_name = "FILE")]
    pub(crate) report: Option<PathBuf>,
    /// Write every decision to this file, one JSON object per line, in order.
    ///
    /// Until all decisions are written, the file is named FILE.partial. With `-`, decisions go to
    /// standard output, and the report goes to standard error.
    #[arg(long, value_name = "FILE")]
    pub(crate) decisions: Option<PathBuf>,
    /// Use the service's bounded store, with room for N keys. By default, the store is unbounded.
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    pub(crate) max_keys: Option<NonZeroUsize>,
}

/// Adds to the help of `--fail-if` what only `replay` has.
pub(super) fn add_compared_metrics(option: Arg) -> Arg {
    let text = "With --compare, there are also the metrics newly_denied and no_longer_denied.";
    add_help(option, text)
}

/// Adds to the help of `--report` what only `replay` has.
pub(super) fn add_compared_report(option: Arg) -> Arg {
    let text = "With --compare, it shows what changes: over time, by rule, by key and by client.";
    add_help(option, text)
}

fn add_help(option: Arg, text: &str) -> Arg {
    let help = option.get_long_help().map(ToString::to_string);
    option.long_help(format!("{} {text}", help.unwrap_or_default()))
}

// === impl ReportArgs ===

impl ReportArgs {
    /// The file of decisions, unless they are printed.
    pub(crate) fn decisions_file(&self) -> Option<&PathBuf> {
        self.decisions.as_ref().filter(|path| !is_standard(path))
    }

    /// The store.
    pub(crate) const fn memories(&self) -> Memories {
        match self.max_keys {
            None => Memories::Unbounded,
            Some(max_keys) => Memories::Bounded { max_keys },
        }
    }

    /// The options of a replay.
    pub(crate) const fn options(&self) -> Options {
        Options {
            memories: self.memories(),
            top_keys: self.top,
        }
    }
}

/// Parses how many keys the report names.
fn top_keys(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(keys) if keys <= TOP_KEYS_MAX => Ok(keys),
        _ => Err(format!("must be a whole number up to {TOP_KEYS_MAX}")),
    }
}

/// Parses how many keys a store has room for.
fn at_least_one(text: &str) -> Result<NonZeroUsize, String> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text.parse().map(NonZeroUsize::new) {
        Ok(Some(keys)) => Ok(keys),
        Ok(None) => Err("must be at least 1".to_owned()),
        Err(_) if is_number => Err(format!("is too large; the maximum is {}", usize::MAX)),
        Err(_) => Err("must be a whole number".to_owned()),
    }
}
