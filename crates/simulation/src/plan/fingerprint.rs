//! A number that tells plans apart, so that a test notices when a seed has another plan than
//! before.

use std::fmt::{self, Write};

use tollgate_core::{Cost, Limit};

use super::{Cancel, Counter, Plan, Request, Settle, Step};

/// FNV-1a, over the text of the plan.
struct Hash(u64);

impl Write for Hash {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
        }
        Ok(())
    }
}

impl Plan {
    /// A number that is another one as soon as anything of the plan is.
    pub(crate) fn fingerprint(&self) -> u64 {
        let mut hash = Hash(0xCBF2_9CE4_8422_2325);
        self.put(&mut hash).expect("a number can be written to");
        hash.0
    }

    /// Writes everything that the plan consists of.
    fn put(&self, out: &mut Hash) -> fmt::Result {
        let setup = &self.setup;
        write!(out, "{:?} {} ", setup.topology, setup.instances)?;
        write!(out, "{} {} ", setup.timeout_ms, setup.sync_ms)?;
        write!(out, "{} {} ", setup.connections, setup.base_micros)?;
        write!(out, "{} ", setup.delay_max)?;
        write!(out, "{} {:?}", self.versions, self.first_versions)?;
        write!(out, "{} {:?}", self.charge_denied, self.replacement)?;
        for counter in &self.counters {
            counter.put(out)?;
        }
        for (at, step) in &self.steps {
            write!(out, "\n{at} ")?;
            match step {
                Step::Request(request) => request.put(out)?,
                Step::Fault(fault) => write!(out, "{fault:?}")?,
                Step::Reload(reload) => write!(out, "{reload:?}")?,
                Step::Headroom(report) => write!(out, "{report:?}")?,
            }
        }
        Ok(())
    }
}

impl Counter {
    fn put(&self, out: &mut Hash) -> fmt::Result {
        write!(out, "\n{} {} ", self.identity, self.is_override)?;
        for limit in &self.limits {
            put_limit(out, limit)?;
        }
        for mode in &self.modes {
            write!(out, "{mode} ")?;
        }
        for on_store_error in &self.on_store_errors {
            write!(out, "{on_store_error} ")?;
        }
        write!(out, "{:?} ", self.presence)?;
        if let Some(charge_denied) = self.charge_denied {
            write!(out, "{charge_denied} ")?;
        }
        write!(out, "{:?}", self.enforcements)
    }
}

fn put_limit(out: &mut Hash, limit: &Limit) -> fmt::Result {
    let (count, window) = (limit.count(), limit.window().as_nanos());
    write!(out, "{:?} {count} {window} ", limit.algorithm())?;
    write!(out, "{} {} ", limit.nominal(), limit.soft_percent())?;
    write!(
        out,
        "{} {} ",
        limit.elastic_percent(),
        limit.priority_percent()
    )
}

impl Request {
    /// Writes what it asks for, and what becomes of its reservation.
    fn put(&self, out: &mut Hash) -> fmt::Result {
        write!(out, "{} {} ", self.instance, self.has_priority)?;
        put_cancel(out, self.cancel)?;
        for part in &self.parts {
            let (sign, units) = match part.cost {
                Cost::Take(units) => ("+", units),
                Cost::Peek(units) => ("?", units),
                Cost::Refund(units) => ("-", units),
            };
            write!(out, " {}.{}{sign}{units}", part.counter, part.version)?;
        }
        let Some(settles) = &self.settles else {
            return out.write_str("None");
        };
        out.write_str("Some([")?;
        for (index, settle) in settles.iter().enumerate() {
            out.write_str(if index > 0 { ", " } else { "" })?;
            settle.put(out)?;
        }
        out.write_str("])")
    }
}

impl Settle {
    fn put(&self, out: &mut Hash) -> fmt::Result {
        let (after, instance, actual) = (self.after_ms, self.instance, self.actual);
        write!(out, "Settle {{ after_ms: {after}, instance: {instance}, ")?;
        write!(out, "actual: {actual}, polls: ")?;
        put_cancel(out, self.cancel)?;
        out.write_str(" }")
    }
}

/// Writes a number of polls as it was written before there were other cancellations.
fn put_cancel(out: &mut Hash, cancel: Option<Cancel>) -> fmt::Result {
    match cancel {
        Some(Cancel::Time { millis, yields }) => write!(out, "{millis} ms {yields}"),
        polls => write!(out, "{:?}", polls.and_then(Cancel::polls)),
    }
}
