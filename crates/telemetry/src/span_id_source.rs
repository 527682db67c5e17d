//! The ids of new traces and spans.

use std::fmt;
use std::hash::Hasher;
use std::sync::atomic::{AtomicU64, Ordering};

use ring::rand::{SecureRandom, SystemRandom};
use siphasher::sip128::{Hasher128, SipHasher13};

use crate::settings::InvalidTelemetry;
use crate::trace_context::{SpanId, TraceId};

/// Makes ids: a count, encrypted with a random key of this process. No two are the same, nobody
/// can tell the next one, and none costs a system call.
pub(crate) struct IdSource {
    hasher: SipHasher13,
    next: AtomicU64,
}

// === impl IdSource ===

impl IdSource {
    /// # Errors
    ///
    /// If the system has no random numbers.
    pub(crate) fn new() -> Result<IdSource, InvalidTelemetry> {
        let mut key = [0; 16];
        let filled = SystemRandom::new().fill(&mut key);
        filled.map_err(|_| {
            let problem = "the system has no random numbers, which the ids of spans need";
            InvalidTelemetry::new("telemetry", problem, "check /dev/urandom")
        })?;
        Ok(IdSource {
            hasher: SipHasher13::new_with_key(&key),
            next: AtomicU64::new(0),
        })
    }

    fn next(&self) -> u128 {
        let mut hasher = self.hasher;
        hasher.write_u64(self.next.fetch_add(1, Ordering::Relaxed));
        hasher.finish128().as_u128()
    }

    pub(crate) fn trace(&self) -> TraceId {
        TraceId(self.next().max(1))
    }

    pub(crate) fn span(&self) -> SpanId {
        let low = self.next() & u128::from(u64::MAX);
        SpanId(u64::try_from(low).unwrap_or(0).max(1))
    }

    /// The id of this process, as a UUID of version 4.
    pub(crate) fn instance(&self) -> String {
        let random = self.next() & !(0xf << 76) & !(0b11 << 62) | (4 << 76) | (0b10 << 62);
        let digits = format!("{random:032x}");
        let parts = [
            &digits[..8],
            &digits[8..12],
            &digits[12..16],
            &digits[16..20],
            &digits[20..],
        ];
        parts.join("-")
    }
}

impl fmt::Debug for IdSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("IdSource")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn ids_differ_also_between_processes() {
        let sources = [IdSource::new(), IdSource::new()].map(|source| source.expect("random"));
        let traces = (0..2000).map(|index| sources[index % 2].trace());
        assert_eq!(traces.collect::<HashSet<_>>().len(), 2000);
        let spans = (0..2000).map(|index| sources[index % 2].span());
        assert_eq!(spans.collect::<HashSet<_>>().len(), 2000);
    }

    #[test]
    fn an_instance_has_a_uuid() {
        let source = IdSource::new().expect("random");
        for _ in 0..100 {
            let id = source.instance();
            let lengths: Vec<usize> = id.split('-').map(str::len).collect();
            assert_eq!(lengths, [8, 4, 4, 4, 12], "{id}");
            assert_eq!(&id[14..15], "4", "{id}");
            assert!("89ab".contains(&id[19..20]), "{id}");
        }
    }
}
