//! A site behind a proxy, which asks Tollgate before it passes a request on.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;

use tollgate_testbed::{Folder, Process};

use crate::client::{self, Reply};
use crate::proxy::{self, Proxy};

/// How often servers are started when another process has taken a port.
const STARTS_TRIED: usize = 5;
/// How often a proxy is asked until it has read its configuration.
const ASKED_MAX: usize = 2_000;
/// The last byte of an address that no test uses.
const NOBODY: u8 = 254;
/// The addresses in the examples: of the proxy, of the site behind it, and of Tollgate.
const ADDRESSES: [&str; 4] = [
    "127.0.0.1:10000",
    "127.0.0.1:10001",
    "127.0.0.1:8080",
    "127.0.0.1:6070",
];
/// The same as Caddy writes them: the addresses are in `bind`.
const PORTS: [&str; 2] = ["http://:10000", "http://:10001"];

/// The proxy, the site, and Tollgate beside them.
pub(crate) struct Site {
    port: u16,
    pub(crate) folder: Folder,
    pub(crate) tollgate: Process,
    _proxy: Vec<Process>,
}

// === impl Site ===

impl Site {
    pub(crate) fn start(proxy: Proxy) -> Site {
        Site::with(proxy, |text, _| text)
    }

    /// With a change of the files, which knows their folder.
    pub(crate) fn with(proxy: Proxy, change: impl Fn(String, &Folder) -> String) -> Site {
        let started = (0..STARTS_TRIED).find_map(|_| Site::launch(proxy, &change));
        started.expect("the proxy and tollgate start: `cargo xtask ci` installs the proxies")
    }

    /// `None` if another process has taken a port.
    fn launch(proxy: Proxy, change: &impl Fn(String, &Folder) -> String) -> Option<Site> {
        let ports = free_ports();
        let folder = Folder::new();
        let examples = proxy.files().iter().map(|file| {
            let name = Path::new(file).file_name().unwrap().to_str().unwrap();
            (name, fs::read_to_string(examples().join(file)).unwrap())
        });
        let more = proxy.more().map(|(name, text)| (name, text.to_owned()));
        for (name, text) in examples.chain(more) {
            let mut text = change(text, &folder).replace("../nginx/", "");
            for (named, free) in ADDRESSES.iter().zip(ports) {
                text = text.replace(named, &format!("127.0.0.1:{free}"));
            }
            for (named, free) in PORTS.iter().zip(ports) {
                text = text.replace(named, &format!("http://:{free}"));
            }
            fs::write(folder.file(name), text).unwrap();
        }
        let home = folder.path().to_str().unwrap();
        let serve = [env!("CARGO_BIN_EXE_tollgate"), "serve", "tollgate.yaml"];
        let tollgate = proxy::start(home, &serve, "listening")?;
        let processes = proxy.start(&folder)?;
        let site = Site {
            port: ports[0],
            folder,
            tollgate,
            _proxy: processes,
        };
        let mut asked = (0..ASKED_MAX).map(|_| site.ask(NOBODY, "/", &[]).status);
        asked.any(|status| status != 404).then_some(site)
    }

    /// The response to a request from an address of the loopback network, with more arguments of
    /// curl.
    pub(crate) fn ask(&self, from: u8, target: &str, arguments: &[&str]) -> Reply {
        client::ask(self.port, from, target, arguments)
    }

    /// The statuses of requests for these targets.
    pub(crate) fn statuses(&self, from: u8, targets: &[&str], arguments: &[&str]) -> Vec<u16> {
        let targets = targets.iter();
        let asked = targets.map(|target| self.ask(from, target, arguments).status);
        asked.collect()
    }

    /// The statuses of six requests, each with these headers, in which `N` is another number each
    /// time; a line is a header.
    pub(crate) fn forge(&self, from: u8, headers: &str) -> Vec<u16> {
        let numbers = 0..6;
        let statuses = numbers.map(|n| {
            let headers = headers.replace('N', &n.to_string());
            let lines = headers.lines().flat_map(|line| ["--header", line]);
            let arguments: Vec<&str> = lines.collect();
            self.ask(from, "/", &arguments).status
        });
        statuses.collect()
    }
}

/// The files that the documentation shows.
fn examples() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples"))
}

/// Free ports, all different.
fn free_ports() -> [u16; 4] {
    let open = ADDRESSES.map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    open.map(|one| one.local_addr().unwrap().port())
}
