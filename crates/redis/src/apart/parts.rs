//! The parts of a request that lie in different slots, and the one verdict on all of them.

use std::collections::BTreeMap;

use tollgate_core::{
    Bill, Charge, Cost, Decision, DenialReason, Enforcement, Key, Limit, Line, Moment, Now,
    OnDenial, RequestDenial, Span, Usage, Verdict, Wait, step,
};

use crate::fit::Fitted;
use crate::keys;
use crate::resp::Malformed;
use crate::seen::{Seen, moment};
use crate::told::{self, General};

/// A request, by slots.
pub(super) struct Apart<'a> {
    charges: &'a [Charge<'a>],
    pub(super) bill: &'a Bill<'a>,
    /// How the limits of the lines read.
    pub(super) fitted: &'a [Fitted],
    pub(super) parts: Vec<Part>,
}

/// The lines of one slot.
pub(super) struct Part {
    pub(super) key: Key,
    pub(super) lines: Vec<usize>,
}

/// What one part came to.
pub(super) struct Judged {
    told: General,
    /// Before anything was charged, line by line of the part.
    waits: Vec<Option<Wait>>,
}

/// The verdict as far as one part knows it.
struct Settled {
    decisions: Vec<(usize, Decision)>,
    waits: Vec<(usize, Option<Wait>)>,
}

// === impl Apart ===

