//! The report of `tollgate keys`, for people and for programs.

use std::fmt;

use serde_json::{Map, Value, json};
use tollgate_core::{
    Answer, Decision, Enforcement, HeldUnits, KeyState, Limited, Mode, Sharing, Span, Status, Wait,
};
use tollgate_rules::escape;

use super::Target;
use crate::message::pluralize;

/// The limits that a request's descriptors meet, and what the store holds for each.
pub(crate) struct Report {
    domain: String,
    descriptors: Vec<Found>,
    /// One for each descriptor that meets a limit, in their order.
    pub(crate) keys: Vec<Key>,
}

/// What one descriptor meets.
struct Found {
    entries: Vec<(String, String)>,
    shown: String,
    status: Status,
}

/// A key in the store.
pub(crate) struct Key {
    pub(crate) name: String,
    pub(crate) sharing: Sharing,
    pub(crate) state: KeyState,
    /// After `reset`: why the state before could not be read.
    pub(crate) unreadable: Option<String>,
    /// See [`tollgate_core::InspectStore::denial_cache_max`].
    pub(crate) denial_cache_max: Span,
    /// After `reset`: whether there was something to delete.
    pub(crate) deleted: Option<bool>,
}

// === impl Report ===

impl Report {
    /// `keys` are those of the statuses with a limit, in their order.
    pub(crate) fn new(
        target: &Target,
        answer: &Answer,
        keys: &mut dyn Iterator<Item = Key>,
    ) -> Report {
        let descriptors = target.descriptors.iter().zip(&answer.statuses);
        let found = descriptors.map(|(wanted, status)| Found {
            entries: wanted.pairs().to_vec(),
            shown: wanted.to_string(),
            status: status.clone(),
        });
        Report {
            domain: target.domain.clone(),
            descriptors: found.collect(),
            keys: keys.collect(),
        }
    }

    /// The path of the first unlimited rule that a descriptor meets.
    pub(crate) fn unlimited_rule(&self) -> Option<&str> {
        self.descriptors
            .iter()
            .find_map(|found| match &found.status {
                Status::Unlimited { rule } => Some(&*rule.path),
                _ => None,
            })
    }

    /// The report as JSON: for each descriptor its entries and outcome, and if it meets a limit,
    /// the limit and its key.
    pub(crate) fn to_json(&self) -> Value {
        let mut keys = self.keys.iter();
        let descriptors = self.descriptors.iter().map(|found| {
            let entries = found.entries.iter();
            let entries: Vec<Value> = entries
                .map(|(key, value)| json!({"key": key, "value": value}))
                .collect();
            let mut json = Map::new();
            json.insert("entries".to_owned(), entries.into());
            found.status_to_json(&mut json);
            if let (Status::Limited(limited), Some(key)) = (&found.status, keys.next()) {
                json.insert("limit".to_owned(), limited.limit.to_string().into());
                json.insert("capacity".to_owned(), limited.capacity().into());
                let enforcement = limited.enforcement.name();
                json.insert("enforcement".to_owned(), enforcement.into());
                json.insert("key".to_owned(), key.to_json());
            }
            Value::Object(json)
        });
        json!({"domain": self.domain, "descriptors": descriptors.collect::<Vec<_>>()})
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut keys = self.keys.iter();
        for found in &self.descriptors {
            writeln!(f, "{}: {}", escape(&self.domain), escape(&found.shown))?;
            match &found.status {
                Status::NoLimit => row(f, "rule", "none, or one that another rule replaces")?,
                Status::Unlimited { rule } => {
                    row(f, "rule", &rule.path)?;
                    row(f, "limit", "unlimited: nothing is counted")?;
                }
                Status::Limited(limited) => {
                    row(f, "rule", &limited.rule.path)?;
                    if let Some(name) = &limited.rule.name {
                        row(f, "name", name)?;
                    }
                    row(f, "limit", limited.limit)?;
                    if let Some(note) = limited.enforcement.note() {
                        row(f, limited.enforcement.name(), note)?;
                    }
                    if let Some(key) = keys.next() {
                        key.write_rows(f, limited)?;
                    }
                }
            }
        }
        self.keys.iter().try_for_each(|key| key.write_notes(f))
    }
}

fn row(f: &mut fmt::Formatter<'_>, name: &str, value: impl fmt::Display) -> fmt::Result {
    writeln!(f, "  {name:<9} {}", escape(&value.to_string()))
}

// === impl Found ===

