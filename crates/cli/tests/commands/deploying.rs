//! The files of `deploy/`, and the metrics that they are about.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use tollgate_testbed::Redis;

use crate::house::{RULES, SETTINGS, Service, ask, directory, exchange};

/// What all of our metrics begin with.
const PREFIX: &str = "tollgate_";
/// What the names of series have that the page leaves out.
const SUFFIXES: [&str; 4] = ["_total", "_bucket", "_count", "_sum"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap()
}

/// The names in backticks of the page about metrics.
fn described() -> BTreeSet<String> {
    let page = read("docs/operating.md");
    let (_, page) = page.split_once("\n## Metrics\n").unwrap();
    let names = page.split('`').skip(1).step_by(2);
    names.map(str::to_owned).collect()
}

/// Whether the page has a metric, by its name or by that of one of its series.
fn is_described(names: &BTreeSet<String>, metric: &str) -> bool {
    let short = metric.strip_prefix(PREFIX).unwrap_or(metric);
    let plain = SUFFIXES
        .iter()
        .filter_map(|suffix| short.strip_suffix(suffix));
    plain
        .chain([short, metric])
        .any(|name| names.contains(name))
}

/// Runs promtool on a file of ours, or on `input`; what it writes to both of its outputs.
fn promtool(words: &[&str], input: &str) -> String {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("input");
    fs::write(&file, input).unwrap();
    let output = Command::new("promtool")
        .args(words)
        .current_dir(root().join("deploy/prometheus"))
        .stdin(File::open(&file).unwrap())
        .output()
        .expect("promtool is installed: `cargo xtask ci` does");
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8(text).unwrap();
    assert!(output.status.success(), "{text}");
    text
}

#[test]
fn alerts_are_valid_and_fire_for_their_cause_alone() {
    promtool(&["check", "rules", "alerts.yaml"], "");
    promtool(&["test", "rules", "alerts.test.yaml"], "");
}

#[test]
fn every_alert_is_described_and_is_about_metrics_that_are() {
    let (alerts, page) = (
        read("deploy/prometheus/alerts.yaml"),
        read("docs/operating.md"),
    );
    let (_, page) = page.split_once("\n## Alerts\n").unwrap();
    let names = alerts
        .lines()
        .filter_map(|line| line.trim().strip_prefix("- alert: "));
    let names: Vec<&str> = names.collect();
    assert!(names.len() >= 8, "{names:?}");
    for name in names {
        assert!(
            page.contains(&format!("\n| `{name}` |")),
            "{name} has no row in Alerts"
        );
    }
    let described = described();
    let is_word = |one: char| one.is_ascii_alphanumeric() || one == '_';
    let words = alerts.split(|one| !is_word(one));
    let metrics: BTreeSet<&str> = words.filter(|word| word.starts_with(PREFIX)).collect();
    assert!(metrics.len() >= 8, "{metrics:?}");
    for metric in metrics {
        assert!(
            is_described(&described, metric),
            "{metric} is not in docs/operating.md"
        );
    }
}

#[test]
fn every_metric_of_a_service_is_described_and_as_promtool_wants_it() {
    let redis = Redis::start();
    let settings = format!(
        "{}store: {{redis: {{url: 'redis://{}', timeout: 5s}}}}\nredis_protocol: {{}}\n\
         telemetry: {{endpoint: 'http://127.0.0.1:1'}}\n\
         gateway: {{domain: d, upstreams: {{api: {{addresses: ['127.0.0.1:1']}}}}}}\n",
        SETTINGS.replace(
            "listen: {",
            "listen: {gateway: '127.0.0.1:0', redis: '127.0.0.1:0', "
        ),
        redis.address()
    );
    let directory = directory(&[("rules.yaml", RULES), ("tollgate.yaml", &settings)]);
    let mut service = Service::start(directory.path());
    let (http, admin) = (service.address("http"), service.address("admin"));
    ask(&http);
    let reply = exchange(&admin, "GET /metrics", "");
    let types = reply
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next());
    let metrics: BTreeSet<&str> = types.collect();
    assert!(metrics.len() > 60, "{metrics:?}");
    assert!(
        metrics.contains("tollgate_store_up")
            && metrics.contains("tollgate_gateway_requests_total")
            && metrics.contains("tollgate_telemetry_spans_lost_total")
    );
    let described = described();
    let missing = metrics
        .iter()
        .filter(|metric| !is_described(&described, metric));
    let missing: Vec<_> = missing.collect();
    assert!(missing.is_empty(), "not in docs/operating.md: {missing:?}");
    // It parses what Prometheus scrapes, and complains about names and texts of help.
    let (_, page) = reply.split_once("\r\n\r\n").unwrap();
    assert_eq!(promtool(&["check", "metrics"], page), "");
}
