//! Which keys stand where in a rules file. The parser and the JSON Schema both read this table.

use crate::sharing::{MODES, NODES, ON_STORE_ERROR};

/// A map in a rules file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The top of a document: one domain.
    Domain,
    /// An item of `descriptors`.
    Descriptor,
    /// The map below `rate_limit`.
    RateLimit,
    /// An item of `replaces`.
    Replaces,
}

/// A key and what it takes.
pub(crate) struct Field {
    pub(crate) key: &'static str,
    pub(crate) form: Form,
    /// Shown by editors.
    pub(crate) about: &'static str,
}

/// What a key takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Text, or a whole number or flag taken as text.
    Text,
    /// `true` or `false`.
    Flag,
    /// A whole number from the first to the second.
    Count(u32, u32),
    /// One of these words, in any case.
    Unit(&'static [&'static str]),
    /// One of these words.
    Choice(&'static [&'static str]),
    /// `15m`, `1h30m`.
    Window,
    /// `10%`.
    Percent,
    /// One of [`CHARGE_DENIED`], or a flag: `true` is `always`, `false` is `never`.
    ChargeDenied,
    /// A list of maps.
    List(Place),
    /// A map, or the short form `100/minute`.
    RateLimit,
    /// Any map.
    Free,
    /// A word that will mean something one day.
    Reserved,
}

/// The units, and their seconds.
pub(crate) const UNITS: [(&str, u64); 7] = [
    ("second", 1),
    ("minute", 60),
    ("hour", 3600),
    ("day", 86_400),
    ("week", 7 * 86_400),
    ("month", 30 * 86_400),
    ("year", 365 * 86_400),
];
const UNIT_WORDS: [&str; 7] = [
    UNITS[0].0, UNITS[1].0, UNITS[2].0, UNITS[3].0, UNITS[4].0, UNITS[5].0, UNITS[6].0,
];
pub(crate) const ALGORITHMS: [&str; 5] = [
    "fixed_window",
    "sliding_log",
    "sliding_window",
    "token_bucket",
    "leaky_bucket",
];
/// A limit's keys that mean something for one algorithm only.
pub(crate) const BELONGS: [(&str, &str); 4] = [
    ("burst", "token_bucket"),
    ("queue", "leaky_bucket"),
    ("segments", "sliding_window"),
    ("anchor", "fixed_window"),
];
/// The keys that an unlimited rule does not have.
pub(crate) const NOT_IF_UNLIMITED: [&str; 8] = [
    "unit",
    "window",
    "algorithm",
    "burst",
    "queue",
    "segments",
    "anchor",
    "soft",
];
pub(crate) const CHARGE_DENIED: [&str; 3] = ["never", "excess", "always"];
pub(crate) const ANCHORS: [&str; 2] = ["clock", "first_request"];

const fn field(key: &'static str, form: Form, about: &'static str) -> Field {
    Field { key, form, about }
}

const MODE_FIELD: Field = field(
    "mode",
    Form::Choice(&MODES),
    "How nodes that share a store decide. strict: the store is asked each time. leased: a node \
     takes units ahead. write_back: a node reports afterwards, and may admit too much. A rule's \
     own wins over its domain's. Default: what the settings say, else strict.",
);
const ON_STORE_ERROR_FIELD: Field = field(
    "on_store_error",
    Form::Choice(&ON_STORE_ERROR),
    "What happens when a shared store has no answer. local: the node decides on its share of the \
     limit. allow: the request passes. deny: it is denied, and told that the store is unavailable. \
     error: gRPC UNAVAILABLE or HTTP 503. A rule's own wins over its domain's. Default: what the \
     settings say, else local.",
);
const NODES_FIELD: Field = field(
    "nodes",
    Form::Count(NODES.0, NODES.1),
    "How many nodes share the limit, for a node's share of it in `on_store_error: local`. A rule's \
     own wins over its domain's. Default: what the settings say, else the store counts them.",
);

const CHARGE_DENIED_FIELD: Field = field(
    "charge_denied",
    Form::ChargeDenied,
    "Which denied requests are charged to the limit, until it is exhausted. never (false): none. \
     excess: those that cost more than 1, which usually report what was already consumed. always \
     (true): all. A rule's own wins over its domain's. Default: excess for requests in Envoy's \
     protocol, never for all others.",
);

const DOMAIN: [Field; 6] = [
    field("domain", Form::Text, "Which requests these rules are for."),
    field(
        "descriptors",
        Form::List(Place::Descriptor),
        "What is looked for in the first entry of a request's descriptors.",
    ),
    CHARGE_DENIED_FIELD,
    MODE_FIELD,
    ON_STORE_ERROR_FIELD,
    NODES_FIELD,
];