impl Found {
    fn status_to_json(&self, json: &mut Map<String, Value>) {
        let (outcome, rule) = match &self.status {
            Status::NoLimit => ("no_limit", None),
            Status::Unlimited { rule } => ("unlimited", Some(rule)),
            Status::Limited(limited) => ("limited", Some(&limited.rule)),
        };
        json.insert("outcome".to_owned(), outcome.into());
        if let Some(rule) = rule {
            json.insert("rule".to_owned(), rule.path.as_str().into());
            if let Some(name) = &rule.name {
                json.insert("name".to_owned(), name.as_str().into());
            }
        }
    }
}

// === impl Key ===

impl Key {
    /// Times are whole milliseconds, rounded up.
    fn to_json(&self) -> Value {
        let state = &self.state;
        let mut json = json!({
            "name": self.name,
            "mode": self.sharing.mode.to_string(),
            "held": state.bytes > 0,
            "bytes": state.bytes,
            "expiresMs": state.expires.map(millis),
            "remaining": state.decision.remaining(),
            "resetMs": millis(state.decision.reset()),
            "leased": units(state.leased),
            "reserved": units(state.reserved),
        });
        if let Some(wait) = self.wait() {
            json["waitMs"] = json!(match wait {
                Wait::For(span) => Some(millis(span)),
                Wait::Never => None,
            });
        }
        if let Some(deleted) = self.deleted {
            json["deleted"] = json!(deleted);
        }
        if let Some(why) = &self.unreadable {
            json["unreadable"] = json!(why);
        }
        json
    }

    /// Prints the rows about the key itself, below those about its rule.
    fn write_rows(&self, f: &mut fmt::Formatter<'_>, limited: &Limited) -> fmt::Result {
        let (state, capacity) = (&self.state, limited.capacity());
        let over = match limited.enforcement {
            Enforcement::Shadow => "over",
            Enforcement::Enforce | Enforcement::Quota => "denied",
        };
        row(f, "mode", self.sharing.mode)?;
        row(f, "key", &self.name)?;
        match (&self.unreadable, state.expires) {
            (Some(why), _) => row(f, "held", format_args!("unreadable: {why}"))?,
            (None, Some(expires)) => {
                let size = format!("{} bytes, for {} more", state.bytes, round_up(expires));
                row(f, "held", size)?;
            }
            (None, None) => row(f, "held", "nothing: as if it was never used")?,
        }
        let decision = &state.decision;
        row(
            f,
            "remaining",
            format_args!("{} of {capacity}", decision.remaining()),
        )?;
        match self.wait() {
            None => {}
            Some(Wait::For(span)) => row(f, over, format_args!("for {}", round_up(span)))?,
            Some(Wait::Never) => row(f, over, "always")?,
        }
        row(
            f,
            "reset",
            format_args!("in {}", round_up(decision.reset())),
        )?;
        for (name, held, holder) in [
            ("leased", state.leased, "instance"),
            ("reserved", state.reserved, "request"),
        ] {
            if held.holders > 0 {
                let (units, holders, ends) = (held.units, held.holders, round_up(held.ends));
                let holders = pluralize(holders, holder);
                let units = pluralize(units, "unit");
                row(
                    f,
                    name,
                    format_args!("{units} by {holders}, for at most {ends}"),
                )?;
            }
        }
        match self.deleted {
            None => Ok(()),
            Some(true) => row(f, "deleted", "yes: the budget starts over"),
            Some(false) => row(f, "deleted", "no: there was nothing to delete"),
        }
    }

    /// What a reset does not reach: state that instances hold locally.
    fn write_notes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.deleted.is_none() {
            return Ok(());
        }
        if let Some(Wait::For(span)) = self.wait()
            && !self.denial_cache_max.is_zero()
        {
            writeln!(
                f,
                "note: an instance that has just denied {} may deny it for at most {} more",
                self.name,
                round_up(span.min(self.denial_cache_max))
            )?;
        }
        if self.state.leased.holders > 0 {
            writeln!(
                f,
                "note: {} leased units of {} may be spent beside the new budget, for at most {}",
                self.state.leased.units,
                self.name,
                round_up(self.state.leased.ends)
            )?;
        }
        if self.sharing.mode == Mode::WriteBack {
            writeln!(
                f,
                "note: instances keep their local counts of {} until their next report",
                self.name
            )?;
        }
        Ok(())
    }

    fn wait(&self) -> Option<Wait> {
        match self.state.decision {
            Decision::Allow(_) => None,
            Decision::Deny(denial) => Some(denial.wait),
        }
    }
}

fn units(held: HeldUnits) -> Value {
    json!({"units": held.units, "holders": held.holders, "endsMs": millis(held.ends)})
}

fn millis(span: Span) -> u64 {
    span.as_nanos().div_ceil(1_000_000)
}

/// Rounded up to whole milliseconds, for people.
fn round_up(span: Span) -> Span {
    Span::from_millis(millis(span))
}
