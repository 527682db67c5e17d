//! The report as text.

use std::fmt::{self, Display, Formatter};

use tollgate_core::{Cost, Enforcement, Escaped, Limit, Limited, Sharing, Span, Status, Wait};
use tollgate_rules::{CandidateOutcome, Finding, LookUp, RuleDescriptor, RuleView};

use super::reason::level;
use super::{ExplanationReport, Part, PastDenial, Values, place, written};

/// What is said of states that are not those of the service.
const UNUSED: &str = "each key is shown as if it was never used; the states of keys in memory are \
    in the service, which `tollgate explain --url` asks";
/// Stands for a value that is not shown.
const HIDDEN: &str = "(hidden)";

impl Display for ExplanationReport<'_, '_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.write_past(f)?;
        self.write_outcome(f)?;
        for part in self.parts() {
            writeln!(f)?;
            part.write(self, f)?;
        }
        if !self.has_states {
            writeln!(f, "\nnote: {UNUSED}")?;
        }
        Ok(())
    }
}

// === impl ExplanationReport ===

impl ExplanationReport<'_, '_> {
    /// The denial that is explained.
    fn write_past(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Some(PastDenial { denied, ago }) = &self.denial else {
            return Ok(());
        };
        let by = denied.by.as_deref().unwrap_or("a limit");
        let (id, by) = (Escaped(denied.id.as_bytes()), Escaped(by.as_bytes()));
        write!(f, "{id} was denied {} ago, by {by}", round_up(*ago))?;
        if !denied.has_answered {
            write!(f, ", whose store did not answer")?;
        }
        match denied.wait {
            Wait::For(span) => writeln!(f, ", for {}", round_up(span)),
            Wait::Never => writeln!(f, "; its cost never fits"),
        }
    }

    /// The first line: what would be decided on the request.
    fn write_outcome(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let answer = &self.explanation.answer;
        let domain = Escaped(self.request.domain);
        let cost = match self.request.cost {
            Cost::Take(units) | Cost::Peek(units) if units > 1 => format!(" of cost {units}"),
            _ => String::new(),
        };
        let Some(denial) = answer.denial else {
            return writeln!(f, "{domain}: a request{cost} would be allowed now");
        };
        write!(f, "{domain}: a request{cost} would be denied now")?;
        if answer.is_store_unavailable() {
            write!(f, ", because its store does not answer")?;
        } else if let Some(limited) = answer.denied_by() {
            write!(f, ", by {}", Escaped(limited.rule.shown().as_bytes()))?;
        }
        match denial.wait {
            Wait::For(span) => writeln!(f, "; allowed again in {}", round_up(span)),
            Wait::Never => writeln!(f, "; its cost never fits"),
        }
    }
}

// === impl Part ===

impl Part<'_, '_> {
    /// Its search, what applies, and its state.
    fn write(&self, report: &ExplanationReport<'_, '_>, f: &mut Formatter<'_>) -> fmt::Result {
        for (index, entry) in self.descriptor.entries.iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma}{}", shown(entry.key, entry.value, report.values))?;
        }
        let order = if self.descriptor.is_unordered {
            "  (in any order)"
        } else {
            ""
        };
        writeln!(f, "{order}")?;
        for look_up in &self.walk.look_ups {
            let entry = shown(&look_up.key, &look_up.value, report.values);
            writeln!(f, "  {entry}, looked up {}", level(self.walk, look_up))?;
            write_candidates(look_up, f)?;
        }
        write_omitted(f, self.walk.omitted, "look-ups")?;
        row(f, "why", self.reason())?;
        match self.finding {
            Finding::Rule(view) => write_rule(view, report, f)?,
            Finding::OwnLimit { limit, sharing } => write_limit(limit, *sharing, report, f)?,
            _ => {}
        }
        if let Status::Limited(limited) = self.status {
            self.write_fallback(f)?;
            let capacity = match self.fallback.flatten() {
                Some(share) => share.available(),
                None => limited.capacity(),
            };
            write_state(limited, capacity, f)?;
        }
        match self.deeper() {
            Some(deeper) => row(f, "deeper", deeper),
            None => Ok(()),
        }
    }

    /// What decides, if the store does not answer.
    fn write_fallback(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let how = match (self.fallback, self.finding) {
            (Some(Some(share)), _) => format!("this instance decides on its share, {share}"),
            (Some(None), Finding::Rule(view)) => {
                format!("`on_store_error` is `{}`", view.sharing.on_store_error)
            }
            (Some(None), Finding::OwnLimit { sharing, .. }) => {
                format!("`on_store_error` is `{}`", sharing.on_store_error)
            }
            _ => return Ok(()),
        };
        row(f, "fallback", format!("the store does not answer: {how}"))
    }
}

