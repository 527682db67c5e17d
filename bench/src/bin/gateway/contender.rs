//! A reverse proxy that is measured, and the server behind it.

use std::error::Error;
use std::fs;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

use tollgate_bench::server_process::{cpu_time, start_on_core};
use tollgate_testbed::{Folder, Process, free_port};

use crate::arguments::Arguments;
use crate::configuration::{
    Allowance, BODY, envoy, nginx_limit_req, server, tollgate, tollgate_rules,
};
use crate::load::{Figures, generate};

/// The core of the contenders, and that of the load and of the server behind.
const CONTENDER_CORE: &str = "1";
pub(crate) const LOAD_CORE: &str = "0";
/// How often a server that has been started is asked, and how long between.
const ASKED_MOST: usize = 200;
const ASKED_EVERY: Duration = Duration::from_millis(50);
/// One worker thread, as the others have, and no log of requests.
const ENVOY_OPTIONS: [&str; 5] = [
    "--concurrency",
    "1",
    "--log-level",
    "error",
    "--use-dynamic-base-id",
];
/// Seconds of load before the measurement.
const WARM_UP: u32 = 1;

/// A reverse proxy.
#[derive(Debug)]
pub(crate) struct Contender {
    name: &'static str,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Nginx,
    Envoy(PathBuf),
    Tollgate { program: PathBuf, limits: usize },
}

/// A contender's process, and that of the server behind it.
#[derive(Debug)]
pub(crate) struct Running {
    name: &'static str,
    port: u16,
    process: Process,
    _server: Process,
    _folder: Folder,
}

// === impl Contender ===

impl Contender {
    /// All that can be measured.
    pub(crate) fn all(arguments: &Arguments) -> Vec<Contender> {
        let tollgate = |name, limits| Contender {
            name,
            kind: Kind::Tollgate {
                program: arguments.tollgate.clone(),
                limits,
            },
        };
        let nginx = Contender {
            name: "nginx limit_req",
            kind: Kind::Nginx,
        };
        let mut all = vec![
            nginx,
            tollgate("tollgate, 1 limit", 1),
            tollgate("tollgate, no limit", 0),
            tollgate("tollgate, 10 limits", 10),
        ];
        all.extend(arguments.envoy.clone().map(|program| Contender {
            name: "envoy local limit",
            kind: Kind::Envoy(program),
        }));
        all
    }

    pub(crate) const fn name(&self) -> &'static str {
        self.name
    }

    /// Checks that a limit of one allows one request, and denies the next.
    pub(crate) fn check_limit(&self) -> Result<(), Box<dyn Error>> {
        if matches!(self.kind, Kind::Tollgate { limits: 0, .. }) {
            return Ok(());
        }
        // Starting asks once.
        let running = self.start_with(Allowance::One)?;
        let response = running.ask()?;
        match response.starts_with("HTTP/1.1 429") {
            true => Ok(()),
            false => {
                Err(format!("{}: a second request is not denied: {response}", self.name).into())
            }
        }
    }

    pub(crate) fn start(&self) -> Result<Running, Box<dyn Error>> {
        self.start_with(Allowance::All)
    }

    /// Starts the contender and the server behind it, and waits until they answer.
    fn start_with(&self, allowance: Allowance) -> Result<Running, Box<dyn Error>> {
        let folder = Folder::new();
        let (behind, port) = (free_port(), free_port());
        let configuration = server(&path(&folder), behind);
        let server = start_on_core(LOAD_CORE, nginx(&folder, "server.conf", configuration)?)?;
        let words = self.command(&folder, port, behind, allowance)?;
        let running = Running {
            name: self.name,
            port,
            process: start_on_core(CONTENDER_CORE, words)?,
            _server: server,
            _folder: folder,
        };
        running.wait()?;
        Ok(running)
    }

    /// Writes its configuration; the command that starts it.
    fn command(
        &self,
        folder: &Folder,
        port: u16,
        behind: u16,
        allowance: Allowance,
    ) -> io::Result<Vec<String>> {
        match &self.kind {
            Kind::Nginx => {
                let configuration = nginx_limit_req(&path(folder), port, behind, allowance);
                nginx(folder, "proxy.conf", configuration)
            }
            Kind::Envoy(program) => {
                let file = write(folder, "envoy.yaml", envoy(port, behind, allowance))?;
                let mut words = vec![program.display().to_string(), "-c".to_owned(), file];
                words.extend(ENVOY_OPTIONS.map(str::to_owned));
                Ok(words)
            }
            Kind::Tollgate { program, limits } => {
                write(folder, "rules.yaml", tollgate_rules(*limits, allowance))?;
                let settings = tollgate(port, behind, *limits);
                let file = write(folder, "tollgate.yaml", settings)?;
                Ok(vec![
                    program.display().to_string(),
                    "serve".to_owned(),
                    file,
                ])
            }
        }
    }
}

fn path(folder: &Folder) -> String {
    folder.path().display().to_string()
}

/// Writes a file, and returns its path.
fn write(folder: &Folder, name: &str, text: String) -> io::Result<String> {
    let file = folder.file(name);
    fs::write(&file, text)?;
    Ok(file)
}

/// The command that starts nginx with this configuration.
fn nginx(folder: &Folder, name: &str, configuration: String) -> io::Result<Vec<String>> {
    let file = write(folder, name, configuration)?;
    Ok(["nginx", "-p", &path(folder), "-c", &file]
        .map(str::to_owned)
        .to_vec())
}

// === impl Running ===

impl Running {
    /// Waits until it answers a request.
    fn wait(&self) -> Result<(), Box<dyn Error>> {
        let mut last: Box<dyn Error> = "it was not asked".into();
        for _asked in 0..ASKED_MOST {
            match self.ask() {
                Ok(response)
                    if response.starts_with("HTTP/1.1 200") && response.ends_with(BODY) =>
                {
                    return Ok(());
                }
                Ok(response) => return Err(format!("{}: {response}", self.name).into()),
                Err(error) => last = error.into(),
            }
            sleep(ASKED_EVERY);
        }
        Err(format!("{} does not answer: {last}", self.name).into())
    }

    /// The response to one request.
    fn ask(&self) -> io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.write_all(b"GET / HTTP/1.1\r\nHost: api.example\r\nConnection: close\r\n\r\n")?;
        let mut response = String::new();
        stream.read_to_string(&mut response)?;
        Ok(response)
    }

    /// Loads it for so many seconds.
    pub(crate) fn measure(
        &self,
        connections: usize,
        seconds: u32,
    ) -> Result<Figures, Box<dyn Error>> {
        generate(self.port, connections, WARM_UP)?;
        let before = cpu_time(&self.process)?;
        let load = generate(self.port, connections, seconds)?;
        let used = cpu_time(&self.process)? - before;
        load.figures(used)
            .map_err(|problem| format!("{}: {problem}", self.name).into())
    }
}
