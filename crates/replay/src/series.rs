//! Events that are generated from requests per second, one number a line.
//!
//! Nothing is kept of an event: four bytes of each second, and each generated request once.

use std::num::NonZeroU32;

use tollgate_core::Moment;

use crate::access_log::LogLine;
use crate::event::Event;
use crate::field::{Agent, Fields};
use crate::interner::Interner;
use crate::pattern::Pattern;
use crate::random::mix;
use crate::timestamp::MOMENT_MAX;
use crate::values::Values;

/// The most generated keys.
pub const KEYS_MAX: u32 = 10_000_000;
/// The most events of a second.
pub const EVENTS_PER_SECOND_MAX: u32 = 1_000_000_000;

const NANOS_PER_SEC: u64 = 1_000_000_000;

/// Requests per second, from a moment on, and the requests that they are made of.
#[derive(Debug)]
pub(crate) struct Series {
    start: Moment,
    /// The events of each second.
    counts: Vec<u32>,
    /// The request of each key.
    requests: Vec<u32>,
    events: u64,
}

/// The events of a series, in order of time.
pub(crate) struct Events<'s> {
    series: &'s Series,
    second: usize,
    /// How many events of the second there were.
    done: u32,
}

/// The number of events in a line: a whole number.
pub(crate) fn count(line: &[u8]) -> Result<u32, String> {
    let text = line.trim_ascii();
    if text.is_empty() {
        return Err("the line is blank".to_owned());
    }
    let before = line.len() - line.trim_ascii_start().len();
    if let Some(bad) = text.iter().position(|byte| !byte.is_ascii_digit()) {
        let column = before + bad + 1;
        return Err(format!(
            "expected a whole number of requests at column {column}"
        ));
    }
    let text = std::str::from_utf8(text).unwrap_or_default();
    let count = text.parse().ok();
    count
        .filter(|count| *count <= EVENTS_PER_SECOND_MAX)
        .ok_or_else(|| format!("more than {EVENTS_PER_SECOND_MAX} requests in a second"))
}

/// The values of the descriptors of a generated request, of which only the client is known.
pub(crate) fn render_client(
    client: &str,
    at: Moment,
    descriptors: &[Pattern],
    values: &mut Values,
) {
    let line = LogLine::of_client(at, client.as_bytes());
    values.clear();
    for pattern in descriptors {
        pattern.render(&Fields::of(line, Agent::Ignore), values);
    }
}

// === impl Series ===

impl Series {
    /// No seconds yet; makes the request of each key.
    pub(crate) fn of(
        start: Moment,
        keys: NonZeroU32,
        descriptors: &[Pattern],
        requests: &mut Interner,
    ) -> Series {
        let mut values = Values::default();
        let numbers = 0..keys.get().min(KEYS_MAX);
        let requests = numbers.map(|key| {
            render_client(&format!("key-{key}"), start, descriptors, &mut values);
            let request = requests.intern(values.as_bytes());
            request.expect("there are fewer keys than numbers of requests")
        });
        Series::new(start, requests.collect())
    }

    /// No seconds yet.
    const fn new(start: Moment, requests: Vec<u32>) -> Series {
        Series {
            start,
            counts: Vec::new(),
            requests,
            events: 0,
        }
    }

    /// When a second begins; `None` after [`MOMENT_MAX`].
    pub(crate) fn second(&self, second: u64) -> Option<Moment> {
        let since = second.checked_mul(NANOS_PER_SEC)?;
        let at = self.start.as_nanos().checked_add(since)?;
        Some(Moment::from_nanos(at)).filter(|at| *at <= MOMENT_MAX)
    }

    /// Adds the next second.
    pub(crate) fn push(&mut self, events: u32) {
        self.counts.push(events);
        self.events += u64::from(events);
    }

    /// How many events there are.
    pub(crate) const fn events(&self) -> u64 {
        self.events
    }

