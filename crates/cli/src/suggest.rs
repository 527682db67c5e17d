//! `tollgate suggest`: what recorded traffic is like, and which limits would touch how much of it.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::json;
use tollgate_replay::{Error, Format, Noun, Pattern, Study, Traffic};
use tollgate_rules::TEXT_BYTES_MAX;

use crate::log_args::LogArgs;
use crate::message::{print_error, with_causes};
use crate::output::{self, Output};
use crate::output_file;
use crate::printable::json_lines;
use crate::same_file;
use crate::suggest::trial::trials;

mod trial;

pub(crate) use trial::{AlgorithmChoice, TriedLimits, TriedRules, tried_rules};

/// The descriptor that has the path, which meets no rule.
const ROUTE: &str = "(route)={path}";
/// The most keys of a trial that can be named.
const TOP_MAX: usize = 1000;

/// Suggest limits from access logs.
///
/// Shows how many requests a key sends in a second, a minute, five minutes and an hour, for all
/// requests together and for the busiest routes. Suggests limits that no key, 0.1 % of the keys or
/// 1 % of the keys would have exceeded. Limits computed from the first half of the requests are
/// checked against the second half. Needs no rules.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// What requests are counted by, as in `tollgate replay --descriptor`.
    #[arg(
        long,
        value_name = "KEY={FIELD},...",
        default_value = "remote_address={client}"
    )]
    key: Pattern,
    #[command(flatten)]
    log: LogArgs,
    /// Write a rules file with the suggested limits, for all requests and each route.
    ///
    /// If the first key of --key is `path`, there are no limits of routes: a request would meet
    /// only one of the two rules.
    ///
    /// Limits are per minute, or per second if the log has no whole minute of the clock.
    #[arg(long, value_name = "FILE")]
    write_rules: Option<PathBuf>,
    /// The domain in the file of --write-rules.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "web",
        requires = "write_rules"
    )]
    domain: String,
    /// How many keys may exceed the limits in the file of --write-rules.
    #[arg(long, value_enum, default_value_t = Touch::Tenth, requires = "write_rules")]
    touch: Touch,
    /// Decide all requests under each of these limits, with each of --algorithms, in virtual time:
    /// `10,30,60/minute`, `5/s`, `5/15m`.
    #[arg(long = "try", value_name = "N,.../UNIT")]
    tried: Option<TriedLimits>,
    /// The algorithms to use with --try.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "fixed-window",
        requires = "tried"
    )]
    algorithms: Vec<AlgorithmChoice>,
    /// For --try: how many of the denied keys to list, those with the most denials first.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 3,
        value_parser = top,
        requires = "tried"
    )]
    top: usize,
    /// Report format.
    #[arg(long, value_enum, default_value_t = Output::Human)]
    output: Output,
    /// Access logs, which may be compressed by gzip, xz, zstd or bzip2. Several files are read as
    /// one input. `-` is standard input.
    #[arg(value_name = "LOG", required = true)]
    files: Vec<PathBuf>,
}

const AFTER_HELP: &str = "\
Exit status: 0 if the logs were read, even if lines were skipped; 2 if the command line is wrong, \
a file cannot be read or written, or no line is a request.";

/// A share of keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Touch {
    /// No key.
    None,
    /// 0.1 % of the keys.
    #[value(name = "0.1%")]
    Tenth,
    /// 1 % of the keys.
    #[value(name = "1%")]
    One,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    match execute(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            print_error(&message);
            ExitCode::from(2)
        }
    }
}

fn top(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(keys) if keys <= TOP_MAX => Ok(keys),
        _ => Err(format!("must be a whole number up to {TOP_MAX}")),
    }
}

/// Reads the logs, studies them, tries the limits that are named, and prints the report.
fn execute(args: &Args) -> Result<(), String> {
    if args.domain.is_empty() {
        return Err(
            "--domain is empty; name the domain of the rules, or leave it out for `web`".to_owned(),
        );
    }
    check_keys(&args.key)?;
    same_file::check(&args.files, "each of its lines would count twice")?;
    let route: Pattern = ROUTE.parse().expect("the pattern is valid");
    // A log without paths has no routes, but keys.
    let route = route.without_requirements();
    let kind = args.log.kind()?;
    let traffic = Traffic::new(Format::AccessLog {
        kind: kind.ok_or("traces and counts are not access logs; see `tollgate replay`")?,
        domain: args.domain.clone(),
        descriptors: vec![args.key.clone(), route],
    });
    traffic
        .check_fields()
        .map_err(|error| format!("--key: {error}"))?;
    let mut traffic = args.log.shape(traffic)?;
    if let Some(path) = &args.write_rules {
        output_file::check("--write-rules", path, &args.files)?;
    }
    let keys: Vec<String> = args.key.keys().map(str::to_owned).collect();
    let tried = args
        .tried
        .as_ref()
        .map(|limits| tried_rules("--try", &args.domain, &keys, limits, &args.algorithms));
    let tried = tried.transpose()?;
    for path in &args.files {
        read(path, &mut traffic).map_err(|error| with_causes(&error))?;
    }
    traffic.check().map_err(|error| with_causes(&error))?;
    let study = Study::of(&mut traffic);
    let tried = tried.map(|tried| trials(&mut traffic, tried, args.top));
    let tried = tried.transpose()?;
    if let Some(path) = &args.write_rules {
        let rules = study.to_rules(&args.domain, &keys, args.touch.per_mille());
        output_file::write(path, &rules)?;
    }
    let skipped = traffic.skipped_lines().count;
    let text = match args.output {
        Output::Human => {
            let tried = tried.map(|tried| tried.to_string()).unwrap_or_default();
            let lines = Noun(skipped, "line");
            format!("{study}{tried}\n{skipped:>12} {lines} skipped\n")
        }
        Output::Json => {
            let mut json = study.to_json();
            json["skipped"] = json!(skipped);
            if let Some(tried) = &tried {
                json["trials"] = tried.to_json();
            }
            json_lines(&json)
        }
    };
    output::print(&text)
}

/// No rule, tried or written, could have a key of more bytes.
fn check_keys(pattern: &Pattern) -> Result<(), String> {
    match pattern.keys().find(|key| key.len() > TEXT_BYTES_MAX) {
        None => Ok(()),
        Some(key) => Err(format!(
            "--key: a key of {} bytes; the longest that a rule can have is of {TEXT_BYTES_MAX}: \
             write a shorter one",
            key.len()
        )),
    }
}

fn read(path: &Path, traffic: &mut Traffic) -> Result<(), Error> {
    let input: Box<dyn Read> = if path == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        Box::new(File::open(path).map_err(|source| Error::Read {
            input: path.display().to_string(),
            source,
        })?)
    };
    traffic.read(&path.to_string_lossy(), input)
}

// === impl Touch ===

impl Touch {
    const fn per_mille(self) -> usize {
        match self {
            Touch::None => 0,
            Touch::Tenth => 1,
            Touch::One => 10,
        }
    }
}
