//! `tollgate replay`: real traffic through the same engine in virtual time.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ValueEnum;
use indicatif::{ProgressBar, ProgressStyle};
use tollgate_replay::{Error, LogKind, Memories, Pattern, Report, Summary, Traffic, replay};
use tollgate_rules::{Options, RuleSet, read_paths};

use crate::complaint::{complain_of, with_reasons};

/// Decide past traffic by these rules, in virtual time.
///
/// Reads access logs or traces, decides every event at its own moment with the same engine as the
/// service, and tells what would have been refused.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Rules: a file, or a directory of `*.yaml`; may be repeated.
    #[arg(long, value_name = "PATH", required = true)]
    rules: Vec<PathBuf>,
    /// Let several rules files extend one domain.
    #[arg(long)]
    merge_domains: bool,
    /// What the input is.
    #[arg(long, value_enum, default_value_t = Format::Auto)]
    format: Format,
    /// The domain whose rules apply to an access log.
    #[arg(long, value_name = "NAME")]
    domain: Option<String>,
    /// What to ask the rules for each line of an access log; may be repeated.
    ///
    /// A list such as `client={client}` or `path={path},method={method}`, in which `{field}` stands
    /// for a field of the line and everything else for itself. Fields: client, user, method, path
    /// (without query), query, protocol, status, bytes, referer, user_agent. A field that the line
    /// does not have is empty.
    #[arg(long = "descriptor", value_name = "KEY={FIELD},...")]
    descriptors: Vec<Pattern>,
    /// How to tell what happened.
    #[arg(long, value_enum, default_value_t = Output::Human)]
    output: Output,
    /// Write every decision to this file as a line of JSON, in the order of decision; `-` is
    /// standard output, and then the summary goes to standard error.
    #[arg(long, value_name = "FILE")]
    decisions: Option<PathBuf>,
    /// Use the service's bounded store with room for so many keys, instead of one that never
    /// evicts.
    #[arg(long, value_name = "N")]
    max_keys: Option<NonZeroUsize>,
    /// Access logs or traces, also gzipped; several are one input in this order, `-` is standard
    /// input.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

const AFTER_HELP: &str = "\
Exit status: 0 if rules and input were read, whatever was refused or skipped; 1 if the rules have \
mistakes; 2 if the command line is wrong or a file cannot be read or written.";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// An access log in the common or the combined format, whichever each line has.
    Auto,
    /// An access log; what follows the size is not looked at.
    Common,
    /// An access log with referer and user agent.
    Combined,
    /// A trace: one event a line, {"at": SECONDS or RFC 3339, "domain": …, "descriptors": […]}.
    Jsonl,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Output {
    /// For people.
    Human,
    /// For programs: one JSON object.
    Json,
}

/// Why there is no report.
enum Failure {
    /// The rules have mistakes, which were shown.
    Rules,
    /// Something else, to be shown.
    Message(String),
}

pub(crate) fn run(args: &Args) -> ExitCode {
    match execute(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Rules) => ExitCode::from(1),
        Err(Failure::Message(message)) => {
            complain_of(&message);
            ExitCode::from(2)
        }
    }
}