    /// The moments of the first and the last event.
    pub(crate) fn bounds(&self) -> Option<(Moment, Moment)> {
        let some = |count: &u32| *count > 0;
        let first = self.counts.iter().position(some)?;
        let last = self.counts.iter().rposition(some)?;
        let first = self.event(first, 0)?;
        let last = self.event(last, self.counts[last] - 1)?;
        Some((first.at, last.at))
    }

    /// The events, in order of time.
    pub(crate) const fn iter(&self) -> Events<'_> {
        Events {
            series: self,
            second: 0,
            done: 0,
        }
    }

    /// An event of a second: they are spread over it evenly, each with a key that depends on its
    /// second and its place alone.
    fn event(&self, second: usize, place: u32) -> Option<Event> {
        let line = u32::try_from(second).ok()?;
        let count = u64::from(*self.counts.get(second)?).max(1);
        let within = u64::from(place) * NANOS_PER_SEC / count;
        let start = self.second(u64::from(line))?;
        let key = mix(u64::from(line) << 32 | u64::from(place));
        let keys = u64::try_from(self.requests.len()).ok()?;
        let key = usize::try_from(key.checked_rem(keys)?).ok()?;
        Some(Event {
            at: Moment::from_nanos(start.as_nanos() + within),
            line,
            request: self.requests[key],
        })
    }
}

// === impl Events ===

impl Iterator for Events<'_> {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        while self.done >= *self.series.counts.get(self.second)? {
            self.second += 1;
            self.done = 0;
        }
        let event = self.series.event(self.second, self.done);
        self.done += 1;
        event
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn events_are_spread_over_their_second_in_order() {
        let mut series = Series::new(Moment::from_nanos(7 * NANOS_PER_SEC), vec![3, 4, 5]);
        for count in [0, 2, 0, 4, 0] {
            series.push(count);
        }
        let events: Vec<Event> = series.iter().collect();
        let halves = events
            .iter()
            .map(|event| event.at.as_nanos() * 4 / NANOS_PER_SEC);
        assert_eq!(halves.collect::<Vec<_>>(), [32, 34, 40, 41, 42, 43]);
        let lines: Vec<u32> = events.iter().map(|event| event.line).collect();
        assert_eq!(lines, [1, 1, 3, 3, 3, 3]);
        assert!(events.iter().all(|event| (3..6).contains(&event.request)));
        assert_eq!(series.bounds(), Some((events[0].at, events[5].at)));
        assert_eq!(series.events(), 6);
        assert_eq!(series.iter().collect::<Vec<_>>(), events, "the same again");
    }

    #[test]
    fn keys_are_drawn_evenly() {
        let mut series = Series::new(Moment::ZERO, (0..10).collect());
        for _ in 0..100 {
            series.push(1000);
        }
        let mut drawn = [0_u32; 10];
        for event in series.iter() {
            drawn[usize::try_from(event.request).unwrap()] += 1;
        }
        assert!(
            drawn.iter().all(|count| (9_500..10_500).contains(count)),
            "{drawn:?}"
        );
    }

    #[test]
    fn a_line_is_a_whole_number() {
        assert_eq!(count(b" 388\r"), Ok(388));
        assert_eq!(count(b"1000000000"), Ok(1_000_000_000));
        for (line, why) in [
            (&b" "[..], "the line is blank"),
            (b" 3.5", "expected a whole number of requests at column 3"),
            (b"-1", "expected a whole number of requests at column 1"),
            (b"1000000001", "more than 1000000000 requests in a second"),
            (
                b"99999999999999999999",
                "more than 1000000000 requests in a second",
            ),
        ] {
            assert_eq!(count(line), Err(why.to_owned()));
        }
    }

    #[test]
    fn a_series_ends_where_time_does() {
        let late = Moment::from_nanos(MOMENT_MAX.as_nanos() - 2 * NANOS_PER_SEC);
        let series = Series::new(late, vec![0]);
        assert!(series.second(2).is_some());
        assert_eq!(series.second(3), None);
        assert_eq!(series.second(u64::MAX), None);
    }
}
