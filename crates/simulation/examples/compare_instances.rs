//! Predicts what instances do with given traffic, and measures it over a real Redis.
#![expect(clippy::print_stdout, reason = "a program prints its results")]

use std::ops::ControlFlow;
use std::process::ExitCode;

use tollgate_core::{Mode, Moment, OnStoreError, Sharing};
use tollgate_replay::{Deviation, Error, Memories, RuleDeviation, Simulation, Workload};
use tollgate_rules::{Options, RuleSet, Source};
use tollgate_simulation::{
    Fleet, INSTANCE_EVENTS_MAX, INSTANCES_MAX, Played, RealRedis, RedisMemory,
};
use tollgate_testbed::Redis;

const USAGE: &str = "\
Usage: cargo xtask simulate --rules FILE --traffic WORDS [...]
  --rules FILE           a rules file with one domain
  --descriptor PATTERN   as `tollgate simulate --descriptor` (remote_address={client})
  --traffic WORDS        as `tollgate simulate --traffic`, with retries; may be repeated
  --instances N          how many (3); each attempt goes to one at random
  --mode NAME            strict, leased or write_back (all of them), where rules have no mode
  --on-store-error NAME  allow, deny, error or local (allow)
  --delay MS             longest delay of a message to or from Redis, if predicted (1)
  --sync MS              how often local counts are reported (100)
  --seed N               of all that is random (1)";

struct Arguments {
    fleet: Fleet,
    simulation: Simulation,
    /// The path and the text of the rules file.
    rules: (String, String),
    modes: Vec<Mode>,
    on_store_error: OnStoreError,
}

/// A server of the tests.
struct TestRedis(Redis);

