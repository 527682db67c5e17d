//! A real `tollgate serve`, and the system's measurements of its process.

use std::fs;
use std::io::{BufRead, BufReader, Result};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tollgate_testbed::{Certificates, Folder};

use crate::target::{ABSENT, LISTENERS, Target};
use crate::upstream::LARGE;

/// How long the service may take to listen.
const LISTENS_WITHIN: Duration = Duration::from_secs(30);
/// The most lines of the log that are kept, to be shown if there are too many.
const LINES_KEPT: usize = 8;
/// How many requests of one address may be in flight to the upstream.
const IN_FLIGHT: u32 = 20;
/// Requests for `/delayed` are held; so many wait for their turn, a second apart.
pub(crate) const DELAYED: u32 = 1_000;
/// Timeouts that are reached in the shortest attack.
const SHORT: &str = "300ms";
/// The one that also bounds how long a well-behaved client may be idle, which it is for a part of
/// that, also on a busy machine.
const SHORT_OF_HEAD: &str = "600ms";
/// Connections of the client beside the idle ones.
const VISITORS: u32 = 100;
/// What a running service needs beside itself.
pub(crate) struct Surroundings<'a> {
    /// The server behind its gateway.
    pub(crate) upstream: SocketAddr,
    /// The one for large responses: the requests of the client do not wait for these.
    pub(crate) large: SocketAddr,
    /// A server that restarts again and again, behind `/restarting`.
    pub(crate) restarting: SocketAddr,
    /// How often that one has restarted.
    pub(crate) restarts: Arc<AtomicU64>,
    /// Those of its listeners with TLS.
    pub(crate) certificates: &'a Certificates,
}

/// Which service is attacked.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    /// With the default bounds.
    Plain,
    /// The same, but for timeouts that are reached in the shortest attack.
    ShortTimeouts,
    /// With the default bounds, and with TLS on the listeners `http` and `gateway`.
    Tls,
    /// With this listener alone, beside that for administrators, and with room for
    /// thousands of connections that are idle for as long as they like.
    Idle(&'static str),
}

/// A running service; killed when dropped.
#[derive(Debug)]
pub(crate) struct Service {
    process: Child,
    pub(crate) target: Target,
    lines: Arc<AtomicUsize>,
    last: Arc<Mutex<Vec<String>>>,
    _folder: Folder,
}

/// How many connections to the only listener are idle.
pub(crate) const IDLE_CONNECTIONS: u32 = 10_000;

// === impl Kind ===

impl Kind {
    fn has(self, listener: &str) -> bool {
        match self {
            Kind::Plain | Kind::ShortTimeouts | Kind::Tls => true,
            Kind::Idle(only) => only == listener || listener == "admin",
        }
    }
}

// === impl Service ===

impl Service {
    /// Starts `program`, with an address space limited to so many MiB, if given.
    #[expect(
        clippy::disallowed_methods,
        reason = "carries only the few lines that name a listener"
    )]
    pub(crate) fn start(
        program: &Path,
        address_space: Option<u64>,
        kind: Kind,
        surroundings: &Surroundings<'_>,
    ) -> Result<Service> {
        let folder = Folder::new();
        fs::write(folder.file("rules.yaml"), rules())?;
        fs::write(folder.file("tollgate.yaml"), settings(kind, surroundings))?;
        let space = address_space.map_or("unlimited".to_owned(), |mib| (mib << 10).to_string());
        let limited = format!("ulimit -v {space} && exec \"$0\" \"$@\"");
        let mut command = Command::new("sh");
        command.args(["-c", &limited]).arg(program).arg("serve");
        command.arg(folder.file("tollgate.yaml"));
        let mut process = command.stderr(Stdio::piped()).spawn()?;
        let stderr = process.stderr.take().expect("asked for above");
        let (lines, last) = (Arc::default(), Arc::<Mutex<Vec<String>>>::default());
        let (send, listening) = mpsc::channel();
        let (counted, kept) = (Arc::clone(&lines), Arc::clone(&last));
        std::thread::spawn(move || follow(BufReader::new(stderr), &counted, &kept, &send));
        let has_tls = matches!(kind, Kind::Tls);
        let authority = has_tls.then(|| surroundings.certificates.authority());
        let target = target(&listening, kind, authority);
        let Some(target) = target else {
            let _ended_already = process.kill();
            let _code = process.wait();
            let last = last
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .join("\n");
            let problem = format!("the service does not listen:\n{last}");
            return Err(std::io::Error::other(problem));
        };
        Ok(Service {
            process,
            target,
            lines,
            last,
            _folder: folder,
        })
    }

    /// Its exit status, if it has ended.
    pub(crate) fn exit_status(&mut self) -> Option<String> {
        let status = self.process.try_wait().ok().flatten()?;
        Some(status.to_string())
    }

    /// Lines of its log so far.
    pub(crate) fn lines(&self) -> usize {
        self.lines.load(Ordering::Relaxed)
    }

    /// The last lines of its log.
    pub(crate) fn last_lines(&self) -> Vec<String> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.clone()
    }

    /// Its resident memory now, in KiB.
    pub(crate) fn resident(&self) -> u64 {
        self.status("VmRSS:")
    }

    /// The peak of resident memory since [`Service::forget_peak`], in KiB.
    pub(crate) fn peak(&self) -> u64 {
        self.status("VmHWM:")
    }

    /// Starts a new measurement of the peak.
    pub(crate) fn forget_peak(&self) -> Result<()> {
        // Documented in proc(5): 5 resets the peak to what is resident now.
        fs::write(format!("/proc/{}/clear_refs", self.process.id()), "5")
    }

    /// Its open files now.
    pub(crate) fn open_files(&self) -> usize {
        let files = fs::read_dir(format!("/proc/{}/fd", self.process.id()));
        files.map_or(0, Iterator::count)
    }

    fn status(&self, name: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.process.id()));
        let status = status.unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let number = line.and_then(|line| line.split_whitespace().next());
        number.and_then(|number| number.parse().ok()).unwrap_or(0)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ended_already = self.process.kill();
        let _code = self.process.wait();
    }
}

