//! The text of the scripts, concatenated from the files of this folder.

use crate::script_request::{PerScript, ScriptKind};

/// The clock that a script reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClockOf {
    /// That of the Redis node on which it runs.
    Redis,
    /// The caller's, in its second and third argument: seconds and microseconds since 1970.
    Caller,
}

const REDIS_CLOCK: &str = include_str!("clock.lua");
const CALLER_CLOCK: &str = match cfg!(test) {
    false => include_str!("caller_clock.lua"),
    true => concat!(
        include_str!("read_first.lua"),
        include_str!("caller_clock.lua")
    ),
};
/// The keys, which follow the clock.
const KEYS: &str = include_str!("keys.lua");
const PLAIN: &str = include_str!("plain.lua");
const JOINT: &str = include_str!("joint.lua");
const RESERVATION: &str = include_str!("reservation.lua");
/// Redis's commands, and the reply of a decision.
const CALLS: &str = include_str!("calls.lua");
const REPLY: &str = include_str!("reply.lua");
/// The same for an inspection, which changes nothing.
const INSPECT: &str = include_str!("inspect.lua");
const INSPECT_REPLY: &str = include_str!("inspect_reply.lua");
/// The general script, between the calls and the reply. Each file uses those before it.
const GENERAL: [&str; 15] = [
    include_str!("general/preamble.lua"),
    include_str!("general/shapes.lua"),
    include_str!("general/holds.lua"),
    include_str!("general/fixed_window.lua"),
    include_str!("general/bucket.lua"),
    include_str!("general/sliding_window.lua"),
    include_str!("general/sliding_log.lua"),
    include_str!("general/migration.lua"),
    include_str!("general/account.lua"),
    include_str!("general/request.lua"),
    include_str!("general/two_phase.lua"),
    include_str!("general/lease.lua"),
    include_str!("general/report.lua"),
    include_str!("general/settlement.lua"),
    include_str!("general/main.lua"),
];

/// The text of the scripts that decide, by this clock.
pub(crate) fn scripts(clock: ClockOf) -> PerScript<String> {
    ScriptKind::ALL.map(|kind| match kind {
        ScriptKind::Plain => [clock.text(), KEYS, PLAIN].concat(),
        ScriptKind::General => general(clock, CALLS, REPLY),
        ScriptKind::Joint => [clock.text(), KEYS, JOINT].concat(),
        ScriptKind::Reservation => [clock.text(), KEYS, RESERVATION].concat(),
    })
}

/// The general script for an inspection: it changes nothing, and replies with the size, lifetime
/// and beginning of the state as well.
pub(crate) fn inspection_script() -> String {
    general(ClockOf::Redis, INSPECT, INSPECT_REPLY)
}

fn general(clock: ClockOf, calls: &str, reply: &str) -> String {
    [clock.text(), KEYS, calls, &GENERAL.concat(), reply].concat()
}

// === impl ClockOf ===

impl ClockOf {
    const fn text(self) -> &'static str {
        match self {
            ClockOf::Redis => REDIS_CLOCK,
            ClockOf::Caller => CALLER_CLOCK,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_inspection_runs_no_command_that_changes_anything() {
        let writes = ["'SET'", "'DEL'", "'SETRANGE'", "'PEXPIREAT'"];
        let script = inspection_script();
        for line in script.lines().filter(|line| line.contains("redis.call(")) {
            assert!(!writes.iter().any(|write| line.contains(write)), "{line}");
        }
        assert!(!script.contains(CALLS) && !script.contains("redis.pcall"));
    }

    #[test]
    fn only_the_clock_differs_for_the_callers_time() {
        let pairs = scripts(ClockOf::Redis)
            .into_iter()
            .zip(scripts(ClockOf::Caller));
        for (redis, caller) in pairs {
            let rest = redis
                .strip_prefix(REDIS_CLOCK)
                .expect("it reads Redis's clock");
            assert_eq!(caller.strip_prefix(CALLER_CLOCK), Some(rest));
            assert!(!caller.contains("'TIME'"));
        }
    }
}
