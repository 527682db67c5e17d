//! `tollgate simulate`: traffic in a few words, through the same engine, in virtual time.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::{Map, json};
use tollgate_core::{Moment, Span};
use tollgate_replay::{
    DESCRIPTORS_MAX, Deviation, EVENTS_MAX, Error, Pattern, Simulation, SimulationSection, Traffic,
    Workload, WorkloadTotals, Workloads, parse_moment,
};
use tollgate_simulation::{Fleet, INSTANCE_EVENTS_MAX};

use crate::output_file;
use crate::replay::args::{check_conditions, domain, rules_shared_as};
use crate::replay::decisions::Decisions;
use crate::replay::failure::Failure;
use crate::replay::found::Preface;
use crate::replay::interrupt::Interrupt;
use crate::replay::progress::{Work, bar};
use crate::replay::{ReportArgs, Rules, Stopped, decide, exit, finish};
use crate::suggest::TriedLimits;

mod instances;
mod mode_notes;
mod table;

use instances::{InstancesArgs, InstancesReport};
use mode_notes::mode_notes;

/// The most workloads of one simulation.
const WORKLOADS_MAX: usize = 64;

/// Simulate traffic through rules, in virtual time.
///
/// Traffic is described in a few words. Each request is decided at its own time with the same
/// engine as the service; denied clients may try again. Reports what would have been denied, as
/// `tollgate replay` does.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP, override_usage = USAGE)]
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
        value_parser = Pattern::of_clients,
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
    /// When the traffic begins, at most 2500-01-01. Default: 1970.
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    start: Option<Moment>,
    #[command(flatten)]
    written: ReportArgs,
    /// Instead of using rules and traffic, show what each algorithm does with a minute of constant
    /// traffic below and above one limit.
    #[arg(long, conflicts_with_all = ["rules", "traffic", "domain", "seed", "start", "report",
        "decisions", "fail_if", "max_keys", "top", "merge_domains", "descriptors", "instances",
        "mode", "on_store_error", "delay", "timeout", "skew", "sync", "crash", "outage",
        "failover"])]
    table: bool,
    /// The limits of --table: `10/second`, `30,60/minute`, `5/15m`.
    #[arg(
        long,
        value_name = "N,.../UNIT",
        default_value = "10/second",
        requires = "table",
        conflicts_with = "traffic"
    )]
    limit: TriedLimits,
    // The last one, because its heading is that of all options after it.
    #[command(flatten)]
    instances: InstancesArgs,
}

const USAGE: &str = "tollgate simulate [OPTIONS] --rules <PATH> --traffic <WORDS>
       tollgate simulate --table [--limit <N,.../UNIT>]";

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
the command line is wrong, a file cannot be written, or a condition of --fail-if cannot be judged, \
because no event met a limit; 3 if one holds; 130 if \
interrupted.";

pub(crate) fn run(args: &Args) -> ExitCode {
    exit(match args.table {
        true => table::print(&args.limit, args.written.output.or_json(args.written.json)),
        false => execute(args),
    })
}

/// Traffic, and what came of it.
struct Simulated {
    traffic: Traffic,
    workloads: Vec<WorkloadTotals>,
    /// What came of the instances, if there are several.
    instances: Option<InstancesReport>,
}

/// Simulates the traffic, and writes what came of it as a replay does.
fn execute(args: &Args) -> Result<(), Failure> {
    let written = &args.written;
    let instead = "is for two sets of rules, which only `tollgate replay --compare` has; use \
                   another metric, such as denied";
    check_conditions(&written.fail_if, instead)?;
    if let Some(path) = &written.report {
        let others = args.rules.iter().chain(written.decisions_file());
        output_file::check("--report", path, others).map_err(Failure::Message)?;
    }
    let fleet = args.instances.fleet(end(&args.traffic))?;
    if fleet.is_some() && written.max_keys.is_some() {
        return Err(Failure::Message(
            "--max-keys: instances that share limits over Redis keep all keys there; leave it out"
                .to_owned(),
        ));
    }
    let sharing = args.instances.sharing();
    let rules = Rules {
        new: rules_shared_as(&args.rules, args.merge_domains, sharing)?,
        old: None,
    };
    let mut simulation = simulation(args, &rules)?;
    if fleet.is_some() {
        simulation.events_max = INSTANCE_EVENTS_MAX;
    }
    let mut decisions = Decisions::create(written, &args.rules)?;
    let partial = decisions.as_ref().and_then(Decisions::partial);
    let interrupt = Interrupt::listen(partial);
    interrupt.decide();
    let simulated = match &fleet {
        None => simulate(&simulation, &rules, &interrupt),
        Some(fleet) => share(fleet, &simulation, &rules, &interrupt),
    };
    let decided = simulated.and_then(|simulated| {
        let preface = preface(args.seed, &simulated);
        let traffic = simulated.traffic;
        let decided = decide(written, traffic, &rules, decisions.as_mut(), &interrupt)?;
        Ok((decided, preface))
    });
    let (decided, preface) = match decided {
        Ok((decided, preface)) => (Ok(decided), preface),
        Err(stopped) => (Err(stopped), Preface::default()),
    };
    match finish(decided, decisions)? {
        Some((found, traffic)) => found.write(written, &traffic, preface),
        None => Ok(()),
    }
}

