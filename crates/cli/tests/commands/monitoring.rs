//! The files of `deploy/` on a real Prometheus that scrapes a real service.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;
use tollgate_testbed::{Certificates, Redis};

use crate::house::{RULES, Service, ask, directory, exchange};
use crate::prometheus::Prometheus;

/// How long anything may take, on a machine with much other work.
const LIMIT: Duration = Duration::from_secs(180);
/// How many names clients choose.
const NAMES: usize = 50;
/// What begins the paragraph of docs/operating.md about series that begin with an event.
const LATER: &str = "\nThere are no series before the first event of ";
/// What the names of our metrics and of the process's begin with, and Prometheus's metric of a
/// target.
const PREFIXES: [&str; 3] = ["tollgate_", "process_", "up{"];
/// Rules of the gateway's domain, which allow all that it is asked here.
const GATEWAY_RULES: &str = "domain: g\ndescriptors: [{key: client, rate_limit: 1000000/day}]\n";

/// Settings with all listeners, TLS at one of them, and the addresses of Redis and an upstream.
const SETTINGS: &str = r"
rules: [rules.yaml, gateway.yaml]
log: {format: json}
listen:
  grpc: {address: '127.0.0.1:0', tls: {cert: cert.pem, key: key.pem}}
  http: '127.0.0.1:0'
  gateway: '127.0.0.1:0'
  redis: '127.0.0.1:0'
  admin: '127.0.0.1:0'
redis_protocol: {}
store: {redis: {url: 'redis://STORE', timeout: 5s}}
gateway:
  domain: g
  upstreams: {api: {addresses: ['UPSTREAM'], health_check: {path: /}}}
  lists: {allow: [allow.txt]}
  identity: {descriptors: [{entries: [{key: client, from: client_address}]}]}
";

/// A service with Redis and an upstream.
struct Site {
    redis: Redis,
    directory: TempDir,
    service: Service,
    http: String,
    gateway: String,
    admin: String,
}

// === impl Site ===

impl Site {
    /// Starts the service and what it needs, on free ports.
    fn start() -> Site {
        let (redis, certificates) = (Redis::start(), Certificates::new());
        let (cert, key) = certificates.identity();
        let [cert, key] = [cert, key].map(|path| fs::read_to_string(path).unwrap());
        let settings = SETTINGS.replace("STORE", &redis.address());
        let directory = directory(&[
            ("tollgate.yaml", &settings.replace("UPSTREAM", &upstream())),
            ("rules.yaml", RULES),
            ("gateway.yaml", GATEWAY_RULES),
            ("allow.txt", "192.0.2.1\n"),
            ("cert.pem", &cert),
            ("key.pem", &key),
        ]);
        let mut service = Service::start(directory.path());
        // The order in which they are logged.
        let (http, gateway, admin) = (
            service.address("http"),
            service.address("gateway"),
            service.address("admin"),
        );
        Site {
            redis,
            directory,
            service,
            http,
            gateway,
            admin,
        }
    }

    /// A Prometheus that scrapes it, with our alerts.
    fn prometheus(&self) -> Prometheus {
        let alerts = root().join("deploy/prometheus/alerts.yaml");
        Prometheus::start(&self.admin, &alerts.display().to_string())
    }

    /// Has it read rules, a certificate and a list that are none.
    fn break_files(&self) {
        for name in ["rules.yaml", "cert.pem", "allow.txt"] {
            fs::write(self.directory.path().join(name), "domain: [\n").unwrap();
        }
        self.service.signal("-HUP");
    }

    /// Requests to each listener that a client uses, one of them for a domain without rules.
    fn traffic(&self) {
        ask(&self.http);
        let unknown = r#"{"domain":"none","descriptors":[{"k":"v"}]}"#;
        exchange(&self.http, "POST /v1/check", unknown);
        exchange(&self.gateway, "GET /", "");
    }

