//! `tollgate plan`: how much memory, how many instances and how much Redis some traffic needs.

use std::path::PathBuf;
use std::process::ExitCode;

use tollgate_backends::BACKENDS;
use tollgate_core::{CHARGES_MAX, DESCRIPTORS_MAX, Limit, Mode, ParseLimitError, Sharing, Span};
use tollgate_replay::{MetLimit, Pattern, met_limits};

use crate::message::{print_error, with_causes};
use crate::output::{self, Output};
use crate::printable::json_lines;
use crate::replay::args::{domain, rules_shared_as};
use crate::replay::failure::Failure;

mod constants;
mod demand;
mod estimate;
mod figure;
mod machines;
mod quantity;
mod report;

use constants::Constants;
use demand::{Demand, DemandedLimit, mode_in_effect};
use estimate::Estimate;
use machines::{ListenerChoice, Machines, ModeChoice, StoreChoice};
use quantity::{Count, RequestRate};
use report::Report;

/// Plan capacity: how much memory, how many instances, how much Redis.
///
/// The figures are computed from constants that `cargo xtask bench constants` has measured, and
/// each figure names its constants. The memory of tables is exact; processor time is that of the
/// machine on which the constants were measured.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// How many users are limited at the same time, such as 250000, 250k or 1M.
    ///
    /// A user counts from its first request until all of its budgets are full again.
    #[arg(long, value_name = "COUNT")]
    users: Count,
    /// Requests of all users together, such as 500, 10k/s or 36M/hour. Without a unit, per second.
    #[arg(long, value_name = "RATE")]
    rate: RequestRate,
    /// A limit that each request is charged to, with a key for each user; may be repeated.
    ///
    /// Such as `100/minute`, `5 per 15m sliding_log`, `9/minute sliding_window in 6 segments` or
    /// `9/s leaky_bucket queue 20`. A limit that names no algorithm is a token bucket. Default:
    /// `100/minute`.
    #[arg(
        long = "limit",
        value_parser = limit,
        value_name = "LIMIT",
        conflicts_with = "rules"
    )]
    limits: Vec<Limit>,
    /// Instead of --limit: a rules file, or a directory of rules files; may be repeated.
    #[arg(long, value_name = "PATH", requires = "descriptors")]
    rules: Vec<PathBuf>,
    /// Allow several documents to add descriptors to one domain.
    #[arg(long, requires = "rules")]
    merge_domains: bool,
    /// The domain whose rules apply. Not needed if the rules have only one.
    #[arg(long, value_name = "NAME", requires = "rules")]
    domain: Option<String>,
    /// A descriptor of each request, which decides which rules it meets; may be repeated.
    ///
    /// A list such as `user={client}` or `path=/login,remote_address={client}`. `{client}` is the
    /// user; all other text is literal.
    #[arg(
        long = "descriptor",
        value_parser = Pattern::of_clients,
        value_name = "KEY={client},...",
        requires = "rules"
    )]
    descriptors: Vec<Pattern>,
    /// Where counters are kept.
    #[arg(long, value_enum, default_value_t)]
    store: StoreChoice,
    /// How instances share limits over Redis, unless a rule sets its own mode. Default: strict.
    #[arg(long, value_enum)]
    mode: Option<ModeChoice>,
    /// How decisions are requested.
    #[arg(long, value_enum, default_value_t)]
    listener: ListenerChoice,
    /// Processors of each machine.
    #[arg(long, value_name = "N", default_value_t = 4,
        value_parser = clap::value_parser!(u64).range(1..=4096))]
    cores: u64,
    /// The highest processor utilisation of instances and of Redis, in percent.
    #[arg(long, value_name = "PERCENT", default_value_t = 60,
        value_parser = clap::value_parser!(u64).range(1..=100))]
    utilization: u64,
    /// Instances beyond those that the load needs, for failures and updates.
    #[arg(long, value_name = "N", default_value_t = 0,
        value_parser = clap::value_parser!(u64).range(0..=1000))]
    spare: u64,
    /// Constants that `cargo xtask bench constants --write FILE` has measured on your machine.
    #[arg(long, value_name = "FILE")]
    constants: Option<PathBuf>,
    /// Report format.
    #[arg(long, value_enum, default_value_t = Output::Human)]
    output: Output,
}

const AFTER_HELP: &str = "\
The plan does not include the memory of connections, of requests in progress, and of bodies in the \
gateway.