fn write_candidates(look_up: &LookUp, f: &mut Formatter<'_>) -> fmt::Result {
    for candidate in &look_up.candidates {
        let outcome = match candidate.outcome {
            CandidateOutcome::Matches => "matches",
            CandidateOutcome::Differs => "differs",
            CandidateOutcome::NotTried => "not tried",
        };
        write_descriptor(outcome, &candidate.written, f)?;
    }
    write_omitted(f, look_up.omitted, "with this key")?;
    for other in &look_up.others {
        write_descriptor("other key", other, f)?;
    }
    write_omitted(f, look_up.others_omitted, "with other keys")
}

fn write_descriptor(
    outcome: &str,
    descriptor: &RuleDescriptor,
    f: &mut Formatter<'_>,
) -> fmt::Result {
    let (written, place) = (written(descriptor), place(descriptor));
    let (written, place) = (Escaped(written.as_bytes()), Escaped(place.as_bytes()));
    writeln!(f, "    {outcome:<9} {written}  ({place})")
}

/// The rule that applies, and what it limits.
fn write_rule(
    view: &RuleView,
    report: &ExplanationReport<'_, '_>,
    f: &mut Formatter<'_>,
) -> fmt::Result {
    row(f, "rule", &view.rule.path)?;
    let Some(limit) = &view.limit else {
        return row(f, "limit", "unlimited: nothing is counted");
    };
    write_limit(limit, view.sharing, report, f)?;
    match view.distinguishes {
        true => row(f, "counts", "each value on its own")?,
        false => row(f, "counts", "all requests together")?,
    }
    if let Some(percent) = view.enforce {
        row(
            f,
            "enforce",
            format!("{percent}% of the keys, the others are in shadow mode"),
        )?;
    }
    if let (Some(has_headroom), Some(available)) = (view.has_headroom, view.available()) {
        let has = if has_headroom { "yes" } else { "no" };
        row(f, "headroom", format!("{has}, so the limit is {available}"))?;
        let reports = view.sources.iter().map(|(source, reports)| {
            let reports = if *reports { "yes" } else { "no" };
            format!("{source}: {reports}")
        });
        row(f, "sources", reports.collect::<Vec<_>>().join(", "))?;
    }
    match view.enforcement.note() {
        None => Ok(()),
        Some(note) => row(f, view.enforcement.name(), note),
    }
}

fn write_limit(
    limit: &Limit,
    sharing: Sharing,
    report: &ExplanationReport<'_, '_>,
    f: &mut Formatter<'_>,
) -> fmt::Result {
    row(f, "limit", limit)?;
    let store = &report.explanation.store;
    match report.explanation.is_shared {
        true => row(f, "store", format!("{store}, shared, {}", sharing.mode)),
        false => row(f, "store", format!("{store}, in memory")),
    }
}

fn write_state(limited: &Limited, capacity: u32, f: &mut Formatter<'_>) -> fmt::Result {
    let decision = &limited.decision;
    let remaining = decision.remaining();
    row(f, "remaining", format!("{remaining} of {capacity}"))?;
    let over = match limited.enforcement {
        Enforcement::Shadow => "over",
        Enforcement::Enforce | Enforcement::Quota => "denied",
    };
    match decision.wait() {
        None => {}
        Some(Wait::For(span)) => row(f, over, format!("for {}", round_up(span)))?,
        Some(Wait::Never) => row(f, over, "always: the cost never fits")?,
    }
    row(f, "reset", format!("in {}", round_up(decision.reset())))
}

fn row(f: &mut Formatter<'_>, name: &str, value: impl Display) -> fmt::Result {
    writeln!(f, "  {name:<9} {}", Escaped(value.to_string().as_bytes()))
}

fn write_omitted(f: &mut Formatter<'_>, count: usize, what: &str) -> fmt::Result {
    match count {
        0 => Ok(()),
        count => writeln!(f, "    ...       {count} more {what}"),
    }
}

/// An entry of the request.
fn shown(key: &[u8], value: &[u8], values: Values) -> String {
    let value = values.show(value).map(|value| Escaped(value).to_string());
    let value = value.as_deref().unwrap_or(HIDDEN);
    format!("{}={value}", Escaped(key))
}

/// Whole milliseconds, for people.
fn round_up(span: Span) -> Span {
    Span::from_millis(span.as_nanos().div_ceil(1_000_000))
}
