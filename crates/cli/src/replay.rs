//! `tollgate replay`: recorded traffic through the same engine, in virtual time.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use tollgate_replay::{Error, Noun, Traffic, compare, replay, survey};
use tollgate_rules::RuleSet;

use crate::message::{pluralize, print_notice, with_causes};
use crate::output_file;
use crate::replay::decisions::Decisions;
use crate::replay::failure::{Failure, is_standard};
use crate::replay::found::{Found, Preface};
use crate::replay::interrupt::Interrupt;
use crate::replay::progress::{Work, bar};

pub(crate) mod args;
pub(crate) mod decisions;
mod drive;
pub(crate) mod failure;
pub(crate) mod found;
pub(crate) mod interrupt;
pub(crate) mod progress;
mod report_args;

pub(crate) use args::Args;
pub(crate) use report_args::ReportArgs;

/// With fewer events, nothing is said about how fast they were decided.
const SPEED_EVENTS_MIN: usize = 1_000_000;

pub(crate) fn run(args: &Args) -> ExitCode {
    exit(execute(args))
}

/// The exit status of a command that decides events; prints why it failed.
pub(crate) fn exit(outcome: Result<(), Failure>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => ExitCode::from(failure.print()),
    }
}

/// Runs the replay: reads the rules, decides on every event, writes the decisions if a file for
/// them is named, and prints the report. A closed pipe at the other end of stdout is not an error,
/// and ends the replay only if nothing but the decisions is asked for.
fn execute(args: &Args) -> Result<(), Failure> {
    if let Some(url) = &args.drive.target {
        return drive::execute(args, url);
    }
    if let Some(option) = args.drive.without_target() {
        return Err(Failure::Message(format!(
            "{option}: only for requests that are sent to a running service; add --target URL, or \
             leave it out"
        )));
    }
    let written = &args.written;
    if args.compare.is_empty() {
        let instead = "needs --compare OLD-RULES, whose decisions it counts from";
        args::check_conditions(&written.fail_if, instead)?;
    }
    let inputs = || args.files.iter().chain(&args.rules).chain(&args.compare);
    if let Some(path) = &written.report {
        let others = inputs().chain(written.decisions_file());
        output_file::check("--report", path, others).map_err(Failure::Message)?;
    }
    let memories = written.memories().check();
    memories.map_err(|error| Failure::Message(with_causes(&error)))?;
    let rules = Rules {
        new: args::rules(&args.rules, args.merge_domains)?,
        old: match args.compare.is_empty() {
            true => None,
            false => Some(args::rules(&args.compare, args.merge_domains)?),
        },
    };
    let format = args::format(args, &rules.new)?;
    let traffic = prepare(args, Traffic::new(format))?;
    let mut decisions = Decisions::create(written, inputs())?;
    let decided = read_and_decide(args, traffic, &rules, decisions.as_mut());
    match finish(decided, decisions)? {
        Some((found, traffic)) => found.write(written, &traffic, Preface::default()),
        None => Ok(()),
    }
}

/// The traffic, before any is read, with keys shaped and events selected as the options say.
fn prepare(args: &Args, traffic: Traffic) -> Result<Traffic, Failure> {
    let fields = traffic.check_fields();
    fields.map_err(|error| Failure::Message(format!("--descriptor: {error}")))?;
    let traffic = args.log.shape(traffic).map_err(Failure::Message)?;
    let traffic = traffic.select(args::selection(args)?);
    traffic.map_err(|error| Failure::Message(format!("--where: {error}")))
}

/// Gives the file of decisions its name, if all went well; `None` if the reader of standard output
/// has closed the pipe, as `head` does, which is not an error, and nothing else is asked for.
pub(crate) fn finish(
    decided: Result<(Found, Traffic), Stopped>,
    decisions: Option<Decisions>,
) -> Result<Option<(Found, Traffic)>, Failure> {
    match decided {
        Ok(found) => {
            if let Some(decisions) = decisions {
                decisions.finish()?;
            }
            Ok(Some(found))
        }
        Err(Stopped {
            why: Error::Write { source, .. },
            ..
        }) if source.kind() == ErrorKind::BrokenPipe => Ok(None),
        Err(stopped) => Err(stopped.failure(decisions)),
    }
}

/// The rules that decide, and those that they are compared with.
pub(crate) struct Rules {
    pub(crate) new: RuleSet,
    pub(crate) old: Option<RuleSet>,
}

/// Why the replay ended early.
pub(crate) struct Stopped {
    pub(crate) why: Error,
    /// How many events there are; `None` while they are simulated, before any decision is written.
    pub(crate) events: Option<usize>,
}

