//! The keys of each map in a rules file. The parser and the JSON Schema both read this table.

use tollgate_core::Span;

use crate::sharing::{INSTANCES, MODES, ON_STORE_ERROR};

/// A map in a rules file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Section {
    /// The top of a document: one domain.
    Domain,
    /// An item of `descriptors`.
    Descriptor,
    /// The map below `rate_limit`.
    RateLimit,
    /// An item of `replaces`.
    Replaces,
    /// The map below `reserved`.
    PriorityShare,
    /// The map below `elastic`.
    Elastic,
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
    /// The same, with a character or more.
    Name,
    /// `true` or `false`.
    Flag,
    /// A whole number from the first to the second.
    Count(u32, u32),
    /// One of these names, in any case.
    Unit(&'static [&'static str]),
    /// One of these names.
    Choice(&'static [&'static str]),
    /// `15m`, `1h30m`.
    Window,
    /// `10%`, from the first to the second.
    Percent(u32, u32),
    /// One of [`CHARGE_DENIED`], or a flag: `true` is `always`, `false` is `never`.
    ChargeDenied,
    /// A list of maps.
    List(Section),
    /// A list of at most so many texts.
    Texts(usize),
    /// A list of at most so many sources of headroom.
    HeadroomSources(usize),
    /// A map.
    Map(Section),
    /// A map, or the short form `100/minute`.
    RateLimit,
    /// Any map.
    Free,
}

