//! Instructions of a decision in user mode: `--instructions`.
//!
//! `valgrind` counts those of the whole process, which has one thread for requests. A shorter and a
//! longer run are compared, so that the start does not count. All requests have the same key, and
//! are allowed.

use std::error::Error;
use std::io::Write;

use crate::budget::Budget;
use crate::contender::{Contender, Launch};
use crate::generator::{KeyOrder, Length, Load, Pace};
use crate::question::Question;

/// Connections, each with one request at a time.
const CONNECTIONS: usize = 8;
/// Decisions of the shorter and of the longer run.
const COUNTED: (u64, u64) = (3_200, 12_800);

/// What was counted for a contender.
struct Count<'a> {
    contender: &'a Contender,
    instructions: f64,
}

/// Counts for each contender, and prints a table.
pub(crate) fn print(contenders: &[Contender], out: &mut impl Write) -> Result<(), Box<dyn Error>> {
    let mut counts = Vec::new();
    for contender in contenders {
        eprintln!("counting {}", contender.name);
        let (shorter, longer) = (run(contender, COUNTED.0)?, run(contender, COUNTED.1)?);
        let more = longer.checked_sub(shorter);
        let more = more.ok_or("the longer run has fewer instructions")?;
        counts.push(Count {
            contender,
            instructions: per_decision(more),
        });
    }
    writeln!(out, "{:<26} {:>12} {:>9}", "", "instructions", "x floor")?;
    for count in &counts {
        let Count {
            contender,
            instructions,
        } = count;
        let ratio = floor_of(contender.question, &counts).map(|floor| instructions / floor);
        let ratio = ratio.map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}"));
        let name = &contender.name;
        writeln!(out, "  {name:<24} {instructions:>12.0} {ratio:>9}")?;
    }
    Ok(())
}

/// What the floor takes that is asked the same.
fn floor_of(question: Question, counts: &[Count<'_>]) -> Option<f64> {
    let is_floor = |count: &&Count<'_>| {
        let Contender {
            question: asked,
            launch,
            ..
        } = count.contender;
        *asked == question && matches!(launch, Launch::Floor(_))
    };
    counts.iter().find(is_floor).map(|count| count.instructions)
}

/// The instructions of a run with so many decisions, all of which are allowed.
fn run(contender: &Contender, decisions: u64) -> Result<u64, Box<dyn Error>> {
    let running = contender.start_counted()?;
    let question = contender.question;
    let load = Load {
        address: running.address,
        question,
        template: &question.template(Budget::Large, 'k', &running.script),
        connections: CONNECTIONS,
        pace: Pace::Closed { pipeline: 1 },
        order: KeyOrder::Hot,
        length: Length::Decisions(decisions),
    };
    let seen = load.run()?;
    if (seen.allowed, seen.denied) != (decisions, 0) {
        let allowed = seen.allowed;
        return Err(format!("{}: {allowed} of {decisions} are allowed", contender.name).into());
    }
    running.instructions()
}

#[expect(
    clippy::as_conversions,
    reason = "exact below 2^53, which no count here reaches"
)]
fn per_decision(instructions: u64) -> f64 {
    instructions as f64 / (COUNTED.1 - COUNTED.0) as f64
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::floor::Floor;

    #[test]
    fn a_contender_is_compared_with_the_floor_that_is_asked_the_same() {
        let contender = |question, launch| Contender {
            name: "a".to_owned(),
            question,
            launch,
        };
        let ours = contender(Question::Check, Launch::Tollgate(PathBuf::new()));
        let floor = contender(Question::Check, Launch::Floor(Floor::Http));
        let counts = [(&ours, 30.0), (&floor, 20.0)].map(|(contender, instructions)| Count {
            contender,
            instructions,
        });
        assert_eq!(floor_of(Question::Check, &counts), Some(20.0));
        assert_eq!(floor_of(Question::Json, &counts), None);
    }
}
