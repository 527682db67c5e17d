//! One attack, measured.

use std::fmt;
use std::io::{ErrorKind, Read, Result, Write};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::arguments::{Arguments, CLIENT};
use crate::attacks::Attack;
use crate::course::{self, Course};
use crate::report::Report;
use crate::service::{IDLE_CONNECTIONS, Kind, Service, Surroundings};
use crate::stream::Traffic;

/// How much more memory the service may use than without an attack, in KiB: less than the bound
/// that `docs/operating.md` calculates, which no attack reaches.
const BUDGET_KIB: u64 = 192 << 10;
/// The same of a service whose listeners have TLS, in KiB; `docs/tls.md` has the calculation.
const TLS_BUDGET_KIB: u64 = BUDGET_KIB + (104 << 10);
/// The same for each idle connection, in bytes.
const IDLE_BYTES: u64 = 20_000;
/// The same over gRPC, where about 22 000 are measured: the buffers and tables of HTTP/2 are the
/// library's. 20 000 are wanted, and missed.
const IDLE_GRPC_BYTES: u64 = 23_000;
/// The most memory of a gateway with idle connections and delayed requests, with all that it uses
/// itself, in bytes.
const GATEWAY_BYTES: u64 = 200_000_000;
/// How many more open files than before may stay: connections to the upstream, and those of the
/// client that come and go.
const FILES_KEPT: usize = 16;
/// How much more memory than before may stay in use afterwards, in percent.
const KEPT_PERCENT: u64 = 10;
/// How much a small service may keep in any case, in KiB: pages that its threads have touched.
const KEPT_KIB: u64 = 2 << 10;
/// The most lines that an attack may write into the log.
const LINES_MAX: usize = 100;
/// How long the client runs alone before the attack, so that all memory that every service uses is
/// resident.
const ALONE: Duration = Duration::from_secs(1);
/// The shortest attack that must reach a timeout, also of a slow build on a busy machine.
const LASTS_MIN: Duration = Duration::from_secs(3);
/// How long the tasks of an attack may take to end.
const END_WITHIN: Duration = Duration::from_secs(5);
/// How often memory is measured afterwards.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// The measurements of the service and the client.
#[derive(Debug)]
pub(crate) struct Row {
    name: &'static str,
    address_space: Option<u64>,
    /// How much more memory the service may use than without an attack, in KiB.
    budget: u64,
    /// What the client's p99 must be below.
    p99_bound: Duration,
    client: Report,
    before: u64,
    peak: u64,
    after: u64,
    /// Open files before and after.
    files: [usize; 2],
    course: Course,
    lines: usize,
    last_lines: Vec<String>,
    ended: Option<String>,
}

/// Runs one attack against a service of its own.
#[expect(
    clippy::disallowed_methods,
    reason = "measures a real service, in real time"
)]
pub(crate) fn measure(
    attack: &Attack,
    arguments: &Arguments,
    space: Option<u64>,
    surroundings: &Surroundings<'_>,
) -> Result<Row> {
    let mut service = Service::start(&arguments.tollgate, space, attack.kind, surroundings)?;
    let mut client = start_client(&service)?;
    std::thread::sleep(ALONE);
    let (before, lines) = (service.resident(), service.lines());
    let files = service.open_files();
    service.forget_peak()?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()?;
    let lasts = match attack.kind {
        Kind::ShortTimeouts => arguments.lasts.max(LASTS_MIN),
        Kind::Plain | Kind::Tls | Kind::Idle(_) => arguments.lasts,
    };
    mark(&mut client)?;
    let course = course::run(&runtime, attack, &service, surroundings, lasts);
    mark(&mut client)?;
    let peak = service.peak();
    // Ends every task of the attack, and with them their connections.
    runtime.shutdown_timeout(END_WITHIN);
    let after = wait_until_released(&service, before, files, arguments.settle);
    let files = [files, service.open_files()];
    let client = end_client(&mut client)?;
    Ok(Row {
        name: attack.name,
        address_space: space,
        p99_bound: arguments.p99_bound,
        budget: match attack.kind {
            Kind::Plain | Kind::ShortTimeouts => BUDGET_KIB,
            Kind::Tls => TLS_BUDGET_KIB,
            Kind::Idle(listener) => idle_budget(listener, before, !cfg!(debug_assertions)),
        },
        client,
        before,
        peak,
        after,
        files,
        course,
        lines: service.lines() - lines,
        last_lines: service.last_lines(),
        ended: service.exit_status(),
    })
}

