//! How events are distributed over the keys of a rule: whether one key has nearly all of them, or
//! each event has its own.

use tollgate_core::Key;

/// With fewer events there is no warning, because they prove nothing.
const EVENTS_MIN: u64 = 100;
/// The share of a rule's events above which one key is worth a warning, in percent.
const ONE_KEY_PERCENT: u64 = 90;

/// Counts by request, and the key that each request meets of each rule: 4 bytes a request, and 16
/// for each rule that it meets.
pub(crate) struct Concentration {
    /// The rules that count by value, ascending. Others have one key each, as they should.
    watched: Vec<usize>,
    /// Events of each request.
    counts: Vec<u32>,
    meetings: Vec<Meeting>,
}

/// A request that counts under a key of a rule.
#[derive(Clone, Copy)]
struct Meeting {
    /// Half of the key, which is enough to distinguish the keys of a log.
    key: u64,
    rule: u32,
    request: u32,
}

/// The findings that cause a warning.
#[derive(Default)]
pub(crate) struct Found {
    pub(crate) one_key: Vec<OneKey>,
    /// Rules, and their events, of which no two have the same key.
    pub(crate) own_keys: Vec<(usize, u64)>,
}

/// A key that has nearly all events of its rule.
pub(crate) struct OneKey {
    pub(crate) rule: usize,
    /// Half of it.
    key: u64,
    /// A request that counts under it.
    pub(crate) request: u32,
    pub(crate) events: u64,
    pub(crate) of: u64,
}

// === impl OneKey ===

impl OneKey {
    /// Whether this is the key.
    pub(crate) fn is(&self, key: Key) -> bool {
        half(key) == self.key
    }
}

// === impl Concentration ===

impl Concentration {
    pub(crate) fn over(requests: usize) -> Concentration {
        Concentration {
            watched: Vec::new(),
            counts: vec![0; requests],
            meetings: Vec::new(),
        }
    }

    /// Adds a rule to those that are examined; rules come in ascending order.
    pub(crate) fn watch(&mut self, rule: usize) {
        self.watched.push(rule);
    }

    /// Counts an event; whether it is the first of its request.
    pub(crate) fn count(&mut self, request: u32) -> bool {
        let count = &mut self.counts[index(request)];
        *count = count.saturating_add(1);
        *count == 1
    }

    /// Records that a request counts under this key of this rule.
    pub(crate) fn meet(&mut self, rule: usize, key: Key, request: u32) {
        if self.watched.binary_search(&rule).is_err() {
            return;
        }
        self.meetings.push(Meeting {
            key: half(key),
            rule: u32::try_from(rule).unwrap_or(u32::MAX),
            request,
        });
    }

    pub(crate) fn finish(mut self) -> Found {
        // With the request, so that the one that a warning shows does not depend on how keys are
        // hashed.
        self.meetings
            .sort_unstable_by_key(|meeting| (meeting.rule, meeting.key, meeting.request));
        let mut found = Found::default();
        for of_rule in self.meetings.chunk_by(|one, other| one.rule == other.rule) {
            self.rule(of_rule, &mut found);
        }
        found
    }

    /// Looks for a key that takes most of a rule's requests.
    fn rule(&self, of_rule: &[Meeting], found: &mut Found) {
        let (mut events, mut keys, mut most) = (0, 0_u64, (0, 0, 0));
        for of_key in of_rule.chunk_by(|one, other| one.key == other.key) {
            let counts = of_key
                .iter()
                .map(|meeting| self.counts[index(meeting.request)]);
            let count: u64 = counts.map(u64::from).sum();
            events += count;
            keys += 1;
            most = most.max((count, of_key[0].request, of_key[0].key));
        }
        let rule = index(of_rule[0].rule);
        if events < EVENTS_MIN {
            return;
        }
        if most.0.saturating_mul(100) >= events.saturating_mul(ONE_KEY_PERCENT) {
            found.one_key.push(OneKey {
                rule,
                request: most.1,
                key: most.2,
                events: most.0,
                of: events,
            });
        } else if keys == events {
            found.own_keys.push((rule, events));
        }
    }
}

/// Half of a key.
fn half(key: Key) -> u64 {
    let bytes = key.bits().to_le_bytes();
    bytes
        .first_chunk::<8>()
        .map_or(0, |half| u64::from_le_bytes(*half))
}

fn index(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The findings if each of these keys, numbered from 0, has so many events, one per request.
    fn found(counts: &[u32]) -> (Vec<(u64, u64)>, Vec<u64>) {
        let requests: u32 = counts.iter().sum();
        let mut concentration = Concentration::over(index(requests));
        concentration.watch(3);
        let mut request = 0;
        for (key, count) in (1_u128..).zip(counts) {
            for _ in 0..*count {
                assert!(concentration.count(request));
                concentration.meet(3, Key::from_bits(key), request);
                concentration.meet(2, Key::from_bits(0), request);
                request += 1;
            }
        }
        let found = concentration.finish();
        let one_key = found.one_key.iter().map(|one| (one.events, one.of));
        let own_keys = found.own_keys.iter().map(|(_, events)| *events);
        (one_key.collect(), own_keys.collect())
    }

    #[test]
    fn nearly_all_and_never_twice_are_found() {
        assert_eq!(found(&[90, 5, 5]), (vec![(90, 100)], vec![]));
        assert_eq!(found(&[5, 200]), (vec![(200, 205)], vec![]));
        assert_eq!(found(&[100]), (vec![(100, 100)], vec![]));
        assert_eq!(found(&[89, 11]), (vec![], vec![]));
        assert_eq!(found(&[99]), (vec![], vec![]));
        assert_eq!(found(&[1; 100]), (vec![], vec![100]));
        assert_eq!(found(&[1; 99]), (vec![], vec![]));
        let mut nearly = [1; 100];
        nearly[7] = 2;
        assert_eq!(found(&nearly), (vec![], vec![]));
    }
}
