//! The tables of a dashboard, of what the latest snapshots say.

use super::history::History;
use super::number::{ago, bytes, per_second, percent, whole};
use super::panel::{Cell, Column, Panel};
use super::snapshot::{Budget, Key, Keys, Reload, Reloads, Rule, Snapshot, Store};
use super::tone::Tone;
use crate::message::pluralize;

/// From so many thousandths on, a budget is nearly used up.
const NEARLY_USED: u64 = 900;

/// The keys that are denied most.
pub(super) fn most_denied(keys: &Keys) -> Panel {
    Panel {
        title: "Most denied keys",
        note: note(keys, keys.denials, "denials", keys.denial_error_max),
        columns: key_columns(),
        rows: keys.most_denied.iter().map(key_row).collect(),
        empty: "no request was denied",
    }
}

/// The keys of the most decisions.
pub(super) fn hottest(keys: &Keys) -> Panel {
    Panel {
        title: "Hottest keys",
        note: note(keys, keys.decisions, "decisions", keys.error_max),
        columns: key_columns(),
        rows: keys.hottest.iter().map(key_row).collect(),
        empty: "no request met a limit",
    }
}

/// The rules with the most decisions, their rates and the use of their budgets.
pub(super) fn rules(history: &History, snapshot: &Snapshot) -> Panel {
    let rules = snapshot.rules.iter().filter(|rule| !rule.domain.is_empty());
    let rows = rules.map(|rule| {
        let rate = |count: fn(&Rule) -> u64| {
            per_second(history.try_rate(|one| one.read_rule(&rule.domain, &rule.rule, count)))
        };
        let name = match (&rule.name, &*rule.rule) {
            (Some(name), _) => name,
            (None, "") => "(no limit)",
            (None, path) => path,
        };
        vec![
            Cell::new(format!("{}: {name}", rule.domain)),
            Cell::new(rule.limit.as_deref().unwrap_or_default()),
            Cell::new(rate(Rule::total)),
            Cell::new(rate(Rule::denied)),
            Cell::new(whole(rule.denied())),
            rule.budget.as_ref().map_or(Cell::new(""), budget),
        ]
    });
    Panel {
        title: "Rules",
        note: "Budget: what the rule's hottest key has used of its limit.".to_owned(),
        columns: vec![
            Column::text("rule"),
            Column::spare("limit"),
            Column::number("per s"),
            Column::number("denied/s"),
            Column::number("denied"),
            Column::number("budget"),
        ],
        rows: rows.collect(),
        empty: "no decision yet",
    }
}

/// All decisions by outcome.
pub(super) fn outcomes(history: &History, snapshot: &Snapshot) -> Panel {
    let rows = snapshot.outcomes.iter().map(|(name, count)| {
        let rate = history.rate(|one| one.outcomes.get(name).copied().unwrap_or(0));
        vec![
            Cell::new(&**name),
            Cell::new(per_second(rate)),
            Cell::new(whole(*count)),
        ]
    });
    Panel {
        title: "Outcomes",
        note: String::new(),
        columns: vec![
            Column::text("outcome"),
            Column::number("per s"),
            Column::number("since the start"),
        ],
        rows: rows.collect(),
        empty: "no decision yet",
    }
}

/// Memory and the shared stores.
pub(super) fn stores(snapshot: &Snapshot) -> Panel {
    let mut rows = Vec::new();
    let mut row = |name: String, value: Cell| rows.push(vec![Cell::new(name), value]);
    if let Some(memory) = &snapshot.memory {
        row(
            "memory: live keys".to_owned(),
            Cell::new(whole(memory.live_keys)),
        );
        row(
            "  live keys evicted".to_owned(),
            Cell::new(whole(memory.evicted_keys)),
        );
        row(
            "  most memory".to_owned(),
            Cell::new(bytes(memory.bytes_max)),
        );
        row(
            "  used by large states".to_owned(),
            Cell::new(bytes(memory.arena_bytes)),
        );
    }
    rows.extend(snapshot.stores.iter().flat_map(store_rows));
    Panel {
        title: "Stores",
        note: String::new(),
        columns: vec![Column::text(""), Column::text("")],
        rows,
        empty: "no store has been counted yet",
    }
}

