//! The study as text and as JSON.

use std::fmt::{self, Display, Formatter};

use serde_json::{Value, json};
use tollgate_core::Span;
use tollgate_rules::TEXT_BYTES_MAX;

use super::log_span::LogSpan;
use super::{Part, STUDY_VERSION, Study, StudyWarning, SuggestedLimit, WindowPart};
use crate::noun::Noun;
use crate::plain::Plain;
use crate::timestamp::Utc;
use crate::warning::ONE_KEY;

/// The minute: the window of the limits in the rules file, unless the log has no whole one.
const MINUTE: usize = 1;

/// What a report says before the templates that it found.
const TEMPLATES: &str = "\
Paths with identifiers have templates as routes. A request must send its template as the path, as
the gateway's `routes` make it; for `tollgate replay` add:";
/// Why requests are in no route.
const WITHOUT_RULE: &str = "the path does not begin with a slash, or its first segment has `*`, \
    `{`, control characters or bytes that are not text";

// === impl Study ===

impl Study {
    /// The study as JSON; `docs/suggest.md` describes the members.
    pub fn to_json(&self) -> Value {
        let (from, to) = self.span.unzip();
        let largest = self.largest.as_ref();
        let routes = self.routes.iter().map(|(route, part)| {
            let mut json = part.to_json();
            json["route"] = json!(route);
            json
        });
        let warnings = self.warnings.iter();
        let warnings =
            warnings.map(|one| json!({"code": one.code(), "message": one.message(self)}));
        json!({
            "version": STUDY_VERSION,
            "from": from.map(|at| Utc(at).to_string()),
            "to": to.map(|at| Utc(at).to_string()),
            "all": self.all.to_json(),
            "routes": routes.collect::<Vec<_>>(),
            "eventsWithoutRule": self.without_rule,
            "pathTemplates": self.templates().collect::<Vec<_>>(),
            "largestKey": largest.map(|(key, events)| json!({"key": key, "events": events})),
            "warnings": warnings.collect::<Vec<_>>(),
        })
    }

    /// Writes how many requests are in no route, if any are.
    fn write_without_rule(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let requests = self.without_rule;
        if requests == 0 {
            return Ok(());
        }
        let are = if requests == 1 { "is" } else { "are" };
        writeln!(
            f,
            "\n{requests} {} {are} in routes that cannot be a rule: {WITHOUT_RULE}, \
             or the route has more than {TEXT_BYTES_MAX} bytes",
            Noun(requests, "request")
        )
    }

    /// The routes that are templates of paths.
    pub(super) fn templates(&self) -> impl Iterator<Item = &str> {
        let routes = self.routes.iter().map(|(route, _)| route.as_str());
        routes.filter(|route| route.contains('{'))
    }
}

impl Display for Study {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:>12} {}",
            self.all.events,
            Noun(self.all.events, "request")
        )?;
        writeln!(f, "{:>12} {}", self.all.keys, Noun(self.all.keys, "key"))?;
        if let Some((key, events)) = &self.largest {
            let percent = events * 100 / self.all.events.max(1);
            writeln!(
                f,
                "{events:>12} of the largest key, {} ({percent} %)",
                Plain(key)
            )?;
        }
        if let Some((from, to)) = self.span {
            writeln!(f, "\nfrom {} to {}", Utc(from), Utc(to))?;
        }
        self.all.write("all requests", f)?;
        for (route, part) in &self.routes {
            part.write(&Plain(route).to_string(), f)?;
        }
        self.write_without_rule(f)?;
        if self.templates().next().is_some() {
            writeln!(f, "\n{TEMPLATES}")?;
        }
        for template in self.templates() {
            writeln!(f, "  --path-template '{template}'")?;
        }
        for warning in &self.warnings {
            writeln!(
                f,
                "\nwarning[{}]: {}",
                warning.code(),
                warning.message(self)
            )?;
        }
        Ok(())
    }
}

// === impl Part ===

impl Part {
    /// The window of the limits in the rules file: a minute, or if the log has no whole one, a
    /// second.
    fn rule_window(&self) -> Option<&WindowPart> {
        let mut fitting = self.windows.iter().take(MINUTE + 1).rev();
        fitting
            .find(|part| !part.is_partial)
            .or(self.windows.first())
    }

    pub(super) fn has_no_whole_minute(&self) -> bool {
        let minute = self.windows.get(MINUTE);
        minute.is_some_and(|part| part.is_partial)
    }

    /// The limit of the rules file: `5/minute`.
    pub(super) fn rule_limit(&self, per_mille: usize) -> String {
        let window = self.rule_window();
        let mut limits = window.into_iter().flat_map(|part| &part.limits);
        let limit = limits.find(|limit| limit.per_mille == per_mille);
        let unit = window.map_or("minute", WindowPart::unit);
        format!("{}/{unit}", limit.map_or(1, |limit| limit.limit))
    }

    /// How unevenly the busiest key and minute are spread: 60 if all requests of an hour came in
    /// one minute, 1 if they were spread evenly. With one decimal place.
    fn burstiness(&self) -> String {
        let max = |index: usize| {
            self.windows
                .get(index)
                .map_or(0, |window| window.counts.max)
        };
        let tenths = u64::from(max(MINUTE)) * 600 / u64::from(max(3).max(1));
        format!("{}.{}", tenths / 10, tenths % 10)
    }