fn rules() -> String {
    let queue = 2 * DELAYED;
    format!(
        "domain: d\ndescriptors:\n\
         - {{key: k, rate_limit: 4000000000/day}}\n\
         - {{key: remote_address, rate_limit: 4000000000/day}}\n\
         - {{key: route, value: delayed, rate_limit: {{unit: second, requests_per_unit: 1, \
         algorithm: leaky_bucket, queue: {queue}}}}}\n"
    )
}

/// The settings: defaults, but for the ports, the sizes of the stores, and the requests of one
/// client that may be in flight to the upstream.
fn settings(kind: Kind, surroundings: &Surroundings<'_>) -> String {
    let (cert, key) = surroundings.certificates.identity();
    let tls = match kind {
        Kind::Tls => format!(", tls: {{cert: '{cert}', key: '{key}'}}"),
        Kind::Plain | Kind::ShortTimeouts | Kind::Idle(_) => String::new(),
    };
    let mut listen = String::new();
    for name in LISTENERS {
        let address = match name {
            absent if !kind.has(absent) => "null".to_owned(),
            "http" | "gateway" => format!("{{address: '127.0.0.1:0'{tls}}}"),
            _ => "'127.0.0.1:0'".to_owned(),
        };
        listen += &format!("  {name}: {address}\n");
    }
    let limits = match kind {
        Kind::Idle(_) => {
            let connections = IDLE_CONNECTIONS + VISITORS;
            format!("limits: {{connections: {connections}, header_timeout: 1h}}\n")
        }
        Kind::ShortTimeouts => format!(
            "limits: {{header_timeout: {SHORT_OF_HEAD}, body_timeout: {SHORT}, \
             write_timeout: {SHORT}, ping_interval: {SHORT}}}\n"
        ),
        Kind::Plain | Kind::Tls => String::new(),
    };
    let gateway = match kind.has("gateway") {
        true => gateway(kind, surroundings),
        false => String::new(),
    };
    let redis = match kind.has("redis") {
        true => "redis_protocol: {throttle_keys: 100000}\n",
        false => "",
    };
    format!(
        "rules: [rules.yaml]\n\
         listen:\n{listen}{limits}{gateway}{redis}\
         memory: {{max_keys: 100000}}\n"
    )
}

/// Requests are sent again, because the upstream closes connections that have been idle for
/// seconds, whether or not the next request is on its way.
fn gateway(kind: Kind, surroundings: &Surroundings<'_>) -> String {
    let Surroundings {
        upstream,
        large,
        restarting,
        ..
    } = surroundings;
    let timeouts = match kind {
        Kind::ShortTimeouts => format!("  timeouts: {{body: {SHORT}}}\n"),
        Kind::Plain | Kind::Tls | Kind::Idle(_) => String::new(),
    };
    format!(
        "gateway:\n{timeouts}\
         \x20 domain: d\n\
         \x20 upstreams:\n\
         \x20   api:\n\
         \x20     addresses: ['{upstream}']\n\
         \x20     retries: {{attempts: 2}}\n\
         \x20   large: {{addresses: ['{large}']}}\n\
         \x20   restarting: {{addresses: ['{restarting}']}}\n\
         \x20 in_flight: [{{per: [remote_address], requests: {IN_FLIGHT}}}]\n\
         \x20 routes:\n\
         \x20   - {{name: restarting, match: {{paths: [/restarting]}}, upstream: restarting}}\n\
         \x20   - {{name: large, match: {{paths: [{LARGE}]}}, upstream: large}}\n\
         \x20   - name: delayed\n\
         \x20     match: {{paths: [/delayed]}}\n\
         \x20     upstream: api\n\
         \x20     identity:\n\
         \x20       descriptors:\n\
         \x20         - entries: [{{key: remote_address, from: client_address}}]\n\
         \x20         - entries: [{{key: route, from: {{constant: delayed}}}}]\n\
         \x20   - {{name: other, upstream: api}}\n"
    )
}

/// Reads the log to its end, so that the service never waits.
fn follow(
    log: impl BufRead,
    lines: &AtomicUsize,
    last: &Mutex<Vec<String>>,
    listening: &Sender<String>,
) {
    for line in log.lines().map_while(Result::ok) {
        lines.fetch_add(1, Ordering::Relaxed);
        if line.contains("listening") {
            let _known_already = listening.send(line.clone());
        }
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.len() == LINES_KEPT {
            last.remove(0);
        }
        last.push(line);
    }
}

/// The addresses in the log's lines `listening`, which come in any order.
fn target(listening: &Receiver<String>, kind: Kind, authority: Option<String>) -> Option<Target> {
    let mut words = LISTENERS.map(|name| match kind.has(name) {
        true => String::new(),
        false => ABSENT.to_owned(),
    });
    while words.iter().any(String::is_empty) {
        let line = listening.recv_timeout(LISTENS_WITHIN).ok()?;
        let address = line.split("address=").nth(1)?.split_whitespace().next()?;
        let is_named = |name: &&str| line.replace('"', "").contains(&format!("={name}"));
        let named = LISTENERS.iter().position(is_named)?;
        address.trim_matches('"').clone_into(&mut words[named]);
    }
    Target::new(&words, authority)
}
