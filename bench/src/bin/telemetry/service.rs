//! A service with some settings of `telemetry`, as it is or under `valgrind`.

use std::error::Error;
use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use tollgate_bench::callgrind::read_total;
use tollgate_bench::server_process::end;
use tollgate_testbed::collector::Collector;
use tollgate_testbed::{Folder, Process, free_port};

use crate::client::{Client, Load};

/// No run exhausts it.
const RULES: &str = "domain: d\ndescriptors: [{key: user, rate_limit: {unit: day, \
    requests_per_unit: 4000000000, algorithm: token_bucket}}]\n";
/// How often a service is tried that starts, and how long between.
const TRIED_MOST: usize = 1200;
const TRIED_EVERY: Duration = Duration::from_millis(50);

/// Which requests are traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// No `telemetry` in the settings.
    Off,
    /// This percentage of traces, sent to a collector.
    Sampled(u32),
}

/// A running service, its collector, and its files.
pub(crate) struct Service {
    pub(crate) process: Process,
    ports: (u16, u16),
    folder: Folder,
    collector: Collector,
}

// === impl Mode ===

impl Mode {
    pub(crate) const ALL: [Mode; 4] = [
        Mode::Off,
        Mode::Sampled(0),
        Mode::Sampled(10),
        Mode::Sampled(100),
    ];

    fn settings(self, collector: &Collector) -> String {
        let Mode::Sampled(percent) = self else {
            return String::new();
        };
        let url = collector.url();
        format!("telemetry: {{endpoint: '{url}', metrics: null, traces: {{sample: {percent}%}}}}\n")
    }
}

// === impl Service ===

impl Service {
    /// Starts `tollgate serve`, after these words if there are any.
    pub(crate) fn start(
        tollgate: &Path,
        mode: Mode,
        is_counted: bool,
    ) -> Result<Service, Box<dyn Error>> {
        let (folder, collector) = (Folder::new(), Collector::start());
        let (http, redis) = (free_port(), free_port());
        fs::write(folder.file("rules.yaml"), RULES)?;
        let settings = format!(
            "rules: [rules.yaml]\nlisten: {{http: '127.0.0.1:{http}', redis: '127.0.0.1:{redis}', \
             grpc: null, admin: null}}\n{}",
            mode.settings(&collector)
        );
        let file = folder.file("tollgate.yaml");
        fs::write(&file, settings)?;
        let valgrind = match is_counted {
            true => "valgrind --tool=callgrind --callgrind-out-file=/dev/null --log-file=\"$2\"",
            false => "",
        };
        let command = format!("echo started; exec {valgrind} \"$0\" serve \"$1\" 2>/dev/null");
        let program = tollgate.display().to_string();
        let arguments = ["-c", &command, &program, &file, &folder.file("counted")];
        let process = Process::start("sh", &arguments.map(str::to_owned), "started");
        Ok(Service {
            process: process.ok_or("`tollgate serve` does not start")?,
            ports: (http, redis),
            folder,
            collector,
        })
    }

    /// Connects, once it listens.
    pub(crate) fn connect(&self, load: Load) -> Result<Client, Box<dyn Error>> {
        let port = match load {
            Load::Http => self.ports.0,
            Load::Redis => self.ports.1,
        };
        for _tried in 0..TRIED_MOST {
            if let Ok(stream) = TcpStream::connect(("127.0.0.1", port)) {
                return Client::new(load, stream);
            }
            sleep(TRIED_EVERY);
        }
        Err("`tollgate serve` does not listen".into())
    }

    /// Ends it; how many spans its collector has got.
    pub(crate) fn end(&self) -> Result<usize, Box<dyn Error>> {
        end(&self.process)?;
        Ok(self.collector.count_spans())
    }

    /// The instructions that it has executed, after its end.
    pub(crate) fn instructions(&self) -> Result<u64, Box<dyn Error>> {
        read_total(&self.folder.file("counted"))
    }
}
