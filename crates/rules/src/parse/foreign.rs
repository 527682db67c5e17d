//! Keys that other rate limiters use, and how the same is written here.

use crate::window;
use crate::yaml::{Node, Pair};

/// How many keys of a map are looked at for the advice on another one.
pub(super) const SIBLINGS_MAX: usize = 64;

/// What a key of another product means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Foreign {
    /// How many requests are allowed.
    Count,
    /// The window; a bare number in it has this unit.
    Window(&'static str),
    /// How many requests are allowed in this unit.
    Rate(&'static str),
    /// The burst of a token bucket.
    Burst,
    /// That nothing is denied.
    Shadow,
    /// What requests are distinguished by.
    By,
    /// The list of rules.
    Rules,
    /// A text for people.
    Note,
}

/// Lower case, without `_` and `-`.
const KEYS: [(&[&str], Foreign); 12] = [
    (
        &[
            "comment",
            "description",
            "desc",
            "note",
            "notes",
            "title",
            "version",
        ],
        Foreign::Note,
    ),
    (
        &[
            "average",
            "capacity",
            "count",
            "hits",
            "limit",
            "max",
            "maxhits",
            "maxrequests",
            "limiter",
            "numrequests",
            "points",
            "quota",
            "rate",
            "requestlimit",
            "ratelimiter",
            "requests",
            "threshold",
            "tokens",
        ],
        Foreign::Count,
    ),
    (
        &[
            "duration",
            "every",
            "expiry",
            "fillinterval",
            "interval",
            "per",
            "period",
            "refillinterval",
            "seconds",
            "timeframe",
            "timeunit",
            "timewindow",
            "ttl",
            "windowseconds",
            "windowsecs",
            "windowsize",
        ],
        Foreign::Window("s"),
    ),
    (
        &["intervalms", "timewindowms", "windowms"],
        Foreign::Window("ms"),
    ),
    (
        &[
            "persecond",
            "ratepersecond",
            "requestspersecond",
            "rps",
            "qps",
            "second",
        ],
        Foreign::Rate("second"),
    ),
    (
        &[
            "perminute",
            "rateperminute",
            "requestsperminute",
            "rpm",
            "minute",
        ],
        Foreign::Rate("minute"),
    ),
    (
        &["perhour", "rateperhour", "requestsperhour", "rph", "hour"],
        Foreign::Rate("hour"),
    ),
    (
        &["perday", "requestsperday", "rpd", "day"],
        Foreign::Rate("day"),
    ),
    (
        &[
            "burstcapacity",
            "burstlimit",
            "burstsize",
            "maxburst",
            "maxtokens",
        ],
        Foreign::Burst,
    ),
    (
        &["dryrun", "logonly", "monitoronly", "reportonly", "shadow"],
        Foreign::Shadow,
    ),
    (
        &[
            "actions",
            "by",
            "clientip",
            "entries",
            "groupby",
            "header",
            "headername",
            "host",
            "match",
            "method",
            "path",
            "route",
            "url",
            "identifier",
            "keyby",
            "limitby",
            "remoteaddress",
            "selector",
        ],
        Foreign::By,
    ),
    (
        &["limits", "policies", "ratelimits", "rules"],
        Foreign::Rules,
    ),
];

/// The longest of [`KEYS`], and some more.
const KEY_BYTES_MAX: usize = 32;

// === impl Foreign ===

impl Foreign {
    /// What a key means, if another product has it.
    pub(super) fn of(key: &str) -> Option<Foreign> {
        if key.len() > KEY_BYTES_MAX {
            return None;
        }
        let plain = key.to_lowercase().replace(['-', '_', ' '], "");
        let mut keys = KEYS.iter();
        let (_, meaning) = keys.find(|(words, _)| words.contains(&plain.as_str()))?;
        Some(*meaning)
    }
}

/// The limit that foreign keys of a map amount to, in the short form: `100/1m`. What they leave
/// open is filled with an example.
pub(super) fn short_form(entries: &[Pair]) -> String {
    let (mut count, mut length) = (None, None);
    for (key, value) in entries.iter().take(SIBLINGS_MAX) {
        let key = text(key);
        if Foreign::of(key) == Some(Foreign::Count)
            && let Some(form) = window::meant_short_form(text(value))
        {
            return form;
        }
        let is_ours = matches!(key, "requests_per_unit" | "unit" | "window");
        match Foreign::of(key) {
            Some(Foreign::Count) => count = count.or(whole(value)),
            Some(Foreign::Rate(unit)) => {
                count = count.or(whole(value));
                length = length.or(Some(unit.to_owned()));
            }
            Some(Foreign::Window(unit)) => length = length.or(window_of(value, unit)),
            _ if is_ours && key == "requests_per_unit" => count = count.or(whole(value)),
            _ if is_ours => length = length.or(window_of(value, "s")),
            _ => {}
        }
    }
    let length = length.unwrap_or_else(|| "second".to_owned());
    format!("{}/{length}", count.unwrap_or(10))
}

/// The window that a value states, as the short form takes it.
pub(super) fn window_of(value: &Node, unit: &str) -> Option<String> {
    window::meant_window(text(value), unit)
}

/// The whole number that a value states.
pub(super) fn whole(value: &Node) -> Option<u32> {
    text(value).parse().ok()
}

fn text(node: &Node) -> &str {
    node.scalar().map_or("", |scalar| &scalar.text)
}
