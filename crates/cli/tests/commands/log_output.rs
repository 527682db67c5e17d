//! A log that cannot be written loses lines; decisions, reloads and signals go on.

use std::fs::{self, File};
use std::io::{PipeWriter, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::yield_now;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tollgate_testbed::free_port;

use crate::house::{RULES, ask, directory, exchange, tollgate};

/// Longer than anything takes, also on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How often it is started on other ports if one is taken.
const STARTED: usize = 20;
const RELOADS: usize = 2;
/// More domains than lines wait for a reader: each is a line of the log.
const DOMAINS: usize = 5_000;

/// A service whose log nobody reads, so that its addresses have to be known.
struct Service {
    process: Child,
    http: String,
    admin: String,
    directory: TempDir,
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Service {
    fn start(format: &str, rules: &str, log: impl Fn() -> Stdio) -> Service {
        (0..STARTED)
            .find_map(|_| Service::try_start(format, rules, log()))
            .expect("one of its ports was free")
    }

    /// `None` if another process took one of the ports.
    fn try_start(format: &str, rules: &str, log: Stdio) -> Option<Service> {
        let [http, admin] = [(); 2].map(|()| format!("127.0.0.1:{}", free_port()));
        let settings = format!(
            "rules: rules.yaml\nlisten: {{grpc: null, http: '{http}', admin: '{admin}'}}\n\
             log: {{format: {format}}}\n"
        );
        let directory = directory(&[("rules.yaml", rules), ("tollgate.yaml", &settings)]);
        let mut command = tollgate(directory.path());
        let command = command.arg("serve").stdout(Stdio::piped()).stderr(log);
        let process = command.spawn().unwrap();
        let mut service = Service {
            process,
            http,
            admin,
            directory,
        };
        soon("the service starts", || {
            let is_up = std::net::TcpStream::connect(&service.admin).is_ok();
            is_up || service.process.try_wait().unwrap().is_some()
        });
        let is_up = service.process.try_wait().unwrap().is_none();
        is_up.then_some(service)
    }

    fn signal(&self, name: &str) {
        let pid = self.process.id().to_string();
        let sent = Command::new("kill").args([name, &pid]).status().unwrap();
        assert!(sent.success());
    }

    fn metric(&self, series: &str) -> u64 {
        let metrics = exchange(&self.admin, "GET /metrics", "");
        let mut lines = metrics.lines();
        let value = lines.find_map(|line| line.strip_prefix(series)?.trim().parse().ok());
        value.unwrap_or_else(|| panic!("no {series} in {metrics}"))
    }

    /// Decides, reloads, and ends at a signal, while lines are lost for this reason.
    fn goes_on(mut self, reason: &str) {
        let lost = format!("tollgate_log_dropped_total{{reason=\"{reason}\"}}");
        assert!(ask(&self.http).starts_with("HTTP/1.1 200"));
        let done = r#"tollgate_reloads_total{outcome="ok"}"#;
        for _ in 0..RELOADS {
            let before = self.metric(done);
            self.signal("-HUP");
            soon("the reload", || self.metric(done) > before);
        }
        // A change of a file is noticed as well.
        let before = self.metric(done);
        write_rules(self.directory.path(), &RULES.replace("1/day", "5/day"));
        soon("the reload of a changed file", || {
            self.metric(done) > before
        });
        soon("lost lines", || self.metric(&lost) > 0);
        assert!(ask(&self.http).starts_with("HTTP/1.1 200"));
        self.signal("-TERM");
        let mut status = None;
        soon("the end", || {
            status = self.process.try_wait().unwrap();
            status.is_some()
        });
        assert_eq!(status.unwrap().code(), Some(0));
        let mut output = String::new();
        let stdout = self.process.stdout.as_mut().unwrap();
        stdout.read_to_string(&mut output).unwrap();
        assert_eq!(output, "");
    }
}

fn write_rules(directory: &Path, rules: &str) {
    fs::write(directory.join("rules.yaml"), rules).unwrap();
}

fn soon(what: &str, mut has_happened: impl FnMut() -> bool) {
    let latest = Instant::now() + TIMEOUT;
    while !has_happened() {
        assert!(Instant::now() < latest, "{what}: not after {TIMEOUT:?}");
        yield_now();
    }
}

/// A pipe that holds as much as it can, and its reader, who does not read.
fn full_pipe() -> (std::io::PipeReader, PipeWriter) {
    let (reader, mut writer) = std::io::pipe().unwrap();
    // A pipe of Linux holds 64 KiB.
    writer.write_all(&[b'\n'; 1 << 16]).unwrap();
    (reader, writer)
}

#[test]
fn a_log_on_a_full_disk_stops_nothing() {
    for format in ["text", "json"] {
        let full = || {
            let disk = File::options().write(true).open("/dev/full");
            disk.unwrap().into()
        };
        Service::start(format, RULES, full).goes_on("write_error");
    }
}

#[test]
fn a_log_whose_reader_is_gone_stops_nothing() {
    let closed = || std::io::pipe().unwrap().1.into();
    Service::start("json", RULES, closed).goes_on("write_error");
}

#[test]
fn a_log_whose_reader_does_not_read_stops_nothing() {
    let (_reader, writer) = full_pipe();
    let stalled = || writer.try_clone().unwrap().into();
    let other = |number| format!("---\ndomain: d{number}\ndescriptors: [{{key: k}}]\n");
    let rules = RULES.to_owned() + &(0..DOMAINS).map(other).collect::<String>();
    Service::start("text", &rules, stalled).goes_on("queue_full");
}