/// Prints two rows for each mode: what is predicted, and below it what is measured.
fn main() -> ExitCode {
    let compared = parse(std::env::args().skip(1)).map_err(|why| format!("{why}\n{USAGE}"));
    match compared.and_then(|arguments| compare(&arguments).map_err(|error| text(&error))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

/// Predicts and measures each mode.
fn compare(arguments: &Arguments) -> Result<(), Error> {
    println!(
        "{:<10} {:<9} {:>8} {:>8} {:>8} {:>8} {:>6} {:>6} {:>7} {:>10} {:>10} {:>10} {:>7} {:>9}",
        "mode",
        "",
        "offered",
        "attempts",
        "exact",
        "allowed",
        "over",
        "under",
        "failed",
        "no Redis",
        "requests/s",
        "writes/s",
        "keys",
        "bytes"
    );
    let Arguments {
        fleet, simulation, ..
    } = arguments;
    for mode in &arguments.modes {
        let rules = rules(arguments, *mode);
        let simulation = &Simulation {
            domain: rules.domains().next().unwrap_or_default().to_owned(),
            ..simulation.clone()
        };
        let go_on = &mut |_| ControlFlow::Continue(());
        let predicted = fleet.predict(simulation, &rules, go_on)?;
        print(*mode, "predicted", &rules, predicted)?;
        let redis = TestRedis(Redis::start());
        let measured = fleet.measure(simulation, &rules, &redis)?;
        print(*mode, "measured", &rules, measured)?;
    }
    Ok(())
}

/// Prints what came of a mode, beside what a single instance allows.
fn print(mode: Mode, how: &str, rules: &RuleSet, played: Played) -> Result<(), Error> {
    let deviation = Deviation::of(rules, &played.traffic)?;
    let of_rules =
        |count: fn(&RuleDeviation) -> u64| deviation.rules.iter().map(count).sum::<u64>();
    let load = &played.load;
    println!(
        "{:<10} {how:<9} {:>8} {:>8} {:>8} {:>8} {:>6} {:>6} {:>7} {:>10} {:>10} {:>10} \
         {:>7} {:>9}",
        mode.to_string(),
        played.workloads.iter().map(|one| one.requests).sum::<u64>(),
        played.workloads.iter().map(|one| one.attempts).sum::<u64>(),
        deviation.exact,
        deviation.allowed,
        of_rules(|rule| rule.over),
        of_rules(|rule| rule.under),
        load.failed,
        load.without_redis,
        load.per_second(load.to_redis),
        load.per_second(load.writes),
        load.redis_most.keys,
        load.redis_most.bytes,
    );
    Ok(())
}

/// The rules, with this mode where they have none.
fn rules(arguments: &Arguments, mode: Mode) -> RuleSet {
    let options = Options {
        sharing: Sharing {
            mode,
            on_store_error: arguments.on_store_error,
            ..Sharing::default()
        },
        ..Options::default()
    };
    let (path, text) = &arguments.rules;
    let loaded = RuleSet::parse(&[Source::new(path, text.clone())], &options);
    assert!(!loaded.has_errors(), "{:?}", loaded.diagnostics);
    loaded.rules
}

/// Parses the command line, which [`USAGE`] describes.
fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let mut arguments = Arguments {
        fleet: Fleet::new(3),
        simulation: Simulation {
            workloads: Vec::new(),
            seed: 1,
            start: Moment::ZERO,
            domain: String::new(),
            descriptors: Vec::new(),
            memories: Memories::Unbounded,
            events_max: INSTANCE_EVENTS_MAX,
        },
        rules: <(String, String)>::default(),
        modes: vec![Mode::Strict, Mode::Leased, Mode::WriteBack],
        on_store_error: OnStoreError::Allow,
    };
    while let Some(option) = words.next() {
        let value = words.next().ok_or(format!("{option} needs a value"))?;
        let found = read(&mut arguments, &option, &value);
        found.map_err(|why| format!("{option} {value}: {why}"))?;
    }
    if arguments.simulation.workloads.is_empty() {
        return Err("--traffic is missing, such as --traffic 'poisson 50/s keys 10'".to_owned());
    }
    if arguments.rules.0.is_empty() {
        return Err("--rules is missing".to_owned());
    }
    if arguments.simulation.descriptors.is_empty() {
        let client = "remote_address={client}".parse();
        arguments.simulation.descriptors = vec![client.map_err(|error| text(&error))?];
    }
    Ok(arguments)
}

/// Reads one option.
fn read(arguments: &mut Arguments, option: &str, value: &str) -> Result<(), String> {
    let Arguments {
        fleet, simulation, ..
    } = arguments;
    match option {
        "--traffic" => {
            let workload: Workload = value.parse().map_err(|error| text(&error))?;
            simulation.workloads.push(workload);
        }
        "--descriptor" => {
            let pattern = value.parse().map_err(|error| text(&error))?;
            simulation.descriptors.push(pattern);
        }
        "--rules" => {
            let read = std::fs::read_to_string(value).map_err(|error| text(&error))?;
            arguments.rules = (value.to_owned(), read);
        }
        "--mode" => {
            let modes = [Mode::Strict, Mode::Leased, Mode::WriteBack];
            let found = modes.into_iter().find(|mode| mode.to_string() == value);
            arguments.modes = vec![found.ok_or("write strict, leased or write_back")?];
        }
        "--on-store-error" => {
            let found = [
                OnStoreError::Allow,
                OnStoreError::Deny,
                OnStoreError::Error,
                OnStoreError::Local,
            ]
            .into_iter()
            .find(|one| one.to_string() == value);
            arguments.on_store_error = found.ok_or("write allow, deny, error or local")?;
        }
        "--instances" => fleet.instances = number(value, INSTANCES_MAX)?.max(1),
        "--delay" => fleet.delay_ms = number(value, 60_000)?,
        "--sync" => fleet.sync_ms = number(value, 10_000)?,
        "--seed" => simulation.seed = number(value, u64::MAX)?,
        _ => return Err("there is no such option".to_owned()),
    }
    Ok(())
}

fn number<T>(value: &str, most: T) -> Result<T, String>
where
    T: std::str::FromStr<Err = std::num::ParseIntError> + PartialOrd + std::fmt::Display,
{
    let number: T = value.parse().map_err(|error| text(&error))?;
    match number > most {
        true => Err(format!("must be from 0 to {most}")),
        false => Ok(number),
    }
}

/// An error and its causes.
fn text(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    let causes = causes.map(ToString::to_string).collect::<Vec<_>>();
    causes.join(": ")
}

// === impl TestRedis ===

impl RealRedis for TestRedis {
    fn address(&self) -> String {
        self.0.address()
    }

    fn memory(&self) -> RedisMemory {
        let (keys, bytes) = self.0.keys_and_bytes();
        RedisMemory { keys, bytes }
    }
}
