//! Parses a workload: a kind with what it needs, then clauses in any order.

use std::str::FromStr;

use tollgate_core::{Limit, Span};
use tollgate_rules::nearest;

use crate::event::EVENTS_MAX;
use crate::series::KEYS_MAX;
use crate::workload::invalid::InvalidWorkload;
use crate::workload::kind::{Kind, Rate};
use crate::workload::retry::{Pause, Retry};
use crate::workload::{ATTEMPTS, ATTEMPTS_MAX, WORKLOAD_DURATION, Workload};

const KINDS: [&str; 5] = ["constant", "poisson", "bursts", "new-keys", "botnet"];
const CLAUSES: [&str; 6] = ["for", "from", "keys", "as", "retry", "attempts"];
/// The most bytes of the name that keys begin with.
const NAME_BYTES_MAX: usize = 64;

/// The words that are left, and the last one that was taken.
struct Words<'t> {
    rest: std::str::SplitWhitespace<'t>,
    last: &'t str,
}

/// The clauses that were found.
#[derive(Default)]
struct Clauses {
    duration: Option<Span>,
    offset: Option<Span>,
    keys: Option<u64>,
    name: Option<String>,
    pause: Option<Pause>,
    attempts: Option<u32>,
}

impl FromStr for Workload {
    type Err = InvalidWorkload;

    fn from_str(text: &str) -> Result<Workload, InvalidWorkload> {
        let mut words = Words {
            rest: text.split_whitespace(),
            last: "",
        };
        let (name, kind) = kind(&mut words)?;
        let clauses = clauses(&mut words)?;
        if clauses.keys.is_some() && matches!(kind, Kind::NewKeys(_) | Kind::Botnet { .. }) {
            let kind = name.to_owned();
            return Err(InvalidWorkload::OwnKeys { kind });
        }
        let retry = match (clauses.pause, clauses.attempts) {
            (None, None) => None,
            (None, Some(_)) => return Err(InvalidWorkload::AttemptsWithoutRetry),
            (Some(pause), attempts) => Some(Retry {
                pause,
                attempts: attempts.unwrap_or(ATTEMPTS),
            }),
        };
        let workload = Workload {
            text: text.split_whitespace().collect::<Vec<_>>().join(" "),
            kind,
            offset: clauses.offset.unwrap_or(Span::ZERO),
            duration: clauses.duration.unwrap_or(WORKLOAD_DURATION),
            keys: clauses.keys.unwrap_or(1),
            name: clauses
                .name
                .unwrap_or_else(|| default_name(kind).to_owned()),
            retry,
        };
        let requests = workload.requests();
        match requests > u128::from(EVENTS_MAX) {
            true => Err(InvalidWorkload::ManyEvents { requests }),
            false => Ok(workload),
        }
    }
}

/// What keys are called by default: those of different kinds are different.
const fn default_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Constant(_) | Kind::Poisson(_) | Kind::Bursts { .. } => "client",
        Kind::NewKeys(_) => "new",
        Kind::Botnet { .. } => "bot",
    }
}

/// Parses the kind at the beginning, and what it needs.
fn kind<'t>(words: &mut Words<'t>) -> Result<(&'t str, Kind), InvalidWorkload> {
    let name = words.rest.next().unwrap_or("");
    words.last = name;
    let kind = match name {
        "constant" => Kind::Constant(words.rate()?),
        "poisson" => Kind::Poisson(words.rate()?),
        "new-keys" => Kind::NewKeys(words.rate()?),
        "bursts" => {
            let size = words.number("requests", EVENTS_MAX)?;
            words.keyword("every", "`every`")?;
            let period = words.span("the time between bursts, such as `10s`")?;
            Kind::Bursts { size, period }
        }
        "botnet" => {
            let clients = words.number("clients", u64::from(KEYS_MAX))?;
            words.keyword("clients", "`clients`")?;
            let rate = words.rate()?;
            Kind::Botnet { clients, rate }
        }
        _ => {
            return Err(InvalidWorkload::Kind {
                word: name.to_owned(),
                meant: nearest(name, &KINDS),
            });
        }
    };
    Ok((name, kind))
}

