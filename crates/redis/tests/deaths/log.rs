//! The log of an instance, which outlives it.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tollgate_core::{Mode, StoreError, Verdict};

use crate::instance::KEYS;

/// What an instance requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// One unit of a leased key.
    Leased(usize),
    /// One unit of this key and one of the next, which are in two slots.
    Pair(usize),
    /// One unit of a key that every instance counts locally.
    WriteBack(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The decision begins.
    Begun,
    Allowed,
    Denied,
    /// Nothing was charged.
    Unreachable,
    /// Other requests held the reservations for too long.
    Contended,
    /// The outcome is unknown: it may have been charged.
    Unknown,
}

/// An event of a decision.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Line {
    pub(crate) ask: Ask,
    pub(crate) outcome: Outcome,
    pub(crate) took: Duration,
    /// The time since 1970.
    pub(crate) at: Duration,
}

/// Where an instance writes, without a buffer: what it has written survives when it is killed.
pub(crate) struct Log(Mutex<File>);

const LETTERS: [(Outcome, &str); 6] = [
    (Outcome::Begun, "b"),
    (Outcome::Allowed, "a"),
    (Outcome::Denied, "r"),
    (Outcome::Unreachable, "u"),
    (Outcome::Contended, "c"),
    (Outcome::Unknown, "l"),
];

// === impl Ask ===

impl Ask {
    /// Whether it requests a unit of this key among those that are decided in this mode.
    pub(crate) fn is_of(self, mode: Mode, number: usize) -> bool {
        match self {
            Ask::Leased(key) => mode == Mode::Leased && key == number,
            Ask::WriteBack(key) => mode == Mode::WriteBack && key == number,
            Ask::Pair(first) => {
                mode == Mode::Strict && (first == number || (first + 1) % KEYS == number)
            }
        }
    }
}

// === impl Outcome ===

impl Outcome {
    pub(crate) const ENDS: [Outcome; 5] = [
        Outcome::Allowed,
        Outcome::Denied,
        Outcome::Unreachable,
        Outcome::Contended,
        Outcome::Unknown,
    ];

    pub(crate) fn of(decided: Result<Verdict, StoreError>) -> Outcome {
        match decided {
            Ok(verdict) if verdict.is_allowed() => Outcome::Allowed,
            Ok(_) => Outcome::Denied,
            Err(StoreError::TimedOut { .. }) => Outcome::Unknown,
            Err(StoreError::Unreachable { .. } | StoreError::Rejected { .. }) => {
                Outcome::Unreachable
            }
            Err(StoreError::Contended) => Outcome::Contended,
            Err(other) => panic!("{other}: {:?}", std::error::Error::source(&other)),
        }
    }
}

// === impl Log ===

impl Log {
    pub(crate) fn open(path: &Path) -> Log {
        let file = OpenOptions::new().create(true).append(true).open(path);
        Log(Mutex::new(file.unwrap()))
    }

    pub(crate) fn write(&self, line: Line) {
        let (kind, number) = match line.ask {
            Ask::Leased(number) => ("leased", number),
            Ask::Pair(number) => ("pair", number),
            Ask::WriteBack(number) => ("write_back", number),
        };
        let letter = LETTERS.iter().find(|(outcome, _)| *outcome == line.outcome);
        let (took, at) = (line.took.as_micros(), line.at.as_micros());
        let text = format!("{kind} {number} {} {took} {at}\n", letter.unwrap().1);
        self.0.lock().unwrap().write_all(text.as_bytes()).unwrap();
    }

    pub(crate) fn read(path: &Path) -> Vec<Line> {
        let text = std::fs::read_to_string(path).unwrap();
        // An instance that was killed may have written half of its last line.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().map(line).collect()
    }
}

fn line(text: &str) -> Line {
    let words: Vec<&str> = text.split(' ').collect();
    let number = words[1].parse().unwrap();
    let micros = |word: &str| Duration::from_micros(word.parse().unwrap());
    let outcome = LETTERS.iter().find(|(_, letter)| *letter == words[2]);
    Line {
        ask: match words[0] {
            "leased" => Ask::Leased(number),
            "write_back" => Ask::WriteBack(number),
            _ => Ask::Pair(number),
        },
        outcome: outcome.unwrap().0,
        took: micros(words[3]),
        at: micros(words[4]),
    }
}

#[expect(clippy::disallowed_methods, reason = "compared between processes")]
pub(crate) fn now() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap()
}
