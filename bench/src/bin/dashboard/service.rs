//! The service, and a page of its dashboard.

use std::error::Error;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::Path;
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

use tollgate_testbed::{Folder, Process, free_port};

/// No run exhausts a limit.
const RULES: &str = "domain: d\ndescriptors:\n\
    - {key: user, rate_limit: {unit: hour, requests_per_unit: 4000000000}}\n\
    - {key: client, rate_limit: {unit: hour, requests_per_unit: 4000000000}}\n";
/// How often a service is tried that starts, and how long between.
const TRIED_MOST: usize = 200;
const TRIED_EVERY: Duration = Duration::from_millis(50);

/// A running service, and its files.
pub(crate) struct Service {
    pub(crate) process: Process,
    /// The port of `/v1/check`.
    pub(crate) http: u16,
    pub(crate) admin: u16,
    _folder: Folder,
}

/// The stream of events that an open page reads.
pub(crate) struct Page {
    stream: TcpStream,
    /// Reads it to its end, and counts the snapshots.
    reader: JoinHandle<usize>,
}

// === impl Service ===

impl Service {
    /// Starts `tollgate serve`, and waits until it listens.
    pub(crate) fn start(tollgate: &Path) -> Result<Service, Box<dyn Error>> {
        let folder = Folder::new();
        let (http, admin) = (free_port(), free_port());
        fs::write(folder.file("rules.yaml"), RULES)?;
        let settings = format!(
            "rules: [rules.yaml]\nlisten: {{http: '127.0.0.1:{http}', grpc: null, \
             admin: '127.0.0.1:{admin}'}}\n"
        );
        let file = folder.file("tollgate.yaml");
        fs::write(&file, settings)?;
        let program = tollgate.display().to_string();
        let command = "echo started; exec \"$0\" serve \"$1\" 2>/dev/null".to_owned();
        let process = Process::start("sh", &["-c".to_owned(), command, program, file], "started");
        let service = Service {
            process: process.ok_or("`tollgate serve` does not start")?,
            http,
            admin,
            _folder: folder,
        };
        for port in [http, admin] {
            wait_for(port)?;
        }
        Ok(service)
    }
}

/// Waits until the service listens at the port.
fn wait_for(port: u16) -> Result<(), Box<dyn Error>> {
    for _tried in 0..TRIED_MOST {
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return Ok(());
        }
        sleep(TRIED_EVERY);
    }
    Err("`tollgate serve` does not listen".into())
}

// === impl Page ===

impl Page {
    /// Opens the stream, as a page does.
    pub(crate) fn open(admin: u16) -> Result<Page, Box<dyn Error>> {
        let mut stream = TcpStream::connect(("127.0.0.1", admin))?;
        stream.write_all(b"GET /v1/dashboard/events HTTP/1.1\r\nhost: localhost\r\n\r\n")?;
        let input = stream.try_clone()?;
        let reader = spawn(move || count_snapshots(input));
        Ok(Page { stream, reader })
    }

    /// Closes it; how many snapshots it has got.
    ///
    /// # Errors
    ///
    /// If there was none.
    pub(crate) fn close(self) -> Result<usize, Box<dyn Error>> {
        self.stream.shutdown(Shutdown::Both)?;
        match self.reader.join() {
            Ok(0) | Err(_) => Err("the dashboard sends no snapshots".into()),
            Ok(snapshots) => Ok(snapshots),
        }
    }
}

fn count_snapshots(input: impl Read) -> usize {
    let lines = BufReader::new(input).lines().map_while(Result::ok);
    lines.filter(|line| line == "event: snapshot").count()
}
