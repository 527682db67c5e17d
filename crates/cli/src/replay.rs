//! `tollgate replay`: recorded traffic through the same engine, in virtual time.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ValueEnum;
use tollgate_replay::{
    Error, LogKind, Memories, Options, Pattern, Report, Summary, TOP_KEYS, TOP_KEYS_MAX, Traffic,
    replay,
};
use tollgate_rules::{RuleSet, read_paths};

use crate::message::{print_error, with_causes};
use crate::output::Output;
use crate::replay::decisions::Decisions;
use crate::replay::interrupt::Interrupt;
use crate::replay::progress::{Work, bar};

mod decisions;
mod interrupt;
mod progress;

/// Apply rules to recorded traffic, in virtual time.
///
/// Reads access logs or traces, decides each event at its recorded time with the same engine as the
/// service, and reports what would have been denied.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// A rules file, or a directory of `*.yaml` and `*.yml` files; may be repeated.
    #[arg(long, value_name = "PATH", required = true)]
    rules: Vec<PathBuf>,
    /// Allow several documents to add descriptors to one domain.
    #[arg(long)]
    merge_domains: bool,
    /// Format of the input.
    #[arg(long, value_enum, default_value_t = Format::Auto)]
    format: Format,
    /// The domain whose rules apply to an access log.
    #[arg(long, value_name = "NAME")]
    domain: Option<String>,
    /// A descriptor for each line of an access log; may be repeated.
    ///
    /// A list such as `client={client}` or `path={path},method={method}`. `{field}` is replaced by
    /// a field of the line; all other text is literal. Fields: client, user, method, path (without
    /// query), query, protocol, status, bytes, referer, user_agent. A field that the line does not
    /// have is empty.
    #[arg(long = "descriptor", value_name = "KEY={FIELD},...")]
    descriptors: Vec<Pattern>,
    /// Report format.
    #[arg(long, value_enum, default_value_t = Output::Human)]
    output: Output,
    /// Another name of `--output json`.
    #[arg(long, hide = true, conflicts_with = "output")]
    json: bool,
    /// How many keys to list in the report, those with the most denials first.
    #[arg(long, value_name = "N", default_value_t = TOP_KEYS, value_parser = top_keys)]
    top: usize,
    /// Write every decision to this file, one JSON object per line, in order.
    ///
    /// Until all decisions are written, the file is named FILE.partial. With `-`, decisions go to
    /// standard output, and the report goes to standard error.
    #[arg(long, value_name = "FILE")]
    decisions: Option<PathBuf>,
    /// Use the service's bounded store, with room for N keys. By default, the store is unbounded.
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    max_keys: Option<NonZeroUsize>,
    /// Access logs or traces, which may be gzipped. Several files are read as one input, in this
    /// order. `-` is standard input.
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
}

const AFTER_HELP: &str = "\
Exit status: 0 if rules and input were read, even if events were denied or lines skipped; 1 if the \
rules have errors; 2 if the command line is wrong, a file cannot be read or written, or no line of \
the input is an event; 130 if interrupted.";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    /// An access log, each line in the common or the combined format.
    Auto,
    /// An access log; anything after the size is ignored.
    Common,
    /// An access log with referer and user agent.
    Combined,
    /// A trace: one event per line, {"at": SECONDS or RFC 3339, "domain": …, "descriptors": […]}.
    Jsonl,
}

/// Why there is no report.
enum Failure {
    /// The rules have errors, which were printed.
    Rules,
    /// Any other error, to be printed.
    Message(String),
    /// Interrupted by Ctrl-C; the message says how far the replay got.
    Interrupted(String),
}

