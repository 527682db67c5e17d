//! One `rate_limit`, in full or in short.

use tollgate_core::{Algorithm, Anchor, InvalidLimit, Limit, Segments, Span};

use crate::draft::RateLimitDraft;
use crate::findings::Mark;
use crate::quote::quote;
use crate::scalar;
use crate::section::{ALGORITHMS, ANCHORS, BELONGS, NOT_IF_UNLIMITED, Section};
use crate::sharing::SharingDraft;
use crate::window::{self, Bad};
use crate::yaml::{Body, Node};

use super::Reader;
use super::foreign;
use super::nearest_key::nearest_word;
use super::table::Table;

/// The code of a parameter that does not fit the algorithm.
const MISPLACED: &str = "parameter-of-another-algorithm";
const UNIT_HELP: &str = "write one of second, minute, hour, day, week, month, year; \
                         for other lengths use `window: 15m` in place of `unit`";
const WINDOW_HELP: &str = "write whole numbers with ns, us, ms, s, m, h, d or w, or sums of them: \
                           `500ms`, `15m`, `1h30m`";

// === impl Reader ===

impl Reader<'_> {
    /// The limit of the `rate_limit` at `key`. One with errors is taken as unlimited, so that no
    /// further errors follow from them; its domain is not loaded.
    pub(super) fn rate_limit(&mut self, key: Mark, node: &Node) -> RateLimitDraft {
        let mut draft = RateLimitDraft {
            limit: None,
            zero: None,
            reserved: None,
            elastic: None,
            name: None,
            replaces: Vec::new(),
            charge_denied: None,
            sharing: SharingDraft::default(),
        };
        if let Body::Scalar(scalar) = &node.body {
            draft.limit = self.short_form(&scalar.text, node.mark);
            draft.zero = draft
                .limit
                .and_then(|limit| (limit.count() == 0).then_some(node.mark));
            return draft;
        }
        if let Body::List(items) = &node.body {
            self.report_limits(node.mark, items);
            return draft;
        }
        let Some(table) = Table::read(node, Section::RateLimit, self.findings) else {
            return draft;
        };
        let name = table.get("name");
        draft.name = name.and_then(|node| scalar::text(node, "name", self.findings));
        draft.replaces = self.replaces(&table, draft.name.as_ref());
        (draft.charge_denied, draft.sharing) = (self.charge_denied(&table), self.sharing(&table));
        let unlimited = table
            .get("unlimited")
            .and_then(|node| scalar::flag(node, "unlimited", self.findings));
        if unlimited == Some(true) {
            self.check_unlimited(&table);
        } else {
            draft.limit = self.limit(key, &table);
            draft.zero = draft.limit.and_then(|limit| zero_mark(limit, &table));
            self.elastic_part(&table, &mut draft);
            self.reserve_share(&table, &mut draft);
        }
        draft
    }

    /// Reports keys that contradict `unlimited`.
    fn check_unlimited(&mut self, table: &Table<'_>) {
        for key in ["unit", "window"] {
            if let Some((mark, _)) = table.entry(key) {
                let message = "should not specify rate limit unit when unlimited".to_owned();
                let help = format!("remove `{key}`, or remove `unlimited`");
                self.findings
                    .error(mark, "unlimited-with-limit", message, help);
            }
        }
        let unit_is_reported = |key: &str| matches!(key, "unit" | "window");
        for key in NOT_IF_UNLIMITED
            .into_iter()
            .filter(|key| !unit_is_reported(key))
        {
            if let Some((mark, _)) = table.entry(key) {
                let message = format!("an unlimited rule has no `{key}`");
                let help = format!("remove `{key}`, or remove `unlimited`");
                self.findings
                    .error(mark, "unlimited-with-limit", message, help);
            }
        }
        if let Some((mark, _)) = table.entry("requests_per_unit") {
            let message = "`requests_per_unit` has no effect, because the rule is unlimited";
            let help = "remove one of them";
            self.findings
                .warning(mark, "no-effect", message.to_owned(), help);
        }
    }

    /// The limit of a map; `None` if a part of it is missing or wrong.
    fn limit(&mut self, key: Mark, table: &Table<'_>) -> Option<Limit> {
        let count = self.requests_per_unit(key, table);
        let window = self.window(key, table);
        let algorithm = self.algorithm(table);
        let soft = self.soft(table);
        let room = self.room(table);
        let (algorithm, (count_mark, count), (window_mark, window)) = (algorithm?, count?, window?);
        let (soft, room) = (soft?, room?);
        let limit = Limit::new(algorithm, count, window);
        let mark = match limit {
            Err(InvalidLimit::Window(_)) => window_mark,
            Err(InvalidLimit::Indivisible { .. }) => {
                table.entry("segments").map_or(key, |at| at.1.mark)
            }
            _ => count_mark,
        };
        let limit = self.validate(limit, mark)?;
        let limit = match room {
            None => limit,
            Some((mark, room)) => self.validate(limit.with_burst(room), mark)?,
        };
        match soft {
            None => Some(limit),
            Some((mark, percent)) => self.validate(limit.with_soft(percent), mark),
        }
    }

    fn requests_per_unit(&mut self, key: Mark, table: &Table<'_>) -> Option<(Mark, u32)> {
        let Some(node) = table.get("requests_per_unit") else {
            if table.misspells("requests_per_unit") {
                return None;
            }
            let message = "`rate_limit` has no `requests_per_unit`".to_owned();
            let help = "write `requests_per_unit: N`; 0 denies everything, \
                        `unlimited: true` allows everything";
            self.findings
                .error(key, "missing-requests-per-unit", message, help);
            return None;
        };
        let range = (0, u32::MAX);
        let count = scalar::count(node, "requests_per_unit", range, self.findings)?;
        Some((node.mark, count))
    }

    fn window(&mut self, key: Mark, table: &Table<'_>) -> Option<(Mark, Span)> {
        match (table.get("unit"), table.entry("window")) {
            (Some(_), Some((mark, _))) => {
                let message = "`window` and `unit` both set the window".to_owned();
                self.findings
                    .error(mark, "unit-and-window", message, "keep one of them");
                None
            }
            (None, None) if table.misspells("unit") || table.misspells("window") => None,
            (None, None) => {
                let message = "`rate_limit` has no `unit` (invalid rate limit unit '')".to_owned();
                self.findings.error(key, "missing-unit", message, UNIT_HELP);
                None
            }
            (Some(node), None) => self.unit(node),
            (None, Some((_, node))) => self.window_text(node),
        }
    }

    /// The window that `unit` names.
    fn unit(&mut self, node: &Node) -> Option<(Mark, Span)> {
        let name = scalar::text(node, "unit", self.findings)?;
        let Some(span) = Span::unit(&name.value) else {
            let message = format!("invalid rate limit unit {}", quote(&name.value));
            let written = window::window(&name.value)
                .is_ok()
                .then(|| name.value.clone());
            let length = written.or_else(|| foreign::window_of(node, "s"));
            let help = match (window::meant_unit(&name.value), length) {
                (_, Some(length)) if Span::unit(&length).is_none() => {
                    format!("write `window: {length}` in place of `unit`")
                }
                (_, Some(word)) => format!("did you mean `{word}`?"),
                (Some(word), _) => format!("did you mean `{word}`?"),
                (None, _) => UNIT_HELP.to_owned(),
            };
            self.findings.error(name.mark, "unit", message, help);
            return None;
        };
        Some((name.mark, span))
    }

    /// The length of time in `window`.
    fn window_text(&mut self, node: &Node) -> Option<(Mark, Span)> {
        let Some(scalar) = node.scalar() else {
            let message = format!("`window` is a length of time, and this is {}", node.kind());
            self.findings
                .error(node.mark, "window", message, WINDOW_HELP);
            return None;
        };
        match window::window(&scalar.text) {
            Ok(span) => Some((node.mark, span)),
            Err(bad) => {
                let message = bad.message(&scalar.text, self.findings);
                let help = match bad {
                    Bad::NoUnit => format!(
                        "write `window: {}s` for seconds",
                        self.findings.short(&scalar.text)
                    ),
                    _ => match foreign::window_of(node, "s") {
                        Some(length) if Span::unit(&length).is_some() => {
                            format!("write `unit: {length}` in place of `window`")
                        }
                        Some(length) => format!("did you mean `window: {length}`?"),
                        None => bad.help().unwrap_or_else(|| WINDOW_HELP.to_owned()),
                    },
                };
                self.findings.error(node.mark, "window", message, help);
                None
            }
        }
    }

    /// The algorithm with its parameters; reports parameters of others.
    fn algorithm(&mut self, table: &Table<'_>) -> Option<Algorithm> {
        let name = self.choice(table, "algorithm", &ALGORITHMS)?;
        let mut fits = true;
        for (key, algorithm) in BELONGS {
            if let (Some((mark, _)), true) = (table.entry(key), algorithm != name) {
                let mark = match table.merge_mark(key) {
                    Some(merge) if !self.findings.has(mark, MISPLACED) => merge,
                    _ => mark,
                };
                self.report_misplaced(mark, key, algorithm, name);
                fits = false;
            }
        }
        let anchor = self.choice(table, "anchor", &ANCHORS)?;
        let segments = match table.get("segments") {
            Some(node) => scalar::count(node, "segments", (1, 60), self.findings)?,
            None => 1,
        };
        let segments = Segments::new(u8::try_from(segments).ok()?).ok()?;
        let anchor = match anchor {
            "first_request" => Anchor::FirstRequest,
            _ => Anchor::Clock,
        };
        fits.then_some(match name {
            "sliding_log" => Algorithm::SlidingLog,
            "sliding_window" => Algorithm::SlidingWindow(segments),
            "token_bucket" => Algorithm::TokenBucket,
            "leaky_bucket" => Algorithm::LeakyBucket,
            _ => Algorithm::FixedWindow(anchor),
        })
    }

    fn report_misplaced(&mut self, mark: Mark, key: &str, owner: &str, algorithm: &str) {
        let message = format!("`{key}` belongs to {owner}, and this limit is a {algorithm}");
        let help = match (key, algorithm) {
            ("burst", "leaky_bucket") => "write `queue` in place of `burst`".to_owned(),
            ("queue", "token_bucket") => "write `burst` in place of `queue`".to_owned(),
            _ => format!("write `algorithm: {owner}`, or remove `{key}`"),
        };
        self.findings.error(mark, MISPLACED, message, help);
    }

    /// One of `words`; the first of them if the key is missing.
    fn choice(
        &mut self,
        table: &Table<'_>,
        key: &str,
        words: &[&'static str],
    ) -> Option<&'static str> {
        let Some(node) = table.get(key) else {
            return words.first().copied();
        };
        self.word(node, key, words)
    }

    /// One of `words`.
    pub(super) fn word(
        &mut self,
        node: &Node,
        key: &str,
        words: &[&'static str],
    ) -> Option<&'static str> {
        let name = scalar::text(node, key, self.findings)?;
        if let Some(word) = words.iter().find(|word| **word == name.value) {
            return Some(word);
        }
        let message = format!("no such `{key}`: {}", quote(&name.value));
        let alias = name_elsewhere(key, &name.value);
        let help = match alias.or_else(|| nearest_word(&name.value, words)) {
            Some(word) => format!("did you mean `{word}`?"),
            None => format!("write one of {}", words.join(", ")),
        };
        self.findings.error(name.mark, "choice", message, help);
        None
    }

    /// The burst or queue, if it is set and can be read; the outer `None` is an error.
    fn room(&mut self, table: &Table<'_>) -> Option<Option<(Mark, u32)>> {
        for key in ["burst", "queue"] {
            if let Some(node) = table.get(key) {
                let room = scalar::count(node, key, (0, u32::MAX), self.findings)?;
                return Some(Some((node.mark, room)));
            }
        }
        Some(None)
    }

    /// The soft part, if it is set and can be read; the outer `None` is an error.
    fn soft(&mut self, table: &Table<'_>) -> Option<Option<(Mark, u32)>> {
        let Some(node) = table.get("soft") else {
            return Some(None);
        };
        let percent = scalar::percent(node, "soft", "10%", self.findings)?;
        Some(Some((node.mark, percent)))
    }

    pub(super) fn validate(
        &mut self,
        limit: Result<Limit, InvalidLimit>,
        mark: Mark,
    ) -> Option<Limit> {
        match limit {
            Ok(limit) => Some(limit),
            Err(invalid) => {
                self.findings
                    .error(mark, "limit", invalid.to_string(), help(&invalid));
                None
            }
        }
    }
}

