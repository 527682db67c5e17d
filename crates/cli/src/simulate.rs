//! `tollgate simulate`: traffic in a few words, through the same engine, in virtual time.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::{Map, json};
use tollgate_core::Moment;
use tollgate_replay::{
    DESCRIPTORS_MAX, Error, Pattern, Simulation, Traffic, Workload, WorkloadTotals, Workloads,
    parse_moment,
};

use crate::replay::args::{domain, rules};
use crate::replay::decisions::Decisions;
use crate::replay::failure::Failure;
use crate::replay::found::Preface;
use crate::replay::interrupt::Interrupt;
use crate::replay::progress::{Work, bar};
use crate::replay::{ReportArgs, Rules, Stopped, decide, exit, finish, page_file};
use crate::suggest::TriedLimits;

mod table;

/// The most workloads of one simulation.
const WORKLOADS_MAX: usize = 64;

/// Simulate traffic through rules, in virtual time.
///
/// Traffic is described in a few words. Each request is decided at its own time with the same
/// engine as the service; denied clients may try again. Reports what would have been denied, as
/// `tollgate replay` does.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// A rules file, or a directory of `*.yaml` and `*.yml` files; may be repeated.
    #[arg(long, value_name = "PATH", required_unless_present = "table")]
    rules: Vec<PathBuf>,
    /// Allow several documents to add descriptors to one domain.
    #[arg(long)]
    merge_domains: bool,
    /// The domain whose rules apply. Not needed if the rules have only one.
    #[arg(long, value_name = "NAME")]
    domain: Option<String>,
    /// A descriptor of each request; may be repeated.
    ///
    /// A list such as `remote_address={client}` or `path=/login,user={client}`. `{client}` is the
    /// key that the traffic has made; all other text is literal.
    #[arg(
        long = "descriptor",
        value_name = "KEY={client},...",
        default_value = "remote_address={client}"
    )]
    descriptors: Vec<Pattern>,
    /// A description of traffic, in the words below; if repeated, all of it is combined.
    #[arg(long, value_name = "WORDS", required_unless_present = "table")]
    traffic: Vec<Workload>,
    /// The random seed: the same seed generates the same requests.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// When the traffic begins. Default: 1970.
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    start: Option<Moment>,
    #[command(flatten)]
    written: ReportArgs,
    /// Instead of using rules and traffic, show what each algorithm does with a minute of constant
    /// traffic below and above one limit.
    #[arg(long, conflicts_with_all = ["rules", "traffic", "domain", "seed", "start", "report",
        "decisions", "fail_if", "max_keys", "top", "merge_domains", "descriptors"])]
    table: bool,
    /// The limit of --table.
    #[arg(
        long,
        value_name = "N/UNIT",
        default_value = "10/second",
        requires = "table"
    )]
    limit: TriedLimits,
}

const AFTER_HELP: &str = "\
Traffic:
  constant RATE              evenly spaced
  poisson RATE               at random, independent of each other
  bursts N every TIME        N at the same moment, repeatedly
  new-keys RATE              evenly spaced, each with a new key
  botnet N clients RATE      N clients, each of them at this rate, out of step
followed by, in any order:
  for TIME                   how long (default 1m)
  from TIME                  when it begins (default 0s)
  keys N                     of constant, poisson and bursts: how many clients (default 1)
  as NAME                    what clients are called: NAME-0, NAME-1 and so on
  retry every TIME           denied clients try again after this time
  retry backoff TIME         after a random part of this time, which doubles with each retry
  retry retry-after          after `Retry-After`, and a random part of a second
  attempts N                 they give up after this many attempts (default 10)

A rate is 20/s, 300/m or 5/10s. Times are 100ms, 30s, 5m, 1h30m.

Exit status: 0 if the rules were read and the traffic decided; 1 if the rules have errors; 2 if \
the command line is wrong or a file cannot be written; 3 if a condition of --fail-if holds; 130 if \
interrupted.";

pub(crate) fn run(args: &Args) -> ExitCode {
    exit(match args.table {
        true => table::print(&args.limit, args.written.output.or_json(args.written.json)),
        false => execute(args),
    })
}

/// Simulates the traffic, and writes what came of it as a replay does.
fn execute(args: &Args) -> Result<(), Failure> {
    let written = &args.written;
    crate::replay::args::check_conditions(&written.fail_if, false)?;
    if let Some(path) = &written.report {
        let others = args.rules.iter().chain(&written.decisions);
        page_file::check(path, &others.collect::<Vec<_>>())?;
    }
    let rules = Rules {
        new: rules(&args.rules, args.merge_domains)?,
        old: None,
    };
    let simulation = simulation(args, &rules)?;
    let decisions = written.decisions.as_deref();
    let decisions = decisions.map(|path| Decisions::create(path, &args.rules));
    let mut decisions = decisions.transpose()?;
    let partial = decisions.as_ref().and_then(Decisions::partial);
    let interrupt = Interrupt::listen(partial);
    interrupt.decide();
    let decided = simulate(&simulation, &rules, &interrupt).and_then(|(traffic, totals)| {
        let decided = decide(written, traffic, &rules, decisions.as_mut(), &interrupt)?;
        Ok((decided, totals))
    });
    let (decided, totals) = match decided {
        Ok((decided, totals)) => (Ok(decided), totals),
        Err(stopped) => (Err(stopped), Vec::new()),
    };
    match finish(decided, decisions)? {
        Some((found, traffic)) => found.write(written, &traffic, preface(args.seed, &totals)),
        None => Ok(()),
    }
}

/// What the command line describes.
fn simulation(args: &Args, rules: &Rules) -> Result<Simulation, Failure> {
    let usage = |message: String| Err(Failure::Message(message));
    if args.descriptors.len() > DESCRIPTORS_MAX {
        return usage(format!(
            "more than {DESCRIPTORS_MAX} descriptors; that is the most a request may have"
        ));
    }
    if args.traffic.len() > WORKLOADS_MAX {
        return usage(format!(
            "more than {WORKLOADS_MAX} times --traffic; that is the most"
        ));
    }
    Ok(Simulation {
        workloads: args.traffic.clone(),
        seed: args.seed,
        start: args.start.unwrap_or(Moment::ZERO),
        domain: domain(args.domain.as_deref(), &rules.new)?,
        descriptors: args.descriptors.clone(),
        memories: args.written.memories(),
    })
}

/// Makes the events; stops between two of them if the user interrupts.
fn simulate(
    simulation: &Simulation,
    rules: &Rules,
    interrupt: &Interrupt,
) -> Result<(Traffic, Vec<WorkloadTotals>), Stopped> {
    let bar = bar(Work::Simulating, None);
    let progress = &mut |count| {
        bar.set_position(count);
        match interrupt.is_wanted() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    let simulated = simulation.run(&rules.new, progress);
    bar.finish_and_clear();
    let simulated = simulated.and_then(|(traffic, totals)| {
        traffic.check()?;
        Ok((traffic, totals))
    });
    simulated.map_err(|why: Error| Stopped { why, events: 0 })
}

/// The seed and the totals of each workload.
fn preface(seed: u64, totals: &[WorkloadTotals]) -> Preface {
    let mut members = Map::new();
    members.insert("seed".to_owned(), json!(seed));
    let workloads = totals.iter().map(WorkloadTotals::to_json);
    members.insert("traffic".to_owned(), workloads.collect());
    Preface {
        text: format!("seed {seed}\n\n{}\n", Workloads(totals)),
        members,
    }
}