fn execute(args: &Args) -> Result<(), Failure> {
    let format = format(args)?;
    let rules = rules(args)?;
    if let Some(domain) = &args.domain
        && !rules.domains().any(|known| known == domain)
    {
        let known: Vec<_> = rules.domains().collect();
        eprintln!(
            "warning: no rules for domain `{domain}`, so nothing is limited; \
             there are rules for: {}",
            known.join(", ")
        );
    }
    let mut decisions = match args.decisions.as_deref() {
        Some(path) => Some(create(path, &args.files)?),
        None => None,
    };
    let mut traffic = Traffic::new(format);
    read(&args.files, &mut traffic)?;
    let bar = bar(traffic.events().try_into().unwrap_or(u64::MAX), DECIDING);
    let memories = match args.max_keys {
        None => Memories::Unbounded,
        Some(max_keys) => Memories::Bounded { max_keys },
    };
    let out: Option<&mut dyn Write> = match &mut decisions {
        Some(out) => Some(out),
        None => None,
    };
    let report = replay(&mut traffic, &rules, memories, out, &mut |count| {
        bar.set_position(count)
    });
    bar.finish_and_clear();
    match report {
        Ok(report) => tell(args, &report, &traffic),
        // Whoever read our output has seen enough.
        Err(Error::Write(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        Err(error) => Err(Failure::from(error)),
    }
}

/// What the command line says about the input, if it says all that is needed and no more.
fn format(args: &Args) -> Result<tollgate_replay::Format, Failure> {
    let usage = |message: &str| Err(Failure::Message(message.to_owned()));
    let standard_inputs = args.files.iter().filter(|file| is_standard(file));
    if standard_inputs.count() > 1 {
        return usage("`-`, standard input, can be read only once");
    }
    let kind = match args.format {
        Format::Jsonl if args.domain.is_some() || !args.descriptors.is_empty() => {
            return usage(
                "the events of a trace have their own domain and descriptors; \
                 drop --domain and --descriptor, or --format jsonl",
            );
        }
        Format::Jsonl => return Ok(tollgate_replay::Format::Trace),
        Format::Common => LogKind::Common,
        Format::Combined | Format::Auto => LogKind::Combined,
    };
    let domain = args.domain.clone().filter(|domain| !domain.is_empty());
    let (Some(domain), false) = (domain, args.descriptors.is_empty()) else {
        return usage(
            "an access log needs --domain NAME and at least one --descriptor 'key={field}'; \
             a trace needs --format jsonl",
        );
    };
    let descriptors = args.descriptors.clone();
    if descriptors.len() > tollgate_replay::DESCRIPTORS_MAX {
        return usage("more than 128 descriptors; that is the most a request may have");
    }
    Ok(tollgate_replay::Format::AccessLog {
        kind,
        domain,
        descriptors,
    })
}

fn rules(args: &Args) -> Result<RuleSet, Failure> {
    let sources =
        read_paths(&args.rules).map_err(|error| Failure::Message(with_reasons(&error)))?;
    let options = Options {
        merge_domains: args.merge_domains,
        ..Options::default()
    };
    let loaded = RuleSet::parse(&sources, &options);
    for diagnostic in &loaded.diagnostics {
        eprintln!("{diagnostic}");
    }
    if loaded.has_errors() {
        return Err(Failure::Rules);
    }
    Ok(loaded.rules)
}

fn read(files: &[PathBuf], traffic: &mut Traffic) -> Result<(), Failure> {
    // A missing file is told before the first one is read for minutes.
    let size = |path: &PathBuf| match std::fs::metadata(path) {
        _ if is_standard(path) => Ok(0),
        Ok(metadata) => Ok(metadata.len()),
        Err(error) => Err(cannot("read", path, &error)),
    };
    let sizes = files
        .iter()
        .map(size)
        .collect::<Result<Vec<u64>, Failure>>()?;
    let bar = bar(sizes.iter().sum(), READING);
    for path in files {
        let input: Box<dyn Read> = if is_standard(path) {
            Box::new(io::stdin().lock())
        } else {
            Box::new(File::open(path).map_err(|error| cannot("read", path, &error))?)
        };
        traffic.read(&path.to_string_lossy(), bar.wrap_read(input))?;
    }
    bar.finish_and_clear();
    Ok(())
}

/// Where decisions go; never over an input, which would be empty before it is read.
fn create(path: &Path, inputs: &[PathBuf]) -> Result<Box<dyn Write>, Failure> {
    if is_standard(path) {
        return Ok(Box::new(io::stdout().lock()));
    }
    let existing = path.canonicalize().ok();
    let is_same = |input: &&PathBuf| existing.is_some() && input.canonicalize().ok() == existing;
    if let Some(input) = inputs.iter().find(is_same) {
        return Err(Failure::Message(format!(
            "--decisions would overwrite the input {}; name another file",
            input.display()
        )));
    }
    let file = File::create(path).map_err(|error| cannot("write", path, &error))?;
    Ok(Box::new(file))
}

fn tell(args: &Args, report: &Report, traffic: &Traffic) -> Result<(), Failure> {
    let text = match args.output {
        Output::Human => Summary { report, traffic }.to_string(),
        Output::Json => format!("{:#}\n", report.to_json(traffic)),
    };
    let told = if args.decisions.as_deref().is_some_and(is_standard) {
        io::stderr().lock().write_all(text.as_bytes())
    } else {
        io::stdout().lock().write_all(text.as_bytes())
    };
    match told {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(cannot("write", Path::new("the summary"), &error))
        }
        _ => Ok(()),
    }
}

fn is_standard(path: &Path) -> bool {
    path == Path::new("-")
}

// === progress ===

const READING: &str = "reading  {wide_bar} {bytes:>10} {elapsed:>4}";
const DECIDING: &str = "deciding {wide_bar} {human_pos:>10} {elapsed:>4}";

/// A bar on standard error, if that is a terminal.
fn bar(length: u64, template: &str) -> ProgressBar {
    let style = ProgressStyle::with_template(template).expect("the templates above are valid");
    ProgressBar::new(length).with_style(style)
}

// === impl Failure ===

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Message(with_reasons(&error))
    }
}

fn cannot(what: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::Message(format!("cannot {what} {}: {error}", path.display()))
}