const UNIT_WORDS: [&str; 7] = [
    Span::UNITS[0].0,
    Span::UNITS[1].0,
    Span::UNITS[2].0,
    Span::UNITS[3].0,
    Span::UNITS[4].0,
    Span::UNITS[5].0,
    Span::UNITS[6].0,
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
pub(crate) const NOT_IF_UNLIMITED: [&str; 10] = [
    "unit",
    "window",
    "algorithm",
    "burst",
    "queue",
    "segments",
    "anchor",
    "soft",
    "elastic",
    "reserved",
];
/// The most priorities that one rule names, and the longest one.
pub(crate) const PRIORITIES_MAX: usize = 16;
pub(crate) const PRIORITY_BYTES_MAX: usize = 256;
/// The most sources of headroom that one rule names.
pub(crate) const HEADROOM_SOURCES_MAX: usize = 8;
/// What the priority of a request is called where its domain does not say so.
pub(crate) const PRIORITY_KEY: &str = "priority";
pub(crate) const CHARGE_DENIED: [&str; 3] = ["never", "excess", "always"];
pub(crate) const ANCHORS: [&str; 2] = ["clock", "first_request"];

const fn field(key: &'static str, form: Form, about: &'static str) -> Field {
    Field { key, form, about }
}

const MODE_FIELD: Field = field(
    "mode",
    Form::Choice(&MODES),
    "How instances that share a store decide. strict: every decision asks the store. leased: an \
     instance leases units and decides locally. write_back: an instance counts locally and reports \
     later, so more may be allowed than the limit. A rule's setting wins over its domain's. \
     Default: from the settings, else strict.",
);
const ON_STORE_ERROR_FIELD: Field = field(
    "on_store_error",
    Form::Choice(&ON_STORE_ERROR),
    "What happens when a shared store does not answer. local: the instance decides on its share of \
     the limit. allow: the request is allowed. deny: it is denied, with the reason that the store \
     is unavailable. error: gRPC UNAVAILABLE or HTTP 503. A rule's setting wins over its domain's. \
     Default: from the settings, else local.",
);
const INSTANCES_FIELD: Field = field(
    "instances",
    Form::Count(INSTANCES.0, INSTANCES.1),
    "How many instances share the limit, for an instance's share of it in `on_store_error: local`. \
     A rule's setting wins over its domain's. Default: from the settings, else the instances that \
     the store counts.",
);

const CHARGE_DENIED_FIELD: Field = field(
    "charge_denied",
    Form::ChargeDenied,
    "Which denied requests are charged to the limit, until it is exhausted. never (false): none. \
     excess: those that cost more than 1, which usually report what was already consumed. always \
     (true): all. A rule's setting wins over its domain's. Default: excess for requests in Envoy's \
     protocol, never for all others.",
);

const DOMAIN: [Field; 7] = [
    field("domain", Form::Name, "Which requests these rules are for."),
    field(
        "descriptors",
        Form::List(Section::Descriptor),
        "The rules for the first entry of a request's descriptors.",
    ),
    field(
        "priority_key",
        Form::Name,
        "The key of the descriptor that states a request's priority, for rules with `reserved`. \
         Such a descriptor has no other entry, and matches no rule. Default: priority.",
    ),
    CHARGE_DENIED_FIELD,
    MODE_FIELD,
    ON_STORE_ERROR_FIELD,
    INSTANCES_FIELD,
];

const DESCRIPTOR: [Field; 11] = [
    field("key", Form::Name, "The key of the entry."),
    field(
        "value",
        Form::Text,
        "The value of the entry; `*` matches any text. Without it any value matches, and each \
         has its own counter.",
    ),
    field(
        "rate_limit",
        Form::RateLimit,
        "The limit. Without it, nothing is limited here.",
    ),
    field(
        "descriptors",
        Form::List(Section::Descriptor),
        "The rules for the next entry.",
    ),
    field(
        "shadow_mode",
        Form::Flag,
        "The limit is evaluated and counted, but never denies. Default: false.",
    ),
    field(
        "enforce",
        Form::Percent(0, 100),
        "For which share of the keys the limit is enforced, always the same ones: `10%`. For all \
         others it is as in shadow mode. Default: 100%.",
    ),
    field(
        "quota_mode",
        Form::Flag,
        "The limit denies only if every quota limit of the request does. Default: false.",
    ),
    field(
        "share_threshold",
        Form::Flag,
        "All values that match `value` share one counter. `value` needs a `*`. Default: false.",
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
        "Returned to the client while the limit allows its requests.",
    ),
];

const RATE_LIMIT: [Field; 18] = [
    field(
        "requests_per_unit",
        Form::Count(0, u32::MAX),
        "How many units are allowed in a window. 0 denies everything.",
    ),
    field("unit", Form::Unit(&UNIT_WORDS), "The window."),
    field(
        "window",
        Form::Window,
        "The window, instead of `unit`: `15m`, `1h30m`; ns, us, ms, s, m, h, d, w.",
    ),
    field(
        "unlimited",
        Form::Flag,
        "Nothing is counted and nothing denied. Default: false.",
    ),
    field("name", Form::Text, "The name of this limit."),
    field(
        "replaces",
        Form::List(Section::Replaces),
        "Limits with these names are ignored if this one applies to a request.",
    ),
    field(
        "algorithm",
        Form::Choice(&ALGORITHMS),
        "How units are counted over time. Default: fixed_window.",
    ),
    field(
        "burst",
        Form::Count(0, u32::MAX),
        "token_bucket: how many units are allowed at once. Default: requests_per_unit.",
    ),
    field(
        "queue",
        Form::Count(0, u32::MAX),
        "leaky_bucket: how many may be in the queue. Default: requests_per_unit.",
    ),
    field(
        "segments",
        Form::Count(1, 60),
        "sliding_window: how many segments the window has. Default: 1.",
    ),
    field(
        "anchor",
        Form::Choice(&ANCHORS),
        "fixed_window: when windows begin. Default: clock.",
    ),
    field(
        "soft",
        Form::Percent(0, u32::MAX),
        "How much above the limit is allowed and marked: `10%`.",
    ),
    field(
        "reserved",
        Form::Map(Section::PriorityShare),
        "A share of the limit that only requests with certain priorities can use.",
    ),
    field(
        "elastic",
        Form::Map(Section::Elastic),
        "How much above the limit is allowed while there is headroom, in place of `soft`.",
    ),
    CHARGE_DENIED_FIELD,
    MODE_FIELD,
    ON_STORE_ERROR_FIELD,
    INSTANCES_FIELD,
];

const PRIORITY_SHARE: [Field; 2] = [
    field(
        "share",
        Form::Percent(1, 100),
        "How much of the limit (of `burst` or `queue`, for a bucket) is kept, rounded up: `20%`.",
    ),
    field(
        "for",
        Form::Texts(PRIORITIES_MAX),
        "The priorities that can use it: `[critical]`.",
    ),
];

const ELASTIC: [Field; 2] = [
    field(
        "share",
        Form::Percent(1, u32::MAX),
        "How much above the limit (above `burst` or `queue`, for a bucket) is allowed and marked, \
         rounded down: `50%`.",
    ),
    field(
        "while",
        Form::HeadroomSources(HEADROOM_SOURCES_MAX),
        "What has to report headroom, all of them: `[reported]`, `[host]`, `[upstream]`.",
    ),
];

const REPLACES: [Field; 1] = [field("name", Form::Name, "The name of a limit.")];

/// Every section, from the top down.
pub(crate) const SECTIONS: [Section; 6] = [
    Section::Domain,
    Section::Descriptor,
    Section::RateLimit,
    Section::Replaces,
    Section::PriorityShare,
    Section::Elastic,
];

// === impl Section ===

impl Section {
    /// The keys of this map.
    pub(crate) fn fields(self) -> impl Iterator<Item = &'static Field> {
        let fields: &'static [Field] = match self {
            Section::Domain => &DOMAIN,
            Section::Descriptor => &DESCRIPTOR,
            Section::RateLimit => &RATE_LIMIT,
            Section::Replaces => &REPLACES,
            Section::PriorityShare => &PRIORITY_SHARE,
            Section::Elastic => &ELASTIC,
        };
        fields.iter()
    }

    /// The field of that key.
    pub(crate) fn field(self, key: &str) -> Option<&'static Field> {
        self.fields().find(|field| field.key == key)
    }

    /// Where this is, for people.
    pub(crate) const fn describe(self) -> &'static str {
        match self {
            Section::Domain => "at the top of the document, beside `domain`",
            Section::Descriptor => "in a descriptor, beside `key`",
            Section::RateLimit => "inside `rate_limit`",
            Section::Replaces => "in an item of `replaces`",
            Section::PriorityShare => "inside `reserved`",
            Section::Elastic => "inside `elastic`",
        }
    }

    /// What a map of this kind is called.
    pub(crate) const fn noun(self) -> &'static str {
        match self {
            Section::Domain => "a document",
            Section::Descriptor => "a descriptor",
            Section::RateLimit => "`rate_limit`",
            Section::Replaces => "an item of `replaces`",
            Section::PriorityShare => "`reserved`",
            Section::Elastic => "`elastic`",
        }
    }
}
