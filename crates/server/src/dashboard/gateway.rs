//! What the gateway did, for the page.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::metrics::{GatewayFigures, Metrics};

/// The most routes, and the most upstreams, those with the most requests.
const SHOWN_MAX: usize = 50;

/// Requests by route, and answers, times and errors by upstream; `null` without a gateway.
pub(super) fn gateway(metrics: &Metrics) -> Value {
    let Some(GatewayFigures { routes, upstreams }) = metrics.gateway() else {
        return Value::Null;
    };
    let routes = most(routes, |counts| counts.values().sum());
    let routes = routes.into_iter();
    let routes = routes.map(|(route, counts)| json!({"route": route, "counts": counts}));
    let upstreams = most(upstreams, |figures| {
        figures.answers + figures.errors.values().sum::<u64>()
    });
    let upstreams = upstreams.into_iter().map(|(upstream, figures)| {
        json!({
            "upstream": upstream,
            "answers": figures.answers,
            "times": figures.times,
            "errors": figures.errors,
        })
    });
    json!({
        "routes": routes.collect::<Vec<_>>(),
        "upstreams": upstreams.collect::<Vec<_>>(),
    })
}

/// Those with the most requests.
fn most<T>(all: BTreeMap<String, T>, requests: impl Fn(&T) -> u64) -> Vec<(String, T)> {
    let mut all: Vec<(String, T)> = all.into_iter().collect();
    all.sort_by_key(|(_, figures)| Reverse(requests(figures)));
    all.truncate(SHOWN_MAX);
    all
}