const DESCRIPTOR: [Field; 10] = [
    field("key", Form::Text, "The key of the entry."),
    field(
        "value",
        Form::Text,
        "The value of the entry; `*` stands for any text. Without it any value matches, and each \
         has its own counter.",
    ),
    field(
        "rate_limit",
        Form::RateLimit,
        "How much may pass. Without it, nothing is limited here.",
    ),
    field(
        "descriptors",
        Form::List(Place::Descriptor),
        "What is looked for in the next entry.",
    ),
    field(
        "shadow_mode",
        Form::Flag,
        "The limit is judged and counted, and never refuses. Default: false.",
    ),
    field(
        "quota_mode",
        Form::Flag,
        "The limit refuses only if every limit of this kind in the request does. Default: false.",
    ),
    field(
        "share_threshold",
        Form::Flag,
        "All values that match `value` share one counter. Needs a `*` in it. Default: false.",
    ),
    field(
        "detailed_metric",
        Form::Flag,
        "Metrics carry the request's keys and values. Default: false.",
    ),
    field(
        "value_to_metric",
        Form::Flag,
        "Metrics carry the request's value for this key. Default: false.",
    ),
    field(
        "metadata",
        Form::Free,
        "Returned to the asker while the limit admits.",
    ),
];

const RATE_LIMIT: [Field; 18] = [
    field(
        "requests_per_unit",
        Form::Count(0, u32::MAX),
        "How many units may pass in a window. 0 denies everything.",
    ),
    field("unit", Form::Unit(&UNIT_WORDS), "The window: one of these."),
    field(
        "window",
        Form::Window,
        "The window, in place of `unit`: `15m`, `1h30m`; ns, us, ms, s, m, h, d, w.",
    ),
    field(
        "unlimited",
        Form::Flag,
        "Nothing is counted and nothing refused. Default: false.",
    ),
    field("name", Form::Text, "What this limit is called."),
    field(
        "replaces",
        Form::List(Place::Replaces),
        "Limits of these names step aside if a request meets this one.",
    ),
    field(
        "algorithm",
        Form::Choice(&ALGORITHMS),
        "How units are counted over time. Default: fixed_window.",
    ),
    field(
        "burst",
        Form::Count(0, u32::MAX),
        "token_bucket: how many may pass at once. Default: requests_per_unit.",
    ),
    field(
        "queue",
        Form::Count(0, u32::MAX),
        "leaky_bucket: how many may be in the queue. Default: requests_per_unit.",
    ),
    field(
        "segments",
        Form::Count(1, 60),
        "sliding_window: into how many parts the window is cut. Default: 1.",
    ),
    field(
        "anchor",
        Form::Choice(&ANCHORS),
        "fixed_window: when windows begin. Default: clock.",
    ),
    field(
        "soft",
        Form::Percent,
        "How much more than the limit is admitted, and marked: `10%`.",
    ),
    field("elastic", Form::Reserved, ""),
    field("priority", Form::Reserved, ""),
    CHARGE_DENIED_FIELD,
    MODE_FIELD,
    ON_STORE_ERROR_FIELD,
    NODES_FIELD,
];

const REPLACES: [Field; 1] = [field("name", Form::Text, "The name of a limit.")];

/// Every place, from the top down.
pub(crate) const PLACES: [Place; 4] = [
    Place::Domain,
    Place::Descriptor,
    Place::RateLimit,
    Place::Replaces,
];

// === impl Place ===

impl Place {
    /// The keys that stand here, reserved words included.
    pub(crate) fn fields(self) -> impl Iterator<Item = &'static Field> {
        let fields: &'static [Field] = match self {
            Place::Domain => &DOMAIN,
            Place::Descriptor => &DESCRIPTOR,
            Place::RateLimit => &RATE_LIMIT,
            Place::Replaces => &REPLACES,
        };
        fields.iter()
    }

    /// The field of that key.
    pub(crate) fn field(self, key: &str) -> Option<&'static Field> {
        self.fields().find(|field| field.key == key)
    }

    /// Where this is, for people.
    pub(crate) const fn shown(self) -> &'static str {
        match self {
            Place::Domain => "at the top of the document, beside `domain`",
            Place::Descriptor => "in a descriptor, beside `key`",
            Place::RateLimit => "inside `rate_limit`",
            Place::Replaces => "in an item of `replaces`",
        }
    }

    /// What a map here is called.
    pub(crate) const fn noun(self) -> &'static str {
        match self {
            Place::Domain => "a document",
            Place::Descriptor => "a descriptor",
            Place::RateLimit => "`rate_limit`",
            Place::Replaces => "an item of `replaces`",
        }
    }
}