/// Where the 0 is that leaves no room for anything.
fn zero_mark(limit: Limit, table: &Table<'_>) -> Option<Mark> {
    let node = match limit.count() {
        0 => table.get("requests_per_unit"),
        _ if limit.nominal() == 0 => table.get("burst").or_else(|| table.get("queue")),
        _ => None,
    };
    node.map(|node| node.mark)
}

/// The word of `key` for what has another name elsewhere.
fn name_elsewhere(key: &str, name: &str) -> Option<&'static str> {
    let name = name.to_lowercase().replace(['-', ' '], "_");
    match (key, name.as_str()) {
        ("algorithm", "gcra" | "generic_cell_rate") => Some("token_bucket"),
        ("algorithm", "rolling_window" | "sliding_window_counter" | "sliding") => {
            Some("sliding_window")
        }
        ("algorithm", "sliding_window_log" | "log") => Some("sliding_log"),
        ("on_store_error", "fail_open" | "open") => Some("allow"),
        ("on_store_error", "fail_closed" | "fail_close" | "closed") => Some("deny"),
        _ => None,
    }
}

fn help(invalid: &InvalidLimit) -> String {
    match invalid {
        InvalidLimit::Window(_) => "write a window from `1ns` to `366d`".to_owned(),
        InvalidLimit::TooFast { count_max: 0, .. } => "make the window longer".to_owned(),
        InvalidLimit::TooFast { count_max, .. } => format!(
            "ask for at most {count_max}, or use fixed_window, sliding_window or sliding_log"
        ),
        InvalidLimit::TooSlow { .. } => "use a smaller burst or queue, or a faster rate".to_owned(),
        InvalidLimit::Indivisible { .. } => {
            "use a number of segments that divides the window".to_owned()
        }
        InvalidLimit::TooLarge { .. } => {
            "use a smaller limit, or a smaller `soft` or `elastic`".to_owned()
        }
        InvalidLimit::PriorityShare(_) => "write a share from 1% to 100%".to_owned(),
        _ => String::new(),
    }
}