    /// Sends requests until it is so.
    fn wait<T>(&self, what: &str, mut found: impl FnMut() -> Option<T>) -> T {
        let start = Instant::now();
        loop {
            self.traffic();
            if let Some(found) = found() {
                return found;
            }
            assert!(start.elapsed() < LIMIT, "still no {what}");
        }
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The address of an upstream that answers each connection once, until the tests have ended.
fn upstream() -> String {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let head = BufReader::new(&stream).lines().map_while(Result::ok);
            head.take_while(|line| !line.is_empty()).for_each(drop);
            let answer = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
            // The gateway may have gone away, when its test has ended.
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    address.to_string()
}

/// Requests with this name wherever a client may choose one.
fn ask_with(site: &Site, name: &str) {
    for body in [
        format!(r#"{{"domain":"{name}","descriptors":[{{"k":"v"}}]}}"#),
        format!(r#"{{"domain":"d","descriptors":[{{"{name}":"v"}}]}}"#),
        format!(r#"{{"domain":"d","descriptors":[{{"k":"{name}"}}]}}"#),
    ] {
        exchange(&site.http, "POST /v1/check", &body);
    }
    for address in [&site.http, &site.gateway, &site.admin] {
        exchange(address, &format!("GET /{name}?{name}"), "");
        exchange(address, &format!("{name} /"), "");
    }
}

/// The names and labels of all series that a service has.
fn series(site: &Site) -> BTreeSet<String> {
    let page = exchange(&site.admin, "GET /metrics", "");
    let lines = page.lines().filter(|line| line.starts_with("tollgate_"));
    let series = lines.map(|line| line.rsplit_once(' ').unwrap().0.to_owned());
    series.collect()
}

/// The metrics whose series begin with an event that does not happen here, as the page has them.
fn later() -> BTreeSet<String> {
    let page = fs::read_to_string(root().join("docs/operating.md")).unwrap();
    let (_, page) = page.split_once(LATER).unwrap();
    let (paragraph, _) = page.split_once("\n\n").unwrap();
    let names = paragraph.split('`').skip(1).step_by(2);
    names.map(str::to_owned).collect()
}

/// The selectors of an expression: names of metrics, with what is in braces behind them.
fn selectors(expression: &str) -> Vec<&str> {
    let is_word = |one: char| one.is_ascii_alphanumeric() || one == '_';
    let starts = PREFIXES
        .iter()
        .flat_map(|prefix| expression.match_indices(prefix))
        .filter(|(start, _)| !expression[..*start].ends_with(is_word));
    let selector = |start: usize| {
        let rest = &expression[start..];
        let name = rest.find(|one| !is_word(one)).unwrap_or(rest.len());
        let braces = rest[name..].starts_with('{').then(|| rest.find('}'));
        let end = braces.flatten().map_or(name, |brace| brace + 1);
        &rest[..end]
    };
    starts.map(|(start, _)| selector(start)).collect()
}

/// Whether the page says that a selector's series begin with an event.
fn is_later(later: &BTreeSet<String>, selector: &str) -> bool {
    let name = selector.split('{').next().unwrap();
    let name = name.strip_prefix("tollgate_").unwrap_or(name);
    later.contains(name.strip_suffix("_total").unwrap_or(name))
}

/// Whether some sample is a number. A quotient or a quantile of no events is none.
fn has_number(samples: &[Value]) -> bool {
    let values = samples
        .iter()
        .filter_map(|sample| sample["value"][1].as_str());
    values
        .filter_map(|value| value.parse().ok())
        .any(f64::is_finite)
}

/// Waits until all series that an expression reads are there, except those that begin with an event
/// that does not happen here. Returns whether there is such an exception.
fn wait_for_series(site: &Site, prometheus: &Prometheus, expression: &str) -> bool {
    let later = later();
    let selectors = selectors(expression);
    assert!(!selectors.is_empty(), "{expression} is about no metric");
    let (excepted, read): (Vec<&str>, Vec<&str>) = selectors
        .into_iter()
        .partition(|selector| is_later(&later, selector));
    for selector in read {
        site.wait(selector, || {
            let samples = prometheus.query(selector).unwrap();
            (!samples.is_empty()).then_some(())
        });
    }
    !excepted.is_empty()
}

/// Waits until an alert is in a state, and all of them are evaluated without error.
fn wait_for_alert(site: &Site, prometheus: &Prometheus, name: &str, state: &str) {
    site.wait(&format!("{name} {state}"), || {
        let rules = prometheus.rules();
        assert!(rules.len() >= 8, "{rules:?}");
        let errors = rules
            .iter()
            .find(|rule| rule["health"] == "err" || rule["lastError"] != Value::Null);
        assert!(errors.is_none(), "{errors:?}");
        let evaluated = rules.iter().all(|rule| rule["health"] == "ok");
        let alert = rules.iter().find(|rule| rule["name"] == name).unwrap();
        (evaluated && alert["state"] == state).then_some(())
    });
}

/// The panels' expressions, with the values of the variables that Grafana would put in.
fn expressions(dashboard: &Value) -> Vec<String> {
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels
        .iter()
        .filter_map(|panel| panel["targets"].as_array());
    let expressions = targets.flatten().map(|target| {
        assert_eq!(target["datasource"]["uid"], "${datasource}", "{target}");
        let text = target["expr"].as_str().unwrap();
        let text = text.replace("$instance", ".*");
        let text = text.replace("$__rate_interval", "1m");
        assert!(!text.contains('$'), "{text} has a variable without a value");
        text
    });
    expressions.collect()
}

#[test]
fn alerts_are_evaluated_on_the_metrics_of_a_service() {
    let site = Site::start();
    let prometheus = site.prometheus();
    site.break_files();
    for (what, state) in [
        ("Certificate", "pending"),
        ("Rules", "firing"),
        ("Lists", "firing"),
    ] {
        let alert = format!("Tollgate{what}Rejected");
        wait_for_alert(&site, &prometheus, &alert, state);
    }
    for rule in prometheus.rules() {
        let expression = rule["query"].as_str().unwrap();
        wait_for_series(&site, &prometheus, expression);
        prometheus.query(expression).unwrap();
    }
    wait_for_alert(&site, &prometheus, "TollgateStoreUnavailable", "inactive");
    site.redis.kill();
    wait_for_alert(&site, &prometheus, "TollgateStoreUnavailable", "pending");
}

#[test]
fn every_panel_of_the_dashboard_shows_the_metrics_of_a_service() {
    let site = Site::start();
    let prometheus = site.prometheus();
    let text = fs::read_to_string(root().join("deploy/grafana/tollgate.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let expressions = expressions(&dashboard);
    site.wait("scrape", || prometheus.query("tollgate_rules").ok()?.pop());
    for metric in later() {
        let series = format!("{{__name__=~'tollgate_{metric}(_total)?'}}");
        let samples = prometheus.query(&series).unwrap();
        assert!(samples.is_empty(), "without an event: {samples:?}");
    }
    assert!(expressions.len() >= 30, "{expressions:?}");
    for expression in expressions {
        let has_exception = wait_for_series(&site, &prometheus, &expression);
        prometheus.query(&expression).unwrap();
        if !has_exception {
            site.wait(&expression, || {
                let samples = prometheus.query(&expression).unwrap();
                has_number(&samples).then_some(())
            });
        }
    }
}

#[test]
fn names_that_clients_choose_make_no_series() {
    let site = Site::start();
    ask_with(&site, "NAME0");
    let first = series(&site);
    assert!(first.iter().any(|one| one.contains("unknown_domain")));
    for number in 1..=NAMES {
        ask_with(&site, &format!("NAME{number}"));
    }
    let last = series(&site);
    let more: Vec<_> = last.difference(&first).collect();
    assert!(more.is_empty(), "{more:?}");
}
