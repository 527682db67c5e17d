//! The tables of a gateway: its upstreams and its routes.

use super::history::History;
use super::number::{per_second, time, whole};
use super::panel::{Cell, Column, Panel};
use super::snapshot::{Gateway, Route, Snapshot, Upstream, total};
use super::tone::Tone;

/// The outcomes of a route that are not failures.
const OUTCOMES: [&str; 3] = ["forwarded", "denied", "canceled"];

/// The tables; none if the service has no gateway.
pub(super) fn panels(history: &History, snapshot: &Snapshot) -> Vec<Panel> {
    let Some(gateway) = &snapshot.gateway else {
        return Vec::new();
    };
    vec![upstreams(history, gateway), routes(history, gateway)]
}

/// The answers of upstreams, and how long they took of late.
fn upstreams(history: &History, gateway: &Gateway) -> Panel {
    let rows = gateway.upstreams.iter().map(|upstream| {
        let name = &*upstream.upstream;
        let rate = history.rate(|one| find(one, name).map_or(0, |one| one.answers));
        let took = |thousandths| {
            let times = |one| find(one, name).map_or(&[][..], |one| one.times.as_slice());
            time(history.percentile_of(thousandths, times))
        };
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

fn find<'s>(snapshot: &'s Snapshot, upstream: &str) -> Option<&'s Upstream> {
    snapshot.gateway.as_ref()?.upstream(upstream)
}

/// The requests of routes, by outcome.
fn routes(history: &History, gateway: &Gateway) -> Panel {
    let rows = gateway.routes.iter().map(|route| {
        let count = |outcome: &str| route.counts.iter().find(|(name, _)| &***name == outcome);
        let counts = OUTCOMES.map(|outcome| count(outcome).map_or(0, |(_, count)| *count));
        let failed = total(&route.counts).saturating_sub(counts.iter().sum());
        let requests = |one: &Snapshot| {
            let route = one.gateway.as_ref().and_then(|one| one.route(&route.route));
            route.map_or(0, |route: &Route| total(&route.counts))
        };
        let name = match &*route.route {
            "" => "(no route)",
            name => name,
        };
        let mut row = vec![
            Cell::new(name),
            Cell::new(per_second(history.rate(requests))),
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
