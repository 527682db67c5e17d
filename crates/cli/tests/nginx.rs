//! A real nginx with the configuration of `examples/nginx`, which asks a real `tollgate serve`
//! about the requests of a real client, curl.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::Command;

use tollgate_testbed::{Folder, Process};

/// How often servers are started when another process has taken a port.
const STARTS_TRIED: usize = 5;
/// How long a client may take, in seconds. None waits for anything, so this is generous.
const SECONDS_MAX: &str = "60";
/// The addresses in the examples: of nginx, of the site behind it, and of Tollgate.
const ADDRESSES: [&str; 4] = [
    "127.0.0.1:10000",
    "127.0.0.1:10001",
    "127.0.0.1:8080",
    "127.0.0.1:6070",
];
/// What nginx logs last before it serves.
const NGINX_IS_READY: &str = "getrlimit";

/// nginx in front of a site, and Tollgate beside it.
struct Site {
    port: u16,
    folder: Folder,
    tollgate: Process,
    _nginx: Process,
}

/// What a client got.
#[derive(Debug)]
struct Reply {
    status: u16,
    head: String,
    body: String,
}

// === impl Site ===

impl Site {
    fn start() -> Site {
        Site::with(|text, _| text)
    }

    /// With a change of `site.conf` and `tollgate.yaml`, which knows the folder of both.
    fn with(change: impl Fn(String, &Folder) -> String) -> Site {
        let started = (0..STARTS_TRIED).find_map(|_| Site::launch(&change));
        started.expect("nginx and tollgate start: `cargo xtask ci` installs nginx")
    }

    /// `None` if another process has taken a port.
    fn launch(change: &impl Fn(String, &Folder) -> String) -> Option<Site> {
        let ports = free_ports();
        let folder = Folder::new();
        for name in ["nginx.conf", "site.conf", "tollgate.yaml", "rules.yaml"] {
            let mut text = fs::read_to_string(examples().join(name)).unwrap();
            if matches!(name, "site.conf" | "tollgate.yaml") {
                text = change(text, &folder);
            }
            for (named, free) in ADDRESSES.iter().zip(ports) {
                text = text.replace(named, &format!("127.0.0.1:{free}"));
            }
            fs::write(folder.file(name), text).unwrap();
        }
        let serve = [env!("CARGO_BIN_EXE_tollgate"), "serve"];
        let tollgate = start(
            &[&serve[..], &[&folder.file("tollgate.yaml")]].concat(),
            "listening",
        )?;
        let prefix = folder.path().to_str().unwrap();
        let nginx = start(&["nginx", "-p", prefix, "-c", "nginx.conf"], NGINX_IS_READY)?;
        Some(Site {
            port: ports[0],
            folder,
            tollgate,
            _nginx: nginx,
        })
    }

    /// The response to a request from an address of the loopback network, with more arguments of
    /// curl.
    fn ask(&self, from: u8, target: &str, arguments: &[&str]) -> Reply {
        let mut curl = Command::new("curl");
        let url = format!("http://127.0.0.1:{}{target}", self.port);
        let from = format!("127.0.0.{from}");
        curl.args(["--silent", "--include", "--path-as-is", "--globoff"])
            .args([
                "--max-time",
                SECONDS_MAX,
                "--noproxy",
                "*",
                "--interface",
                &from,
            ])
            .args(arguments)
            .arg(url);
        let output = curl.output().expect("curl is installed");
        let text = String::from_utf8(output.stdout).unwrap();
        let (head, body) = text
            .split_once("\r\n\r\n")
            .unwrap_or_else(|| panic!("{text:?}"));
        Reply {
            status: head.split(' ').nth(1).unwrap().parse().unwrap(),
            head: head.to_owned(),
            body: body.to_owned(),
        }
    }

    /// The statuses of requests for these targets.
    fn statuses(&self, from: u8, targets: &[&str], arguments: &[&str]) -> Vec<u16> {
        let targets = targets.iter();
        let asked = targets.map(|target| self.ask(from, target, arguments).status);
        asked.collect()
    }
}

/// The files that the documentation shows.
fn examples() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/nginx"))
}

/// Free ports, all different.
fn free_ports() -> [u16; 4] {
    let open = ADDRESSES.map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    open.map(|one| one.local_addr().unwrap().port())
}

/// Starts a program that logs to standard error. Debian has nginx where only root's shells look.
fn start(command: &[&str], ready: &str) -> Option<Process> {
    let script = r#"PATH="$PATH:/usr/sbin" exec "$@" 2>&1"#;
    let arguments = ["-c", script, "sh"]
        .into_iter()
        .chain(command.iter().copied());
    let arguments: Vec<String> = arguments.map(str::to_owned).collect();
    Process::start("sh", &arguments, ready)
}

// === impl Reply ===

