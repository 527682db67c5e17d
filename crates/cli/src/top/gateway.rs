//! The tables of a gateway: its upstreams and its routes.

use super::history::History;
use super::number::{per_second, time, whole};
use super::panel::{Cell, Column, Panel};
use super::snapshot::{Gateway, Snapshot, sum, total};
use super::tone::Tone;

/// The outcomes of a route that are not failures, as the table has them: those that deny together.
const OUTCOMES: [&[&str]; 3] = [
    &["forwarded"],
    &["denied", "deny_listed", "in_flight"],
    &["canceled"],
];

/// The tables; none if the service has no gateway.
pub(super) fn panels(history: &History, snapshot: &Snapshot) -> Vec<Panel> {
    let Some(gateway) = &snapshot.gateway else {
        return Vec::new();
    };
    vec![upstreams(history, gateway), routes(history, gateway)]
}

/// The answers of upstreams, and how long they took of late.
fn upstreams<'h>(history: &'h History, gateway: &Gateway) -> Panel {
    let rows = gateway.upstreams.iter().map(|upstream| {
        let name = &*upstream.upstream;
        let rate = history.try_rate(|one| {
            let gateway = one.gateway.as_ref()?;
            gateway.read_upstream(name, |one| one.answers)
        });
        let times = |one: &'h Snapshot| {
            let gateway = one.gateway.as_ref()?;
            gateway.read_upstream(name, |one| one.times.as_slice())
        };
        let took = |thousandths| time(history.percentile_of(thousandths, times));
        vec![
            Cell::new(name),
            Cell::new(per_second(rate)),
            Cell::new(took(500)),
            Cell::new(took(990)),
            Cell::new(whole(upstream.answers)),
            failures(total(&upstream.errors)),
        ]
    });
    Panel {
        title: "Upstreams of the gateway",
        note: String::new(),
        columns: vec![
            Column::text("upstream"),
            Column::number("per s"),
            Column::number("p50"),
            Column::number("p99"),
            Column::number("answers"),
            Column::number("not answered"),
        ],
        rows: rows.collect(),
        empty: "no upstream",
    }
}

/// The requests of routes, by outcome.
fn routes(history: &History, gateway: &Gateway) -> Panel {
    let rows = gateway.routes.iter().map(|route| {
        let counts = OUTCOMES.map(|outcomes| sum(&route.counts, outcomes));
        let failed = total(&route.counts).saturating_sub(counts.iter().sum());
        let requests = |one: &Snapshot| {
            let gateway = one.gateway.as_ref()?;
            gateway.read_route(&route.route, |route| total(&route.counts))
        };
        let name = match &*route.route {
            "" => "(no route)",
            name => name,
        };
        let mut row = vec![
            Cell::new(name),
            Cell::new(per_second(history.try_rate(requests))),
        ];
        row.extend(counts.map(|count| Cell::new(whole(count))));
        row.push(failures(failed));
        row
    });
    Panel {
        title: "Routes of the gateway",
        note: String::new(),
        columns: vec![
            Column::text("route"),
            Column::number("per s"),
            Column::number("forwarded"),
            Column::number("denied"),
            Column::number("canceled"),
            Column::number("failed"),
        ],
        rows: rows.collect(),
        empty: "no request yet",
    }
}

fn failures(count: u64) -> Cell {
    let tone = if count > 0 { Tone::Bad } else { Tone::Plain };
    Cell::with_tone(whole(count), tone)
}
