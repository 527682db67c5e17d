//! `TG.CHECK`, `TG.PEEK`, `TG.REFUND` and `TG.RESET`: requests that the rules decide.

use std::iter::once;

use smallvec::SmallVec;
use tollgate_core::{
    COST_MAX, ChargeDenied, Cost, Decision, Descriptor, Entry, InvalidRequest, Request, Status,
    StoreError,
};
use tollgate_engine::Decided;
use tollgate_resp::{Command, Replies};

use super::throttles::{seconds, seconds_to_wait, unavailable};
use super::word::shown;

/// How many integers come before the rule's name.
const NUMBERS: usize = 6;
/// The words of most commands, without their names and costs: a domain, and up to three entries.
const WORDS_INLINE: usize = 7;
/// The bytes that these seldom exceed.
const WORDS_BYTES: usize = 64;
/// What stands for a number that there is not, or that nobody knows.
const NONE: i64 = -1;

/// What such a command asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AskKind {
    /// `TG.CHECK domain cost key value ...`
    Check,
    /// `TG.PEEK domain cost key value ...`
    Peek,
    /// `TG.REFUND domain cost key value ...`
    Refund,
    /// `TG.RESET domain key value ...`
    Reset,
}

/// A command that waits for its decision, with a copy of its words.
pub(super) struct Ask {
    kind: AskKind,
    words: Words,
    cost: Cost,
}

/// A domain, keys and values, one after the other.
struct Words {
    bytes: Vec<u8>,
    /// Where each ends.
    ends: SmallVec<[usize; WORDS_INLINE]>,
}

// === impl AskKind ===

impl AskKind {
    /// Which word of the command is the first key.
    const fn first_key(self) -> usize {
        match self {
            AskKind::Reset => 2,
            AskKind::Check | AskKind::Peek | AskKind::Refund => 3,
        }
    }
}

// === impl Ask ===

impl Ask {
    /// # Errors
    ///
    /// Why it cannot be decided.
    pub(super) fn read(kind: AskKind, command: &Command<'_>) -> Result<Ask, String> {
        Ask::check_words(kind, command)?;
        let units = || -> Result<u64, String> {
            let word = command.word(2).unwrap_or_default();
            let units = str::from_utf8(word).ok().and_then(|word| word.parse().ok());
            units.ok_or_else(|| {
                let word = shown(word);
                format!("ERR cost '{word}' is not a number of units, from 0 on")
            })
        };
        let cost = match kind {
            AskKind::Check => Cost::Take(units()?),
            AskKind::Peek => Cost::Peek(units()?),
            AskKind::Refund => Cost::Refund(units()?),
            // More than any limit has counted.
            AskKind::Reset => Cost::Refund(COST_MAX),
        };
        let domain = command.word(1).into_iter();
        let words = Words::copy(domain.chain(command.words(kind.first_key())));
        let ask = Ask { kind, words, cost };
        // A descriptor more or less makes no difference.
        let checked = ask.request().check_bounds();
        checked.map_err(|invalid| match invalid {
            InvalidRequest::RepeatedKey { key, .. } => {
                let key = shown(&key);
                format!("ERR two entries with the key '{key}'; write a command for each value")
            }
            invalid => format!("ERR {invalid}"),
        })?;
        Ok(ask)
    }

    /// Checks that each key has a value.
    ///
    /// # Errors
    ///
    /// What to write.
    pub(super) fn check_words(kind: AskKind, command: &Command<'_>) -> Result<(), String> {
        let first = kind.first_key();
        if command.len() <= first || (command.len() - first) % 2 == 1 {
            return Err("ERR a key without a value; write key value [key value ...]".to_owned());
        }
        Ok(())
    }

    /// The request, of one descriptor.
    #[inline]
    pub(super) fn request(&self) -> Request<'_> {
        let descriptor = Descriptor {
            entries: self.words.entries().collect(),
            is_unordered: true,
            ..Descriptor::default()
        };
        Request {
            domain: self.words.word(0),
            descriptors: once(descriptor).collect(),
            cost: self.cost,
            charge_denied: ChargeDenied::Never,
        }
    }
}

// === impl Words ===

impl Words {
    fn copy<'b>(words: impl Iterator<Item = &'b [u8]>) -> Words {
        let mut copied = Words {
            bytes: Vec::with_capacity(WORDS_BYTES),
            ends: SmallVec::new(),
        };
        for word in words {
            copied.bytes.extend_from_slice(word);
            copied.ends.push(copied.bytes.len());
        }
        copied
    }

    fn word(&self, index: usize) -> &[u8] {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[index]]
    }

    /// What comes after the domain.
    fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        let keys = (1..self.ends.len()).step_by(2);
        keys.map(|at| Entry {
            key: self.word(at),
            value: self.word(at + 1),
        })
    }
}

/// What commands that are decided together are called in traces.
pub(super) fn name(asks: &[Ask]) -> &'static str {
    let mut kinds = asks.iter().map(|ask| ask.kind);
    let first = kinds.next();
    match first.filter(|first| kinds.all(|kind| kind == *first)) {
        Some(AskKind::Check) => "TG.CHECK",
        Some(AskKind::Peek) => "TG.PEEK",
        Some(AskKind::Refund) => "TG.REFUND",
        Some(AskKind::Reset) => "TG.RESET",
        None => "TG",
    }
}

/// Writes the reply: an array of the five integers of `CL.THROTTLE`, the delay of a leaky bucket in
/// milliseconds, and the name of the rule. The limit is N, without a soft or elastic part, which
/// remaining counts. Without a limit, there is no limit and no rule. Where
/// the store is unavailable, what remains is unknown: a limit without it tells such a denial from
/// one by an exceeded limit, in a reply of the same shape.
pub(super) fn reply(decided: &Result<Decided, StoreError>, replies: &mut Replies<'_>) {
    let answer = match decided {
        Ok(decided) => &decided.answer,
        Err(error) => return replies.error(&unavailable(error)),
    };
    let limited = i64::from(!answer.is_allowed());
    let wait = answer
        .denial
        .map_or(NONE, |denial| seconds_to_wait(denial.wait));
    let delay = i64::try_from(answer.delay.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX);
    let (numbers, rule): ([i64; NUMBERS], _) = match answer.statuses.first() {
        Some(Status::Limited(found)) => {
            let reset = match found.decision {
                Decision::Allow(grant) => grant.reset,
                Decision::Deny(denial) => denial.reset,
            };
            let limit = found.limit.nominal();
            let left = match answer.is_store_unavailable() {
                true => NONE,
                false => found.remaining().into(),
            };
            let numbers = [limited, limit.into(), left, wait, seconds(reset), delay];
            (numbers, Some(&found.rule))
        }
        Some(Status::Unlimited { rule }) => ([limited, NONE, NONE, wait, 0, delay], Some(rule)),
        Some(Status::NoLimit) | None => ([limited, NONE, NONE, wait, 0, delay], None),
    };
    replies.array(NUMBERS + 1);
    for number in numbers {
        replies.integer(number);
    }
    match rule {
        Some(rule) => replies.bulk(rule.shown().as_bytes()),
        None => replies.null(),
    }
}