/// Reads all inputs, then decides on their events.
fn read_and_decide(
    args: &Args,
    mut traffic: Traffic,
    rules: &Rules,
    decisions: Option<&mut Decisions>,
) -> Result<(Found, Traffic), Stopped> {
    if decisions.is_some() || rules.old.is_some() {
        traffic = traffic.with_clients();
    }
    if args.written.report.is_some() && rules.old.is_none() {
        traffic = traffic.with_details();
    }
    let stopped = |why, traffic: &Traffic| Stopped {
        why,
        events: Some(traffic.events()),
    };
    let partial = decisions.as_ref().and_then(|decisions| decisions.partial());
    let interrupt = Interrupt::listen(partial);
    let read = read(&args.files, &mut traffic, &interrupt).and_then(|()| traffic.check());
    read.map_err(|why| stopped(why, &traffic))?;
    interrupt.decide();
    decide(&args.written, traffic, rules, decisions, &interrupt)
}

/// Decides on all events in the order of their times. Stops between two events if the user
/// interrupts.
pub(crate) fn decide(
    args: &ReportArgs,
    mut traffic: Traffic,
    rules: &Rules,
    decisions: Option<&mut Decisions>,
    interrupt: &Interrupt,
) -> Result<(Found, Traffic), Stopped> {
    let bar = bar(Work::Deciding, traffic.events().try_into().ok());
    let options = args.options();
    let out: Option<&mut dyn Write> = match decisions {
        Some(out) => Some(out),
        None => None,
    };
    let progress = &mut |count| {
        bar.set_position(count);
        match interrupt.is_wanted() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    let found = match &rules.old {
        None if args.report.is_some() => survey(&mut traffic, &rules.new, options, out, progress)
            .map(|found| Found::Survey(Box::new(found))),
        None => replay(&mut traffic, &rules.new, options, out, progress)
            .map(|report| Found::Report(Box::new(report))),
        Some(old) => compare(&mut traffic, old, &rules.new, options, out, progress)
            .map(|comparison| Found::Comparison(Box::new(comparison))),
    };
    let elapsed = bar.elapsed();
    bar.finish_and_clear();
    match found {
        Ok(found) => {
            print_speed(traffic.events(), elapsed);
            Ok((found, traffic))
        }
        Err(why) => Err(Stopped {
            why,
            events: Some(traffic.events()),
        }),
    }
}

/// Says how fast events were decided, if it took long enough to be known.
fn print_speed(events: usize, elapsed: Duration) {
    let nanos = elapsed.as_nanos();
    if events >= SPEED_EVENTS_MIN && nanos > 0 {
        let per_second = u128::try_from(events).unwrap_or(0) * 1_000_000_000 / nanos;
        let (seconds, tenths) = (elapsed.as_secs(), elapsed.subsec_millis() / 100);
        print_notice(format_args!(
            "{events} events decided in {seconds}.{tenths} s: {per_second} events per second"
        ));
    }
}

// === impl Stopped ===

impl Stopped {
    /// The message: why the replay ended, how far it got, and where the decisions so far are.
    pub(crate) fn failure(self, decisions: Option<Decisions>) -> Failure {
        let events = self.events.and_then(|events| u64::try_from(events).ok());
        let noun = Noun(events.unwrap_or(0), "event");
        let of = events.map(|events| format!("{events} {noun}"));
        let is_interrupt = matches!(self.why, Error::Stopped { .. });
        let message = match (&self.why, &of) {
            (Error::Stopped { decided }, Some(of)) if events == Some(*decided) => {
                return failure_at_the_end(of, decisions);
            }
            (Error::Stopped { decided }, Some(of)) => {
                format!("interrupted after {decided} of {of}")
            }
            (Error::Stopped { decided }, None) => format!(
                "interrupted after the simulation of {}, before their decisions were written; \
                 nothing is written",
                pluralize(decided, "event")
            ),
            (Error::Write { decided, source }, Some(of)) => {
                format!("cannot write the decisions after {decided} of {of}: {source}")
            }
            (why, _) => with_causes(why),
        };
        let message = match decisions.and_then(Decisions::give_up) {
            Some(left) => format!("{message}; {left}"),
            None => message,
        };
        match is_interrupt {
            true => Failure::Interrupted(message),
            false => Failure::Message(message),
        }
    }
}

/// An interrupt while all events are decided again for a page: their decisions are complete.
fn failure_at_the_end(of: &str, decisions: Option<Decisions>) -> Failure {
    let message = format!("interrupted after all {of} were decided; the report is not written");
    let Some(decisions) = decisions else {
        return Failure::Interrupted(message);
    };
    match decisions.finish() {
        Ok(None) => Failure::Interrupted(message),
        Ok(Some(path)) => Failure::Interrupted(format!(
            "{message}, the decisions are in {}",
            path.display()
        )),
        Err(failure) => failure,
    }
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
