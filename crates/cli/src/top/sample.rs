//! Snapshots for tests.

use serde_json::{Value, json};

use super::snapshot::Snapshot;

/// A text that would clear the screen and turn the direction of what follows.
pub(super) const HOSTILE: &str = "a\u{1b}[2J\u{9b}2J\u{202e}b";

/// What a service sends so many seconds after its start: each second it allows 100 requests, denies
/// 25, and decides 99 of 100 within 10 µs.
pub(super) fn document(seconds: u64) -> Value {
    let counts = json!({"allowed": 100 * seconds, "denied": 25 * seconds});
    json!({
        "version": 1,
        "program": "0.1.0",
        "uptimeMillis": 1000 * seconds,
        "outcomes": counts,
        "rules": [
            {"domain": "shop", "rule": "user", "name": "by-user", "limit": "3 per 1h fixed_window",
                "counts": counts,
                "budget": {"key": [["user", "a"]], "used": 3, "capacity": 3}},
            {"domain": "shop", "rule": HOSTILE, "limit": null, "counts": {"allowed": 0},
                "budget": null},
        ],
        "latency": {
            "http": [[0.00001, 125 * seconds * 99 / 100], [0.001, 125 * seconds]],
            "grpc": [[0.00001, 0], [0.001, 0]],
        },
        "keys": keys(),
        "memory": {"liveKeys": 1234, "evictedKeys": 0, "arenaBytes": 4096, "bytesMax": 25_000_000},
        "stores": [{"name": "default", "up": false, "instances": 3, "fallbacks": 12,
            "breaker": "open", "trouble": format!("redis:6379: {HOSTILE}"),
            "metrics": {"breaker_openings": 1, "leases_held": 7, "leases": 70,
                "outcome_unknown": 2}}],
        "gateway": {
            "routes": [
                {"route": HOSTILE, "counts": {"forwarded": 50 * seconds, "denied": seconds,
                    "timeout": 2}},
                {"route": "", "counts": {"no_route": 3}},
            ],
            "upstreams": [{"upstream": "api", "answers": 50 * seconds, "errors": {"timeout": 2},
                "times": [[0.004, 49 * seconds], [0.008, 50 * seconds]]}],
        },
        "reloads": {"ok": 1, "failed": 1, "recent": [
            {"secondsAgo": 5, "ok": false, "rules": 2, "domains": 1, "omitted": 3,
                "unreadable": null, "diagnostics": [{"severity": "error", "file": "shop.yaml",
                    "line": 3, "column": 7, "message": "no such unit", "help": "write hour"}]},
            {"secondsAgo": 3700, "ok": true, "rules": 2, "domains": 1, "omitted": 0,
                "unreadable": null, "diagnostics": []},
        ]},
    })
}

fn keys() -> Value {
    let key = |value: &str, count: u64, error: u64| {
        json!({"domain": "shop", "rule": "user", "entries": [["user", value]], "whole": true,
            "count": count, "error": error})
    };
    let keys = json!([
        key("alice", 1200, 30),
        key(HOSTILE, 40, 0),
        key("日本語", 3, 0)
    ]);
    json!({"hottest": keys, "mostDenied": keys, "decisions": 9000, "denials": 1500, "missed": 4,
        "seconds": 60, "errorMax": 35, "denialErrorMax": 5, "hashed": false})
}

/// The same as it is read.
pub(super) fn snapshot(seconds: u64) -> Snapshot {
    serde_json::from_value(document(seconds)).expect("the sample has every member")
}