/// When all traffic has ended; `None` if denied clients may go on.
fn end(workloads: &[Workload]) -> Option<Span> {
    let has_retries = workloads.iter().any(Workload::has_retries);
    let end = workloads.iter().map(Workload::end).max();
    end.filter(|_| !has_retries)
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
    let simulation = Simulation {
        workloads: args.traffic.clone(),
        seed: args.seed,
        start: args.start.unwrap_or(Moment::ZERO),
        domain: domain(args.domain.as_deref(), &rules.new)?,
        descriptors: args.descriptors.clone(),
        memories: args.written.memories(),
        events_max: EVENTS_MAX,
    };
    match simulation.find_late() {
        None => Ok(simulation),
        Some(late) => usage(format!(
            "--traffic '{late}': it ends after 2500-01-01, when times saturate; give it less time, \
             or begin earlier with --start"
        )),
    }
}

/// Makes the events; stops between two of them if the user interrupts.
fn simulate(
    simulation: &Simulation,
    rules: &Rules,
    interrupt: &Interrupt,
) -> Result<Simulated, Stopped> {
    let simulated = with_bar(interrupt, |progress| {
        let (traffic, workloads) = simulation.run(&rules.new, progress)?;
        traffic.check()?;
        Ok(Simulated {
            traffic,
            workloads,
            instances: None,
        })
    });
    simulated.map_err(|why| Stopped { why, events: None })
}

/// Has instances decide the traffic.
fn share(
    fleet: &Fleet,
    simulation: &Simulation,
    rules: &Rules,
    interrupt: &Interrupt,
) -> Result<Simulated, Stopped> {
    let simulated = with_bar(interrupt, |progress| {
        let played = fleet.predict(simulation, &rules.new, progress)?;
        played.traffic.check()?;
        let report = InstancesReport {
            instances: fleet.instances,
            deviation: Deviation::of(&rules.new, &played.traffic)?,
            load: played.load,
            notes: mode_notes(&rules.new, &simulation.domain),
        };
        Ok(Simulated {
            traffic: played.traffic,
            workloads: played.workloads,
            instances: Some(report),
        })
    });
    simulated.map_err(|why| Stopped { why, events: None })
}

/// Shows how far the work is, and stops it if the user interrupts.
fn with_bar<T>(
    interrupt: &Interrupt,
    work: impl FnOnce(&mut dyn FnMut(u64) -> ControlFlow<()>) -> Result<T, Error>,
) -> Result<T, Error> {
    let bar = bar(Work::Simulating, None);
    let worked = work(&mut |count| {
        bar.set_position(count);
        match interrupt.is_wanted() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    bar.finish_and_clear();
    worked
}

/// The seed, the totals of each workload, and what came of the instances.
fn preface(seed: u64, simulated: &Simulated) -> Preface {
    let totals = &simulated.workloads;
    let mut members = Map::new();
    members.insert("seed".to_owned(), json!(seed));
    let workloads = totals.iter().map(WorkloadTotals::to_json);
    members.insert("traffic".to_owned(), workloads.collect());
    let mut text = format!("seed {seed}\n\n{}\n", Workloads(totals));
    if let Some(instances) = &simulated.instances {
        members.insert("instances".to_owned(), instances.to_json());
        text.push_str(&instances.to_text());
    }
    let instances = simulated.instances.as_ref();
    Preface {
        text,
        members,
        simulation: Some(SimulationSection {
            seed,
            workloads: totals.clone(),
            instances: instances.map(InstancesReport::to_section),
        }),
    }
}