impl Reply {
    fn header(&self, name: &str) -> Option<&str> {
        let mut lines = self.head.lines();
        lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

#[test]
fn clients_see_the_site_and_then_429_with_the_time_to_retry() {
    let site = Site::start();
    for remaining in ["4", "3", "2", "1", "0"] {
        let reply = site.ask(2, "/", &[]);
        assert_eq!(
            (reply.status, reply.body.as_str()),
            (200, "hello\n"),
            "{reply:?}"
        );
        let expected = format!("\"remote_address\";r={remaining};t=");
        let found = reply.header("RateLimit").unwrap();
        assert!(found.starts_with(&expected), "{found}");
        let policy = Some("\"remote_address\";q=5;w=3600");
        assert_eq!(reply.header("RateLimit-Policy"), policy);
        assert_eq!(reply.header("Retry-After"), None);
    }
    let denied = site.ask(2, "/", &[]);
    assert_eq!(denied.status, 429, "{denied:?}");
    let retry_after: u64 = denied.header("Retry-After").unwrap().parse().unwrap();
    assert!((1..=3600).contains(&retry_after), "{denied:?}");
    let found = denied.header("RateLimit").unwrap();
    assert!(found.starts_with("\"remote_address\";r=0;t="), "{found}");
    // Another client has units of its own.
    assert_eq!(site.ask(3, "/", &[]).status, 200);
}

/// Rows 1 to 4 and 20 of the list of known ways round a rate limiter, and those of an
/// `auth_request`.
#[test]
fn no_header_of_a_client_is_believed() {
    let forged = [
        "X-Forwarded-For: 10.0.0.N",
        "X-Forwarded-For:\nX-Forwarded-For: 10.0.0.N",
        "X-Real-IP: 10.0.0.N",
        "X-Real-IP: <script>N",
        "CF-Connecting-IP: 10.0.0.N",
        "Forwarded: for=10.0.0.N",
        "X-Original-URI: /N",
        "X-Original-Method: PUT",
        "X-Forwarded-Uri: /N",
        "X-HTTP-Method-Override: PUT",
        "Connection: X-Real-IP, X-Original-URI",
        "Content-Type: application/grpc",
        "Content-Encoding: gzip",
    ];
    let site = Site::start();
    for (index, headers) in forged.iter().enumerate() {
        let client = u8::try_from(index).unwrap() + 10;
        let mut statuses = Vec::new();
        for n in 0..6 {
            let headers = headers.replace('N', &n.to_string());
            let lines = headers.lines().flat_map(|line| ["--header", line]);
            let arguments: Vec<&str> = lines.collect();
            statuses.push(site.ask(client, "/", &arguments).status);
        }
        assert_eq!(statuses, [200, 200, 200, 200, 200, 429], "{headers}");
    }
}

/// Row 14 of the same list.
#[test]
fn a_path_is_the_same_however_it_is_written() {
    let site = Site::start();
    let variants = [
        "//login",
        "/./login",
        "/a/../login",
        "/%6cogin",
        "/login/",
        "/login?x=1",
        "/login;x=1",
    ];
    for (index, variant) in variants.iter().enumerate() {
        let client = u8::try_from(index).unwrap() + 10;
        let header = ["--header", "X-Original-URI: /free"];
        let found = site.statuses(client, &["/login", variant, "/login", variant], &header);
        assert_eq!(found, [200, 200, 429, 429], "{variant}");
    }
    // Servers disagree about these, so they are denied, and not with an error of the server.
    let found = site.statuses(2, &["/a//../login", "/a/..%2flogin", "/x\\..\\login"], &[]);
    assert_eq!(found, [403, 403, 403]);
}

#[test]
fn methods_and_bodies_reach_the_site_and_not_tollgate() {
    let site = Site::start();
    let body = "x".repeat(300_000);
    let folder = Folder::new();
    let file = folder.file("body");
    fs::write(&file, body).unwrap();
    let file = format!("@{file}");
    for method in ["POST", "PUT", "PATCH"] {
        let upload = ["--request", method, "--data-binary", &file];
        assert_eq!(site.ask(2, "/upload", &upload).body, "hello\n", "{method}");
    }
    let chunked = [
        "--header",
        "Transfer-Encoding: chunked",
        "--data-binary",
        &file,
    ];
    assert_eq!(site.ask(2, "/upload", &chunked).status, 200);
    assert_eq!(site.ask(2, "/", &["--head"]).status, 200);
    assert_eq!(
        site.ask(2, "/upload", &["--data-binary", &file]).status,
        429
    );
}

#[test]
fn headers_that_nginx_accepts_are_accepted() {
    let site = Site::start();
    let long = format!("X-Long: {}", "x".repeat(8000));
    let headers: Vec<&str> = [long.as_str(); 3]
        .iter()
        .flat_map(|line| ["--header", *line])
        .collect();
    assert_eq!(site.ask(2, "/", &headers).status, 200);
}

/// Tollgate trusts what comes over its Unix socket, as it trusts proxies on this host.
#[test]
fn nginx_asks_over_a_unix_socket() {
    let site = Site::with(|text, folder| {
        let socket = folder.file("tollgate.sock");
        text.replace("server 127.0.0.1:8080;", &format!("server unix:{socket};"))
            .replace("http: '127.0.0.1:8080'", &format!("http: 'unix:{socket}'"))
    });
    assert_eq!(
        site.statuses(2, &["/"; 6], &[]),
        [200, 200, 200, 200, 200, 429]
    );
    let forged = ["--header", "X-Real-IP: 127.0.0.2"];
    assert_eq!(site.ask(3, "/", &forged).status, 200);
    assert!(Path::new(&site.folder.file("tollgate.sock")).exists());
}

#[test]
fn without_tollgate_requests_fail_unless_nginx_allows_them() {
    let allow = |conf: String, _: &Folder| {
        let lines = conf.lines().map(|line| {
            let setting = line.trim_start().strip_prefix('#');
            let setting = setting.filter(|rest| !rest.starts_with(' '));
            format!("{}\n", setting.unwrap_or(line))
        });
        lines.collect()
    };
    let (closed, open) = (Site::start(), Site::with(allow));
    for site in [&closed, &open] {
        assert_eq!(
            site.statuses(2, &["/"; 6], &[]),
            [200, 200, 200, 200, 200, 429]
        );
        site.tollgate.signal("KILL");
    }
    let statuses = |site: &Site| site.statuses(3, &["/", "/login"], &[]);
    assert_eq!(statuses(&closed), [500, 500]);
    assert_eq!(statuses(&open), [200, 200]);
}