/// The resident memory once it is as low as before, and files are closed, or at the timeout.
#[expect(
    clippy::disallowed_methods,
    reason = "measures a real service, in real time"
)]
fn wait_until_released(service: &Service, before: u64, files: usize, settle: Duration) -> u64 {
    let latest = Instant::now() + settle;
    loop {
        let now = service.resident();
        let is_released = now <= kept_max(before) && service.open_files() <= files + FILES_KEPT;
        if is_released || Instant::now() > latest {
            return now;
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// How much more memory a service with idle connections may use than without them, in KiB. A build
/// without optimisation, as in CI, has larger tasks: it may use a tenth more.
fn idle_budget(listener: &str, before: u64, is_optimised: bool) -> u64 {
    let percent = if is_optimised { 100 } else { 110 };
    let each = |bytes: u64| (bytes * u64::from(IDLE_CONNECTIONS) * percent / 100) >> 10;
    match listener {
        "gateway" => ((GATEWAY_BYTES * percent / 100) >> 10).saturating_sub(before),
        "grpc" => each(IDLE_GRPC_BYTES),
        _ => each(IDLE_BYTES),
    }
}

fn kept_max(before: u64) -> u64 {
    before + (before * KEPT_PERCENT / 100).max(KEPT_KIB)
}

fn start_client(service: &Service) -> Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.arg(CLIENT).args(service.target.words());
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command.spawn()
}

/// Tells the client that the attack begins now, or ends.
fn mark(client: &mut Child) -> Result<()> {
    match &mut client.stdin {
        Some(stdin) => stdin.write_all(b"\n"),
        None => Err(ErrorKind::BrokenPipe.into()),
    }
}

fn end_client(client: &mut Child) -> Result<Report> {
    drop(client.stdin.take());
    let mut text = String::new();
    if let Some(stdout) = client.stdout.as_mut() {
        stdout.read_to_string(&mut text)?;
    }
    client.wait()?;
    Ok(Report::parse(&text))
}

// === impl Row ===

impl Row {
    pub(crate) const HEADINGS: &str = concat!(
        "attack                       space requests errors p50 ms p99 ms max ms",
        "  before    peak   after   log opened  ended     sent     load\n",
        "                               MiB answered                            ",
        "     MiB     MiB     MiB lines                   KiB answered"
    );

    /// The requirements that are not met.
    pub(crate) fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let space = self
            .address_space
            .map_or(String::new(), |mib| format!(" in {mib} MiB"));
        let mut fault = |what: String| faults.push(format!("{}{space}: {what}", self.name));
        if let Some(ended) = &self.ended {
            fault(format!(
                "the service ended: {ended}; {}",
                self.last_lines.join("; ")
            ));
        }
        let of_client = self.client.faults(self.p99_bound);
        of_client.into_iter().for_each(&mut fault);
        if self.peak > self.before + self.budget {
            let grown = (self.peak - self.before) >> 10;
            fault(format!(
                "{grown} MiB more at the peak, {} allowed",
                self.budget >> 10
            ));
        }
        if self.after > kept_max(self.before) {
            fault(format!(
                "{} KiB before, {} KiB after",
                self.before, self.after
            ));
        }
        let [files_before, files_after] = self.files;
        if files_after > files_before + FILES_KEPT {
            fault(format!(
                "{files_before} open files before, {files_after} after"
            ));
        }
        self.course.faults().into_iter().for_each(&mut fault);
        if self.lines >= LINES_MAX {
            fault(format!(
                "{} lines, such as {:?}",
                self.lines,
                self.last_lines.last()
            ));
        }
        faults
    }
}

impl fmt::Display for Row {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report {
            p50,
            p99,
            longest,
            answered,
            errors,
            ..
        } = &self.client;
        let Traffic {
            opened,
            ended,
            sent,
        } = self.course.traffic;
        let load = self.course.answered;
        let load = load.map_or("-".to_owned(), |answered| answered.to_string());
        let space = self
            .address_space
            .map_or("-".to_owned(), |mib| mib.to_string());
        let millis = |micros: u64| format!("{}.{}", micros / 1000, micros % 1000 / 100);
        let mib = |kib: u64| format!("{}.{}", kib >> 10, (kib & 1023) * 10 / 1024);
        write!(
            f,
            "{:<28} {space:>5} {answered:>8} {errors:>6} {:>6} {:>6} {:>6} {:>7} {:>7} {:>7} \
             {:>5} {opened:>6} {ended:>6} {:>8} {load:>8}",
            self.name,
            millis(*p50),
            millis(*p99),
            millis(*longest),
            mib(self.before),
            mib(self.peak),
            mib(self.after),
            self.lines,
            sent >> 10,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::course::tests::course;

    fn row() -> Row {
        Row {
            name: "test",
            address_space: Some(512),
            budget: BUDGET_KIB,
            p99_bound: Duration::from_millis(50),
            client: Report::parse("900 2100 3000 30 0 \n"),
            before: 20 << 10,
            peak: 40 << 10,
            after: 21 << 10,
            files: [30, 31],
            course: course(),
            lines: 3,
            last_lines: Vec::new(),
            ended: None,
        }
    }

    #[test]
    fn idle_connections_have_a_budget_each_and_the_gateway_one_in_all() {
        let budget = |listener| idle_budget(listener, 16 << 10, true);
        assert_eq!(budget("http"), 195_312);
        assert_eq!(budget("grpc"), 224_609);
        assert_eq!(budget("gateway"), 195_312 - (16 << 10));
        assert_eq!(idle_budget("http", 0, false), 214_843);
    }

    #[test]
    fn every_requirement_can_be_missed() {
        assert_eq!(row().faults(), [""; 0]);
        let missed: [fn(&mut Row); 9] = [
            |row| row.ended = Some("aborted".to_owned()),
            |row| row.client.errors = 1,
            |row| row.client.answered = 0,
            |row| row.p99_bound = Duration::from_micros(row.client.p99),
            |row| row.peak = row.before + BUDGET_KIB + 1,
            |row| row.after = row.before + KEPT_KIB + 1,
            |row| row.lines = LINES_MAX,
            |row| row.files[1] = row.files[0] + FILES_KEPT + 1,
            |row| row.course.traffic.opened = 0,
        ];
        for miss in missed {
            let mut row = row();
            miss(&mut row);
            assert_eq!(row.faults().len(), 1, "{row:?}");
        }
    }
}