    fn to_json(&self) -> Value {
        json!({
            "events": self.events,
            "keys": self.keys,
            "burstiness": self.burstiness(),
            "windows": self.windows.iter().map(WindowPart::to_json).collect::<Vec<_>>(),
        })
    }

    /// Writes the table of windows, and how the limits of the first half do in the second.
    fn write(&self, name: &str, f: &mut Formatter<'_>) -> fmt::Result {
        let (events, keys) = (self.events, self.keys);
        writeln!(
            f,
            "\n{name}: {events} {}, {keys} {}, burstiness {}",
            Noun(events, "request"),
            Noun(keys, "key"),
            self.burstiness()
        )?;
        write!(
            f,
            "  requests of a key per {:>6} {:>6} {:>6} {:>6} {:>6}",
            "p50", "p95", "p99", "p99.9", "max"
        )?;
        writeln!(f, "   limit to touch 0 / 0.1 % / 1 % of the keys")?;
        for part in &self.windows {
            let counts = &part.counts;
            let mark = if part.is_partial { '*' } else { ' ' };
            write!(
                f,
                "  {:>20}{mark} {:>6} {:>6} {:>6} {:>6} {:>6}",
                part.window.to_string(),
                counts.p50,
                counts.p95,
                counts.p99,
                counts.p999,
                counts.max
            )?;
            let limits: Vec<String> = part
                .limits
                .iter()
                .map(|one| one.limit.to_string())
                .collect();
            writeln!(f, "   {}", limits.join(" / "))?;
        }
        let Some(checked) = self.rule_window() else {
            return Ok(());
        };
        for limit in &checked.limits {
            let (touched, of) = limit.touched_later;
            writeln!(
                f,
                "  check: {}/{}, which touches {} of the keys in the first half, touches {touched} \
                 of {of} in the second",
                limit.of_first_half,
                checked.unit(),
                Share(limit.per_mille)
            )?;
        }
        Ok(())
    }
}

impl WindowPart {
    /// The unit of a limit on this window, which is a second or a minute.
    fn unit(&self) -> &'static str {
        match self.window {
            Span::SECOND => "second",
            _ => "minute",
        }
    }

    fn to_json(&self) -> Value {
        let counts = &self.counts;
        json!({
            "window": self.window.to_string(),
            "longerThanLog": self.is_partial,
            "p50": counts.p50, "p95": counts.p95, "p99": counts.p99, "p99.9": counts.p999,
            "max": counts.max,
            "limits": self.limits.iter().map(|limit| limit.to_json()).collect::<Vec<_>>(),
        })
    }
}

impl SuggestedLimit {
    fn to_json(self) -> Value {
        json!({
            "share": Share(self.per_mille).to_string(),
            "limit": self.limit,
            "touched": self.touched,
            "ofFirstHalf": self.of_first_half,
            "touchedInSecondHalf": self.touched_later.0,
            "keysInSecondHalf": self.touched_later.1,
        })
    }
}

/// A share in parts of 1000, as `0.1 %`; zero as `none`.
pub(super) struct Share(pub(super) usize);

impl Display for Share {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("none"),
            per_mille if per_mille % 10 == 0 => write!(f, "{} %", per_mille / 10),
            per_mille => write!(f, "{}.{} %", per_mille / 10, per_mille % 10),
        }
    }
}

// === impl StudyWarning ===

impl StudyWarning {
    /// Its name in reports.
    pub const fn code(&self) -> &'static str {
        match self {
            StudyWarning::Cut { .. } => "cut",
            StudyWarning::Trailing { .. } => "trailing",
            StudyWarning::OneKey => "one-key",
            StudyWarning::OwnKeys => "own-keys",
            StudyWarning::FewKeys => "few-keys",
            StudyWarning::ShortLog => "short-log",
        }
    }

    /// What was found, and what it means.
    fn message(&self, study: &Study) -> String {
        let (events, keys) = (study.all.events, study.all.keys);
        match self {
            StudyWarning::Cut { message } | StudyWarning::Trailing { message } => message.clone(),
            StudyWarning::OneKey => {
                let (key, most) = study.largest.clone().unwrap_or_default();
                format!(
                    "{most} of {events} requests have one key, {}. {ONE_KEY}",
                    Plain(&key)
                )
            }
            StudyWarning::OwnKeys => format!(
                "each of {events} requests has its own key, so a limit on it stops nobody: does a \
                 value change with each request?"
            ),
            StudyWarning::FewKeys => format!(
                "{keys} {} in all: 0.1 % of fewer than 1000 is none, so look at the keys \
                 themselves",
                Noun(keys, "key")
            ),
            StudyWarning::ShortLog => {
                let windows = study.all.windows.iter();
                let partial = windows.filter(|part| part.is_partial);
                let partial: Vec<String> = partial.map(|part| part.window.to_string()).collect();
                format!(
                    "the log has only {} of requests. Rows with * ({}) are of windows of which \
                     none is wholly in the log: such a limit would be too low for a client that \
                     goes on",
                    LogSpan::of(study.span).length(),
                    partial.join(", ")
                )
            }
        }
    }
}