Exit status: 0 if there is a plan; 1 if the rules have errors; 2 if the command line is wrong, a \
file cannot be read, or standard output cannot be written.";

pub(crate) fn run(args: &Args) -> ExitCode {
    match execute(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Rules) => ExitCode::FAILURE,
        Err(
            Failure::Message(message) | Failure::Condition(message) | Failure::Interrupted(message),
        ) => {
            print_error(&message);
            ExitCode::from(2)
        }
    }
}

/// Reads constants and limits, computes the plan, and prints it.
fn execute(args: &Args) -> Result<(), Failure> {
    if args.mode.is_some() && args.store == StoreChoice::Memory {
        return usage("--mode is how instances share limits over Redis; add --store redis");
    }
    let constants = Constants::read(args.constants.as_deref()).map_err(Failure::Message)?;
    let demand = Demand {
        users: args.users.0,
        per_second: args.rate.0,
        limits: limits(args)?,
    };
    if args.store == StoreChoice::Redis {
        check_fit(&demand)?;
    }
    let estimate = Estimate {
        demand: &demand,
        machines: Machines {
            store: args.store,
            listener: args.listener,
            cores: args.cores,
            utilization: args.utilization,
            spare: args.spare,
        },
        constants: &constants,
    };
    let plan = estimate.plan();
    let report = Report {
        demand: &demand,
        plan: &plan,
        constants: &constants,
        shows_modes: args.store == StoreChoice::Redis,
    };
    let text = match args.output {
        Output::Human => report.to_string(),
        Output::Json => json_lines(&report.to_json()),
    };
    output::print(&text).map_err(Failure::Message)
}

fn usage<T>(message: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::Message(message.into()))
}

/// Parses a limit. Clap prints no causes of an error, and here they are the reason.
fn limit(text: &str) -> Result<Limit, String> {
    text.parse()
        .map_err(|error: ParseLimitError| with_causes(&error))
}

/// The limits that every request meets: those of the command line, or of the rules.
fn limits(args: &Args) -> Result<Vec<DemandedLimit>, Failure> {
    let mode = args.mode.map_or(Mode::Strict, ModeChoice::mode);
    let met: Vec<MetLimit> = if args.rules.is_empty() {
        let default = Limit::token_bucket(100, Span::MINUTE).ok();
        let limits = args.limits.iter().copied();
        let limits = limits.chain(default.filter(|_| args.limits.is_empty()));
        limits
            .map(|limit| MetLimit {
                limit,
                sharing: Sharing::in_mode(mode),
                is_per_client: true,
            })
            .collect()
    } else {
        if args.descriptors.len() > DESCRIPTORS_MAX {
            return usage(format!(
                "more than {DESCRIPTORS_MAX} descriptors; that is the most a request may have"
            ));
        }
        let sharing = Sharing::in_mode(mode);
        let rules = rules_shared_as(&args.rules, args.merge_domains, sharing)?;
        let domain = domain(args.domain.as_deref(), &rules)?;
        let met = met_limits(&rules, &domain, &args.descriptors);
        if met.is_empty() {
            return usage(format!(
                "--descriptor: no limit of `{domain}` applies to these descriptors, so there is \
                 nothing to plan; `tollgate explain --rules PATH KEY=VALUE` shows why"
            ));
        }
        met
    };
    if met.len() > CHARGES_MAX {
        return usage(format!(
            "{} limits on each request; {CHARGES_MAX} is the most",
            met.len()
        ));
    }
    let limits = met.into_iter().map(|met| DemandedLimit {
        limit: met.limit,
        mode: mode_in_effect(&met.limit, met.sharing.mode),
        keys: if met.is_per_client { args.users.0 } else { 1 },
        is_shared: !met.is_per_client,
    });
    Ok(limits.collect())
}

/// Fails if Redis cannot keep one of the limits.
fn check_fit(demand: &Demand) -> Result<(), Failure> {
    let config = BACKENDS.iter().find_map(|backend| {
        let config = backend.from_url(backend.example_url).ok()?;
        Some((backend.name, config))
    });
    let Some((name, config)) = config else {
        return Ok(());
    };
    let mut limits = demand.limits.iter();
    match limits.find_map(|one| Some((one, config.unfit(&one.limit)?))) {
        None => Ok(()),
        Some((one, why)) => usage(format!("{name} cannot keep `{}`: {why}", one.limit)),
    }
}