pub(crate) fn run(args: &Args) -> ExitCode {
    match execute(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Rules) => ExitCode::from(1),
        Err(Failure::Message(message)) => {
            print_error(&message);
            ExitCode::from(2)
        }
        Err(Failure::Interrupted(message)) => {
            print_error(&message);
            ExitCode::from(interrupt::EXIT)
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

/// Runs the replay: reads the rules, decides on every event, writes the decisions if a file for
/// them is named, and prints the report. A closed pipe at the other end of stdout is not an error.
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
    let decisions = args.decisions.as_deref();
    let mut decisions = decisions
        .map(|path| Decisions::create(path, &args.files))
        .transpose()?;
    let decided = decide(args, format, &rules, decisions.as_mut());
    match (decided, decisions) {
        (Ok((report, traffic)), decisions) => {
            if let Some(decisions) = decisions {
                decisions.finish()?;
            }
            write_report(args, &report, &traffic)
        }
        // The reader of standard output has closed the pipe, as `head` does; that is no error.
        (
            Err(Stopped {
                why: Error::Write { source, .. },
                ..
            }),
            _,
        ) if source.kind() == ErrorKind::BrokenPipe => Ok(()),
        (Err(stopped), decisions) => Err(stopped.failure(decisions)),
    }
}

/// Why the replay ended early.
struct Stopped {
    why: Error,
    /// How many events there are.
    events: usize,
}

/// Reads all inputs, then decides on their events in the order of their times. Stops between two
/// events if the user interrupts.
fn decide(
    args: &Args,
    format: tollgate_replay::Format,
    rules: &RuleSet,
    decisions: Option<&mut Decisions>,
) -> Result<(Report, Traffic), Stopped> {
    let mut traffic = Traffic::new(format);
    if decisions.is_some() {
        traffic = traffic.with_clients();
    }
    let stopped = |why, traffic: &Traffic| Stopped {
        why,
        events: traffic.events(),
    };
    let partial = decisions.as_ref().and_then(|decisions| decisions.partial());
    let interrupt = Interrupt::listen(partial);
    let read = read(&args.files, &mut traffic, &interrupt).and_then(|()| traffic.check());
    read.map_err(|why| stopped(why, &traffic))?;
    interrupt.decide();
    let bar = bar(Work::Deciding, traffic.events().try_into().ok());
    let options = Options {
        memories: match args.max_keys {
            None => Memories::Unbounded,
            Some(max_keys) => Memories::Bounded { max_keys },
        },
        top_keys: args.top,
    };
    let out: Option<&mut dyn Write> = match decisions {
        Some(out) => Some(out),
        None => None,
    };
    let report = replay(&mut traffic, rules, options, out, &mut |count| {
        bar.set_position(count);
        match interrupt.is_wanted() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    bar.finish_and_clear();
    match report {
        Ok(report) => Ok((report, traffic)),
        Err(why) => Err(stopped(why, &traffic)),
    }
}

// === impl Stopped ===

impl Stopped {
    /// The message: why the replay ended, how far it got, and where the decisions so far are.
    fn failure(self, decisions: Option<Decisions>) -> Failure {
        let events = self.events;
        let is_interrupt = matches!(self.why, Error::Stopped { .. });
        let message = match &self.why {
            Error::Stopped { decided } => format!("interrupted after {decided} of {events} events"),
            Error::Write { decided, source } => {
                format!("cannot write the decisions after {decided} of {events} events: {source}")
            }
            why => with_causes(why),
        };
        let has_decided = matches!(self.why, Error::Stopped { .. } | Error::Write { .. });
        let left = decisions.and_then(|decisions| decisions.give_up(has_decided));
        let message = match left {
            Some(left) => format!("{message}; {left}"),
            None => message,
        };
        match is_interrupt {
            true => Failure::Interrupted(message),
            false => Failure::Message(message),
        }
    }
}

/// The format that the command line gives, if the options are complete and fit together.
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
    let sources = read_paths(&args.rules).map_err(|error| Failure::Message(with_causes(&error)))?;
    let options = tollgate_rules::Options {
        merge_domains: args.merge_domains,
        ..tollgate_rules::Options::default()
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

/// Reads all inputs into `traffic`. Checks first that every file exists, because reading one may
/// take minutes.
fn read(files: &[PathBuf], traffic: &mut Traffic, interrupt: &Interrupt) -> Result<(), Error> {
    let failed = |path: &Path, source: io::Error| Error::Read {
        input: path.display().to_string(),
        source,
    };
    // A missing file is reported before reading the first one, which can take minutes.
    let mut total = Some(0);
    for path in files {
        let size = match is_standard(path) {
            true => None,
            false => Some(
                std::fs::metadata(path)
                    .map_err(|error| failed(path, error))?
                    .len(),
            ),
        };
        total = total.zip(size).map(|(total, size)| total + size);
    }
    let bar = bar(Work::Reading, total);
    interrupt.read(&bar);
    for path in files {
        let input: Box<dyn Read> = if is_standard(path) {
            Box::new(io::stdin().lock())
        } else {
            Box::new(File::open(path).map_err(|error| failed(path, error))?)
        };
        traffic.read(&path.to_string_lossy(), bar.wrap_read(input))?;
    }
    bar.finish_and_clear();
    Ok(())
}

fn write_report(args: &Args, report: &Report, traffic: &Traffic) -> Result<(), Failure> {
    let text = match args.output.or_json(args.json) {
        Output::Human => Summary { report, traffic }.to_string(),
        Output::Json => format!("{:#}\n", report.to_json(traffic)),
    };
    let written = if args.decisions.as_deref().is_some_and(is_standard) {
        io::stderr().lock().write_all(text.as_bytes())
    } else {
        io::stdout().lock().write_all(text.as_bytes())
    };
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(cannot("write", Path::new("the summary"), &error))
        }
        _ => Ok(()),
    }
}

fn is_standard(path: &Path) -> bool {
    path == Path::new("-")
}

fn cannot(what: &str, path: &Path, error: &io::Error) -> Failure {
    Failure::Message(format!("cannot {what} {}: {error}", path.display()))
}
