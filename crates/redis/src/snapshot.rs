//! The state of a key in a script's reply, in core's types.

use bytes::{Buf, Bytes};
use tollgate_core::{
    Account, Bucket, COUNTERS_MAX, Charge, FixedWindow, Limit, Moment, OnDenial, SlidingWindow,
    Span, Usage, step,
};

use crate::fit::{FittedLimit, GRAIN, Kind};
use crate::marked_window::MarkedWindow;
use crate::resp::Malformed;

/// The state of one line, before the request was charged.
#[derive(Clone, Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "lives for one decision, never stored"
)]
pub(crate) enum Snapshot {
    /// The whole state.
    Account(Account),
    /// A window with debt.
    Marked(MarkedWindow),
    /// The part of a log that matters to the request.
    Log(Log),
}

/// A sliding log without its entries.
#[derive(Clone, Debug, Default)]
pub(crate) struct Log {
    used: u64,
    newest: Moment,
    /// When the request's units fit, before and after it is charged for its denial.
    fits_at: [Moment; 2],
    is_charged: bool,
}

/// The time that is this many microseconds after 1970.
pub(crate) fn moment(micros: u64) -> Moment {
    Moment::ZERO + GRAIN.times(micros)
}

// === impl Snapshot ===

impl Snapshot {
    /// Parses one line's part of a reply; it is empty if the key has no state.
    pub(crate) fn read(state: &Bytes, fitted: &FittedLimit) -> Result<Snapshot, Malformed> {
        let mut rest = state.clone();
        if rest.is_empty() {
            return Ok(Snapshot::fresh(fitted));
        }
        if rest.get_u8() != fitted.kind.byte() {
            return Err(Malformed("a state of another algorithm"));
        }
        let needed = match fitted.kind {
            Kind::Log => 25,
            Kind::Sliding => 15,
            _ => 17,
        };
        if rest.len() < needed {
            return Err(Malformed("a state is too short"));
        }
        Ok(match fitted.kind {
            Kind::Log => Snapshot::Log(Log {
                used: u64::from(rest.get_u32()),
                newest: moment(rest.get_uint(7)),
                fits_at: [0; 2].map(|_| moment(rest.get_uint(7))),
                is_charged: false,
            }),
            Kind::Sliding => Snapshot::Account(Account::SlidingWindow(read_sliding(rest)?)),
            Kind::FixedClock | Kind::FixedFirst => {
                let (end, used) = (moment(rest.get_uint(7)), rest.get_u32());
                let _span = rest.get_uint(6);
                let window = FixedWindow::new(end, used);
                match rest.try_get_u32() {
                    Ok(mark) => Snapshot::Marked(MarkedWindow::new(window, mark)),
                    Err(_) => Snapshot::Account(Account::FixedWindow(window)),
                }
            }
            Kind::Token | Kind::Leaky => {
                let (full_at, span) = (moment(rest.get_uint(7)), rest.get_uint(6));
                // At the price of the limit that has charged it, which may be another one.
                Snapshot::Account(Account::Bucket(match span == fitted.span {
                    true => Bucket::full_at(full_at),
                    false => Bucket::with_terms(full_at, GRAIN.times(span), u32::MAX),
                }))
            }
        })
    }

    /// As [`Snapshot::read`], for a line on which other limits may be evaluated, too: the units of
    /// a bucket keep their price.
    pub(crate) fn read_line(state: &Bytes, fitted: &FittedLimit) -> Result<Snapshot, Malformed> {
        Ok(match Snapshot::read(state, fitted)? {
            Snapshot::Account(Account::Bucket(bucket)) if bucket.is_priced_by(&fitted.limit) => {
                let full_at = Moment::from_nanos(bucket.word());
                let price = GRAIN.times(fitted.span);
                Snapshot::Account(Account::Bucket(Bucket::with_terms(
                    full_at,
                    price,
                    u32::MAX,
                )))
            }
            snapshot => snapshot,
        })
    }

