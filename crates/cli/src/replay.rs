//! `tollgate replay`: real traffic through the same engine in virtual time.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;

/// Decide yesterday's traffic by these rules, in virtual time.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Rule files, or directories of `*.yaml`.
    #[arg(long, value_name = "PATH", required = true)]
    rules: Vec<PathBuf>,
    /// What the input is; `auto` tells access logs and traces apart.
    #[arg(long, value_enum, default_value_t = Format::Auto)]
    format: Format,
    /// The domain whose rules apply to an access log.
    #[arg(long, value_name = "NAME")]
    domain: Option<String>,
    /// What to ask the rules for each line of an access log, such as `client={client}` or
    /// `path={path},method={method}`; may be repeated. Fields: client, user, method, path, query,
    /// protocol, status, bytes, referer, user_agent.
    #[arg(long, value_name = "KEY={FIELD},…")]
    descriptor: Vec<String>,
    /// How to tell what happened.
    #[arg(long, value_enum, default_value_t = Output::Human)]
    output: Output,
    /// Write each decision as a line of JSON to this file, or to standard output for `-`.
    #[arg(long, value_name = "FILE")]
    decisions: Option<PathBuf>,
    /// Use the service's bounded store with this many keys, instead of one that never evicts.
    #[arg(long, value_name = "N")]
    max_keys: Option<NonZeroUsize>,
    /// Access logs or traces, also gzipped; `-` is standard input.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// An access log if `--descriptor` is given, else a trace.
    Auto,
    /// An access log; whatever follows the size is not looked at.
    Common,
    /// An access log with referer and user agent.
    Combined,
    /// A trace: one event a line, in JSON.
    Jsonl,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people.
    Human,
    /// For programs.
    Json,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    todo!("{args:?}")
}
