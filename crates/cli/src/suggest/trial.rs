//! Limits that are tried: the engine decides all requests under each of them, in virtual time.

use std::fmt::{self, Display, Formatter};
use std::ops::ControlFlow;
use std::str::FromStr;

use serde_json::{Value, json};
use tollgate_core::{Limit, ParseLimitError, ParseSpanError, Span, WINDOW_MAX};
use tollgate_replay::{Options, Report, Traffic, replay};
use tollgate_rules::{RuleSet, Source, escape};

use crate::message::with_causes;

/// The most limits of one command.
const LIMITS_MAX: usize = 20;
/// The windows that have a name.
const UNITS: [(&str, Span); 4] = [
    ("second", Span::SECOND),
    ("minute", Span::MINUTE),
    ("hour", Span::HOUR),
    ("day", Span::DAY),
];

/// `10,30,60/minute`, `5/s`, `5 per 15m`: as limits are written, with several counts.
#[derive(Clone, Debug)]
pub(crate) struct TriedLimits {
    counts: Vec<u32>,
    unit: String,
    window: Span,
}

/// An algorithm, or all of them. Each can also be written as in rules, such as `token_bucket`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum AlgorithmChoice {
    All,
    #[value(alias = "fixed_window")]
    FixedWindow,
    #[value(alias = "sliding_window")]
    SlidingWindow,
    #[value(alias = "sliding_log")]
    SlidingLog,
    #[value(alias = "token_bucket")]
    TokenBucket,
    #[value(alias = "leaky_bucket")]
    LeakyBucket,
}

/// One of the limits, with one algorithm.
pub(crate) struct TriedRules {
    pub(crate) count: u32,
    /// `10/minute`.
    pub(crate) limit: String,
    pub(crate) algorithm: &'static str,
    pub(crate) rules: RuleSet,
}

/// What each limit does with each algorithm.
pub(super) struct Trials(Vec<Trial>);

struct Trial {
    limit: String,
    algorithm: &'static str,
    report: Report,
}

/// Decides all requests under each limit and algorithm.
pub(super) fn trials(
    traffic: &mut Traffic,
    tried: Vec<TriedRules>,
    top_keys: usize,
) -> Result<Trials, String> {
    let trials = tried.into_iter().map(|tried| {
        let options = Options {
            top_keys,
            ..Options::default()
        };
        let go_on = &mut |_| ControlFlow::Continue(());
        let report = replay(traffic, &tried.rules, options, None, go_on);
        Ok(Trial {
            limit: tried.limit,
            algorithm: tried.algorithm,
            report: report.map_err(|error| with_causes(&error))?,
        })
    });
    trials.collect::<Result<_, String>>().map(Trials)
}

/// The rules of each limit with each algorithm, on all keys of the descriptor together. `option`
/// is where the limits are written, for errors.
pub(crate) fn tried_rules(
    option: &str,
    domain: &str,
    keys: &[String],
    limits: &TriedLimits,
    algorithms: &[AlgorithmChoice],
) -> Result<Vec<TriedRules>, String> {
    let mut tried = Vec::new();
    for count in &limits.counts {
        for algorithm in AlgorithmChoice::names(algorithms) {
            let limit = format!("{count}/{}", limits.unit);
            let rules = rules(domain, keys, &limit, algorithm)
                .map_err(|why| format!("{option} {limit}: {algorithm}: {why}"))?;
            tried.push(TriedRules {
                count: *count,
                limit,
                algorithm,
                rules,
            });
        }
    }
    Ok(tried)
}

/// Rules with one limit; or what is wrong with it.
fn rules(domain: &str, keys: &[String], limit: &str, algorithm: &str) -> Result<RuleSet, String> {
    let (count, unit) = limit.split_once('/').unwrap_or((limit, "minute"));
    let count: u32 = count.parse().unwrap_or(0);
    let window = match UNITS.iter().any(|(name, _)| *name == unit) {
        true => "unit",
        false => "window",
    };
    let rate_limit = json!({"requests_per_unit": count, window: unit, "algorithm": algorithm});
    let mut tree = json!({"rate_limit": rate_limit});
    for key in keys.iter().rev() {
        tree["key"] = json!(key);
        tree = json!({"descriptors": [tree]});
    }
    tree["domain"] = json!(domain);
    let loaded = RuleSet::parse(
        &[Source::new("limit", tree.to_string())],
        &Default::default(),
    );
    match loaded.diagnostics.iter().find(|one| one.is_error()) {
        None => Ok(loaded.rules),
        Some(error) => {
            let help = error.help.iter().map(|help| format!("; {help}"));
            Err(format!("{}{}", error.message, help.collect::<String>()))
        }
    }
}

// === impl TriedLimits ===

impl TriedLimits {
    /// The unit or the window: `minute`, `15m`.
    pub(crate) fn unit(&self) -> &str {
        &self.unit
    }