/// A shared store.
fn store_rows(store: &Store) -> Vec<Vec<Cell>> {
    let mut rows = Vec::new();
    let mut row = |name: String, value: Cell| rows.push(vec![Cell::new(name), value]);
    let health = match store.up {
        true => Cell::with_tone("up", Tone::Good),
        false => Cell::with_tone("unavailable", Tone::Bad),
    };
    let metric = |name: &str| {
        let mut metrics = store.metrics.iter();
        let found = metrics.find(|(found, _)| &***found == name);
        Cell::new(found.map_or_else(String::new, |(_, count)| whole(*count)))
    };
    row(store.name.to_string(), health);
    if let Some(breaker) = &store.breaker {
        let tone = match &**breaker {
            "open" => Tone::Bad,
            _ => Tone::Plain,
        };
        row(
            "  circuit breaker".to_owned(),
            Cell::with_tone(breaker.to_string(), tone),
        );
    }
    if let Some(trouble) = &store.trouble {
        row(
            "  why".to_owned(),
            Cell::with_tone(trouble.to_string(), Tone::Bad),
        );
    }
    row("  instances".to_owned(), Cell::new(whole(store.instances)));
    row(
        "  decided by on_store_error".to_owned(),
        Cell::new(whole(store.fallbacks)),
    );
    row(
        "  circuit breaker opened".to_owned(),
        metric("breaker_openings"),
    );
    row("  keys with a lease".to_owned(), metric("leases_held"));
    row("  leases granted".to_owned(), metric("leases"));
    row(
        "  requests without a reply".to_owned(),
        metric("outcome_unknown"),
    );
    rows
}

/// The latest reloads of the rules, with what was wrong.
pub(super) fn reloads(reloads: &Reloads) -> Panel {
    let (ok, failed) = (whole(reloads.ok), whole(reloads.failed));
    Panel {
        title: "Reloads of the rules",
        note: format!("{ok} ok, {failed} failed since the start."),
        columns: vec![Column::text(""), Column::text("")],
        rows: reloads.recent.iter().flat_map(reload_rows).collect(),
        empty: "no reload is kept",
    }
}

fn note(keys: &Keys, total: u64, what: &str, error: u64) -> String {
    let (total, seconds) = (whole(total), keys.seconds);
    let mut note = format!(
        "{total} {what} in {seconds} s; a count is at most {} too high.",
        whole(error)
    );
    if keys.missed > 0 {
        note += &format!(" {} were not counted.", whole(keys.missed));
    }
    if keys.hashed {
        note += " Values are hashes: explain.show_values is off.";
    }
    note
}

fn key_columns() -> Vec<Column> {
    vec![
        Column::text("key"),
        Column::spare("rule"),
        Column::number("count"),
    ]
}

fn key_row(key: &Key) -> Vec<Cell> {
    let entries = key.entries.iter();
    let entries: Vec<String> = entries
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let more = if key.whole { "" } else { "…" };
    let error = match key.error {
        0 => String::new(),
        error => format!(" −{}", whole(error)),
    };
    vec![
        Cell::new(entries.join(", ") + more),
        Cell::new(format!("{}: {}", key.domain, key.rule)),
        Cell::new(whole(key.count) + &error),
    ]
}

fn budget(budget: &Budget) -> Cell {
    let (used, capacity) = (budget.used, budget.capacity);
    let is_nearly_used =
        u128::from(used) * 1000 >= u128::from(capacity) * u128::from(NEARLY_USED) && capacity > 0;
    let tone = if is_nearly_used {
        Tone::Bad
    } else {
        Tone::Plain
    };
    Cell::with_tone(percent(used, capacity), tone)
}

/// What came of a reload, and below it what was wrong.
fn reload_rows(reload: &Reload) -> Vec<Vec<Cell>> {
    let rules = pluralize(whole(reload.rules), "rule");
    let domains = pluralize(whole(reload.domains), "domain");
    let (outcome, tone) = match reload.ok {
        true => ("in effect", Tone::Plain),
        false => ("failed", Tone::Bad),
    };
    let summary = format!("{outcome}: {rules} in {domains}");
    let mut rows = vec![vec![
        Cell::new(ago(reload.seconds_ago)),
        Cell::with_tone(summary, tone),
    ]];
    let mut row = |text: String, tone: Tone| {
        rows.push(vec![Cell::new(""), Cell::with_tone(text, tone)]);
    };
    if let Some(unreadable) = &reload.unreadable {
        row(unreadable.to_string(), Tone::Bad);
    }
    for found in &reload.diagnostics {
        let tone = match &*found.severity {
            "error" => Tone::Bad,
            _ => Tone::Plain,
        };
        let (file, line, column) = (&found.file, found.line, found.column);
        row(format!("{file}:{line}:{column}: {}", found.message), tone);
        if let Some(help) = &found.help {
            row(format!("  {help}"), Tone::Plain);
        }
    }
    if reload.omitted > 0 {
        row(format!("and {} more", whole(reload.omitted)), Tone::Muted);
    }
    rows
}