impl<'a> Apart<'a> {
    pub(super) fn new(
        charges: &'a [Charge<'a>],
        bill: &'a Bill<'a>,
        fitted: &'a [Fitted],
    ) -> Apart<'a> {
        let mut slots: BTreeMap<u16, Part> = BTreeMap::new();
        for (index, line) in bill.lines().iter().enumerate() {
            let key = line.charge.key;
            let lines = Vec::new();
            let part = slots.entry(keys::slot(key)).or_insert(Part { key, lines });
            part.lines.push(index);
        }
        Apart {
            charges,
            bill,
            fitted,
            parts: slots.into_values().collect(),
        }
    }

    pub(super) fn every_part(&self) -> Vec<usize> {
        (0..self.parts.len()).collect()
    }

    fn line(&self, line: usize) -> &Line<'a> {
        &self.bill.lines()[line]
    }

    /// What was remembered of a part's lines, settled and with what is given back.
    fn seen(&self, part: usize, told: &General) -> Result<Vec<Seen>, Malformed> {
        let lines = &self.parts[part].lines;
        if lines.len() != told.states.len() {
            return Err(Malformed("an answer to another question"));
        }
        let pairs = lines.iter().zip(&told.states);
        pairs
            .map(|(line, state)| Seen::read(state, &self.fitted[*line]))
            .collect()
    }

    pub(super) fn judge(&self, told: Vec<General>) -> Result<Vec<Judged>, Malformed> {
        let judged = told.into_iter().enumerate().map(|(part, told)| {
            let mut seen = self.seen(part, &told)?;
            let now = moment(told.now);
            let lines = self.parts[part].lines.iter().zip(&mut seen);
            let waits = lines.map(|(line, seen)| {
                let line = self.line(*line);
                seen.settle(line.charge.limit, now);
                seen.refund(line.charge.limit, now, line.refund());
                wait(line, seen, now)
            });
            let waits = waits.collect();
            Ok(Judged { told, waits })
        });
        judged.collect()
    }

    /// The waits of all lines, in the order of the lines.
    pub(super) fn waits(&self, judged: &[Judged]) -> Vec<Option<Wait>> {
        let mut waits = vec![None; self.bill.lines().len()];
        for (part, judged) in self.parts.iter().zip(judged) {
            for (line, wait) in part.lines.iter().zip(&judged.waits) {
                waits[*line] = *wait;
            }
        }
        waits
    }

    /// The first of those lines that refuse the request whose wait is the longest: as in core's
    /// `Bill`, which cannot see lines of several clocks at once.
    pub(super) fn refused_by(&self, waits: &[Option<Wait>]) -> Option<usize> {
        let of = |enforcement| {
            let lines = self.bill.lines().iter().enumerate();
            lines
                .filter(move |(_, line)| {
                    line.judged().is_some() && line.charge.enforcement == enforcement
                })
                .map(|(index, _)| index)
        };
        let enforced = of(Enforcement::Enforce).filter(|line| waits[*line].is_some());
        let all_over = of(Enforcement::Quota).all(|line| waits[line].is_some());
        let quota = of(Enforcement::Quota).filter(|_| all_over);
        // One quota that opens again is enough, so only the first to open counts.
        let quota = quota.min_by_key(|line| waits[*line]);
        enforced
            .chain(quota)
            .min_by_key(|line| (std::cmp::Reverse(waits[*line]), *line))
    }

    /// The lines of a part that an admitted request is charged to.
    pub(super) fn charged(&self, part: usize, judged: &Judged) -> Vec<usize> {
        let lines = self.parts[part].lines.iter().zip(&judged.waits);
        let charged = lines.filter(|(line, wait)| wait.is_none() && self.line(**line).take() > 0);
        charged.map(|(line, _)| *line).collect()
    }

    /// The parts that hold something, and those that are charged for a refusal.
    pub(super) fn to_release(&self, holding: &[usize]) -> Vec<usize> {
        let asks = |part: &usize| {
            let mut lines = self.parts[*part].lines.iter();
            lines.any(|line| self.line(*line).penalty() > 0)
        };
        let mut parts = self.every_part();
        parts.retain(|part| holding.contains(part) || asks(part));
        parts
    }

    pub(super) fn refund(&self, line: usize) -> Charge<'a> {
        let line = self.line(line);
        Charge {
            cost: Cost::Refund(line.take()),
            ..line.charge
        }
    }

    pub(super) fn verdict(
        &self,
        judged: &[Judged],
        refused: Option<usize>,
    ) -> Result<Verdict, Malformed> {
        let mut decisions: Vec<Option<Decision>> = vec![None; self.charges.len()];
        let mut waits = vec![None; self.bill.lines().len()];
        for (part, judged) in judged.iter().enumerate() {
            let settled = self.settle(part, &judged.told, refused.is_some())?;
            for (charge, decision) in settled.decisions {
                decisions[charge] = Some(decision);
            }
            for (line, wait) in settled.waits {
                waits[line] = wait;
            }
        }
        let decisions: Option<Vec<Decision>> = decisions.into_iter().collect();
        let denial = refused.map(|line| {
            let key = self.line(line).charge.key;
            let by = self.charges.iter().position(|charge| charge.key == key);
            let longest = self.refused_by(&waits).and_then(|line| waits[line]);
            RequestDenial {
                by: by.unwrap_or(0),
                wait: longest.unwrap_or(Wait::For(Span::ZERO)),
                reason: DenialReason::Exceeded,
            }
        });
        let mut verdict = Verdict {
            decisions: decisions.ok_or(Malformed("a charge without a decision"))?,
            denial,
        };
        told::coarsen(&mut verdict);
        Ok(verdict)
    }

    /// What core says to a part, given that the whole request is refused or not: a line of our own
    /// beside the others makes it so.
    fn settle(&self, part: usize, told: &General, is_refused: bool) -> Result<Settled, Malformed> {
        const OURS: Key = Key::from_bits(0);
        let limit = Limit::fixed_window(u32::from(!is_refused), Span::SECOND);
        let limit = limit.expect("a second is a window");
        let ours = Charge {
            enforcement: match is_refused {
                true => Enforcement::Enforce,
                false => Enforcement::Quota,
            },
            ..Charge::new(OURS, &limit, Cost::ONE)
        };
        let lines = &self.parts[part].lines;
        let is_here = |charge: &Charge<'_>| {
            lines
                .iter()
                .any(|line| self.line(*line).charge.key == charge.key)
        };
        let here: Vec<usize> = (0..self.charges.len())
            .filter(|index| is_here(&self.charges[*index]))
            .collect();
        let mut charges: Vec<Charge<'_>> = here.iter().map(|index| self.charges[*index]).collect();
        charges.push(ours);
        let bill = Bill::new(&charges).map_err(|_| Malformed("too many charges in a part"))?;
        let mut seen = self.seen(part, told)?;
        seen.push(Seen::fresh(
            &Fitted::new(&limit).map_err(|_| Malformed("no limit"))?,
        ));
        let now = moment(told.now);
        let verdict = bill.settle(&mut seen, Now::at(now));
        let waits = lines.iter().zip(&seen);
        let waits = waits.map(|(line, seen)| (*line, wait(self.line(*line), seen, now)));
        Ok(Settled {
            waits: waits.collect(),
            decisions: here.into_iter().zip(verdict.decisions).collect(),
        })
    }
}

/// When a line admits what it is asked for, if not now.
fn wait(line: &Line<'_>, seen: &Seen, now: Moment) -> Option<Wait> {
    let peek = Cost::Peek(line.judged()?);
    step(
        &mut seen.clone(),
        line.charge.limit,
        now,
        peek,
        OnDenial::Keep,
    )
    .wait()
}