    /// How long that is.
    pub(crate) const fn window(&self) -> Span {
        self.window
    }
}

impl FromStr for TriedLimits {
    type Err = String;

    fn from_str(text: &str) -> Result<TriedLimits, String> {
        let wrong = || format!("`{text}` is not a list of limits such as 10,30,60/minute");
        let parts = text.split_once('/').or_else(|| text.split_once(" per "));
        let (counts, unit) = parts.ok_or_else(wrong)?;
        let count = |count: &str| {
            let count = count.trim();
            let is_number = !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit());
            match count.parse() {
                _ if !is_number => Err(wrong()),
                // As in rules files.
                _ if count.len() > 1 && count.starts_with('0') => Err(format!(
                    "`{count}` begins with a 0, which some programs read as octal; leave it out"
                )),
                Ok(count) => Ok(count),
                Err(_) => Err(format!("{count} is too large; the most is {}", u32::MAX)),
            }
        };
        let counts: Vec<u32> = counts.split(',').map(count).collect::<Result<_, _>>()?;
        if counts.len() > LIMITS_MAX {
            return Err(format!("more than {LIMITS_MAX} limits"));
        }
        let window = read_window(unit.trim())?;
        let named = UNITS.iter().find(|(_, span)| *span == window);
        let unit = named.map_or_else(|| window.to_string(), |(name, _)| (*name).to_owned());
        Ok(TriedLimits {
            counts,
            unit,
            window,
        })
    }
}

/// Parses a unit or a window as limits have them: `s`, `second`, `15m`.
fn read_window(text: &str) -> Result<Span, String> {
    if text.contains(char::is_whitespace) {
        return Err(format!(
            "`{text}` is not a valid unit; name algorithms with --algorithms"
        ));
    }
    // A bucket could not be as fast as the shortest windows.
    let limit: Result<Limit, _> = format!("1/{text} fixed_window").parse();
    let limit = limit.map_err(|error| match error {
        ParseLimitError::Invalid(error) => error.to_string(),
        ParseLimitError::Window(error @ ParseSpanError::TooLong) => {
            format!("the window `{text}`: {error}; the longest is {WINDOW_MAX}")
        }
        _ => format!(
            "`{text}` is not a valid unit; write second, minute, hour, day, week, month or year, \
             or a window such as 15m"
        ),
    })?;
    Ok(limit.window())
}

// === impl AlgorithmChoice ===

impl AlgorithmChoice {
    /// The names of these algorithms, each once.
    pub(crate) fn names(chosen: &[AlgorithmChoice]) -> Vec<&'static str> {
        let all = [
            (AlgorithmChoice::FixedWindow, "fixed_window"),
            (AlgorithmChoice::SlidingWindow, "sliding_window"),
            (AlgorithmChoice::SlidingLog, "sliding_log"),
            (AlgorithmChoice::TokenBucket, "token_bucket"),
            (AlgorithmChoice::LeakyBucket, "leaky_bucket"),
        ];
        let is_chosen = |one| chosen.contains(&AlgorithmChoice::All) || chosen.contains(&one);
        let names = all.into_iter().filter(|(one, _)| is_chosen(*one));
        names.map(|(_, name)| name).collect()
    }
}

// === impl Trials ===

impl Trials {
    pub(super) fn to_json(&self) -> Value {
        let trials = self.0.iter().map(|trial| {
            let denied = &trial.report.denied_keys;
            let keys = denied.first.iter().map(|key| {
                let values = key.descriptor.iter();
                let values = values.map(|(key, value)| json!({"key": key, "value": value}));
                json!({"descriptor": values.collect::<Vec<_>>(), "denied": key.denied})
            });
            json!({
                "limit": trial.limit,
                "algorithm": trial.algorithm,
                "denied": trial.report.denied,
                "deniedKeys": denied.count,
                "topDeniedKeys": keys.collect::<Vec<_>>(),
            })
        });
        trials.collect()
    }
}

impl Display for Trials {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let (limit, algorithm) = ("limit", "algorithm");
        writeln!(
            f,
            "\n{limit:>12}  {algorithm:<14} {:>9} {:>7}  keys with the most",
            "denied", "keys"
        )?;
        for Trial {
            limit,
            algorithm,
            report,
        } in &self.0
        {
            let (denied, keys) = (report.denied, report.denied_keys.count);
            let first = report.denied_keys.first.iter().map(|key| {
                let values: Vec<&str> = key.descriptor.iter().map(|(_, value)| &**value).collect();
                format!("{} ({})", escape(&values.join(" ")), key.denied)
            });
            let first = first.collect::<Vec<_>>().join(", ");
            writeln!(
                f,
                "{limit:>12}  {algorithm:<14} {denied:>9} {keys:>7}  {first}"
            )?;
        }
        Ok(())
    }
}