/// Parses the clauses after the kind.
fn clauses(words: &mut Words<'_>) -> Result<Clauses, InvalidWorkload> {
    let mut found = Clauses::default();
    while let Some(word) = words.rest.next() {
        words.last = word;
        match word {
            "for" => once(
                &mut found.duration,
                "for",
                words.span("a time such as `5m`"),
            )?,
            "from" => once(
                &mut found.offset,
                "from",
                words.span("a time such as `30s`"),
            )?,
            "keys" => {
                let keys = words.number("keys", u64::from(KEYS_MAX));
                once(&mut found.keys, "keys", keys)?;
            }
            "as" => once(&mut found.name, "as", words.name())?,
            "retry" => once(&mut found.pause, "retry", words.pause())?,
            "attempts" => {
                let attempts = words.number("attempts", u64::from(ATTEMPTS_MAX));
                let attempts = attempts.map(|count| u32::try_from(count).unwrap_or(ATTEMPTS_MAX));
                once(&mut found.attempts, "attempts", attempts)?;
            }
            _ => {
                return Err(InvalidWorkload::Clause {
                    word: word.to_owned(),
                    meant: nearest(word, &CLAUSES),
                });
            }
        }
    }
    Ok(found)
}

/// Sets a clause that is not there yet.
fn once<T>(
    clause: &mut Option<T>,
    name: &'static str,
    found: Result<T, InvalidWorkload>,
) -> Result<(), InvalidWorkload> {
    match clause.replace(found?) {
        Some(_) => Err(InvalidWorkload::Twice { clause: name }),
        None => Ok(()),
    }
}

// === impl Words ===

impl<'t> Words<'t> {
    fn take(&mut self, missing: &'static str) -> Result<&'t str, InvalidWorkload> {
        let Some(word) = self.rest.next() else {
            let after = self.last.to_owned();
            return Err(InvalidWorkload::Missing {
                after,
                missing,
                found: None,
            });
        };
        self.last = word;
        Ok(word)
    }

    fn keyword(&mut self, keyword: &str, missing: &'static str) -> Result<(), InvalidWorkload> {
        match self.rest.next() {
            Some(word) if word == keyword => {
                self.last = word;
                Ok(())
            }
            found => Err(InvalidWorkload::Missing {
                after: self.last.to_owned(),
                missing,
                found: found.map(str::to_owned),
            }),
        }
    }

    /// Parses a rate as the rate of a limit is written.
    fn rate(&mut self) -> Result<Rate, InvalidWorkload> {
        let text = self.take("a rate such as `20/s`")?;
        // Windows can be shorter than a bucket's time for one unit.
        let limit: Option<Limit> = format!("{text} fixed_window").parse().ok();
        let limit = limit.filter(|limit| limit.count() > 0);
        let limit = limit.ok_or_else(|| InvalidWorkload::Rate {
            text: text.to_owned(),
        })?;
        Ok(Rate {
            count: u64::from(limit.count()),
            per: limit.window(),
        })
    }

    fn number(&mut self, of: &'static str, max: u64) -> Result<u64, InvalidWorkload> {
        let text = self.take("a number")?;
        let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
        let number = is_number.then(|| text.parse().ok()).flatten();
        let number = number.filter(|number| (1..=max).contains(number));
        number.ok_or_else(|| InvalidWorkload::Number {
            text: text.to_owned(),
            of,
            max,
        })
    }

    fn span(&mut self, missing: &'static str) -> Result<Span, InvalidWorkload> {
        let after = self.last;
        let text = self.take(missing)?;
        let invalid = |why| InvalidWorkload::Span {
            text: text.to_owned(),
            after: after.to_owned(),
            why,
        };
        let span: Span = text.parse().map_err(|why| invalid(Some(why)))?;
        match span.is_zero() {
            true => Err(invalid(None)),
            false => Ok(span),
        }
    }

    fn name(&mut self) -> Result<String, InvalidWorkload> {
        let name = self.take("a name")?;
        match name.len() > NAME_BYTES_MAX {
            true => Err(InvalidWorkload::Name {
                max: NAME_BYTES_MAX,
            }),
            false => Ok(name.to_owned()),
        }
    }

    fn pause(&mut self) -> Result<Pause, InvalidWorkload> {
        let way = self.take("`every 100ms`, `backoff 1s` or `retry-after`")?;
        match way {
            "every" => Ok(Pause::Fixed(self.span("a pause such as `100ms`")?)),
            "backoff" => Ok(Pause::Backoff(self.span("the first pause, such as `1s`")?)),
            "retry-after" => Ok(Pause::RetryAfter),
            _ => Err(InvalidWorkload::Pause {
                word: way.to_owned(),
            }),
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