    /// The state in a reply of the plain script at `now`: when the bucket is full again, or the
    /// units used in the window that contains `now`.
    pub(crate) fn plain(fitted: &FittedLimit, now: u64, word: u64) -> Snapshot {
        if fitted.kind != Kind::FixedClock {
            return Snapshot::bucket(word);
        }
        let end = moment(now - now % fitted.span + fitted.span);
        let used = u32::try_from(word).unwrap_or(u32::MAX);
        Snapshot::Account(Account::FixedWindow(FixedWindow::new(end, used)))
    }

    /// The bucket that is full again this many microseconds after 1970.
    fn bucket(full_at: u64) -> Snapshot {
        Snapshot::Account(Account::Bucket(Bucket::full_at(moment(full_at))))
    }

    /// Charges the units, if they fit.
    pub(crate) fn charge(&mut self, charge: &Charge<'_>, fitted: &FittedLimit, now: u64) {
        let now = moment(now);
        let _known = step(self, &fitted.limit, now, charge.cost, OnDenial::Keep);
    }

    /// Takes leased units out, which the script has added as the newest.
    pub(crate) fn release(&mut self, limit: &Limit, now: Moment, units: u32) {
        match self {
            Snapshot::Log(log) => log.used = log.used.saturating_sub(units.into()),
            other => {
                other.settle(limit, now);
                other.refund(limit, now, units.into());
            }
        }
    }

    /// The state of a key with nothing consumed.
    pub(crate) fn fresh(fitted: &FittedLimit) -> Snapshot {
        match fitted.kind {
            Kind::Log => Snapshot::Log(Log::default()),
            _ => Snapshot::Account(Account::fresh(&fitted.limit)),
        }
    }
}

/// Segments (1), bytes of a counter (1), the segment's length (6), the newest one's number (7),
/// then counters from the newest back; those left out are zero.
fn read_sliding(mut rest: Bytes) -> Result<SlidingWindow, Malformed> {
    let _segments = rest.get_u8();
    let width = usize::from(rest.get_u8());
    let _span = rest.get_uint(6);
    let newest = rest.get_uint(7);
    if !(1..=5).contains(&width) || rest.len() / width > COUNTERS_MAX {
        return Err(Malformed("a window has impossible counters"));
    }
    let mut counters = Vec::with_capacity(COUNTERS_MAX);
    while rest.len() >= width {
        counters.push(u32::try_from(rest.get_uint(width)).unwrap_or(u32::MAX));
    }
    Ok(SlidingWindow::new(newest, &counters))
}

tollgate_core::impl_usage_for_variants!([] Snapshot { Account, Marked, Log });

// === impl Log ===

impl Usage for Log {
    /// The script has settled it.
    fn settle(&mut self, _limit: &Limit, _now: Moment) {}

    fn not_before(&self, _limit: &Limit) -> Moment {
        self.newest
    }

    /// Known only for the units of the request.
    fn wait(&self, limit: &Limit, now: Moment, units: u32) -> Span {
        if u64::from(limit.available() - units) >= self.used {
            return Span::ZERO;
        }
        self.fits_at[usize::from(self.is_charged)].since(now)
    }

    fn remaining(&self, limit: &Limit, _now: Moment) -> u32 {
        let free = u64::from(limit.available()).saturating_sub(self.used);
        u32::try_from(free).unwrap_or(u32::MAX)
    }

    fn reset(&self, limit: &Limit, now: Moment) -> Span {
        self.expires_at(limit).since(now)
    }

    fn take(&mut self, _limit: &Limit, now: Moment, units: u32) {
        if units > 0 {
            self.used += u64::from(units);
            self.newest = now;
        }
        self.is_charged = true;
    }

    /// The script has refunded it before it replied.
    fn refund(&mut self, _limit: &Limit, _now: Moment, _units: u64) {}

    fn expires_at(&self, limit: &Limit) -> Moment {
        if self.used == 0 {
            Moment::ZERO
        } else {
            self.newest + limit.window()
        }
    }
}
