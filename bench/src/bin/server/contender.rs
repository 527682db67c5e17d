//! A server that is measured.

use std::error::Error;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

use tollgate_bench::callgrind::read_total;
use tollgate_bench::server_process::{end, start_counted, start_on_core};
use tollgate_testbed::{Folder, Process, free_port};

use crate::arguments::SERVE_FLOOR;
use crate::configuration::{GCRA, Ports, tollgate, tollgate_rules};
use crate::floor::Floor;
use crate::protocol::{Protocol, resp};
use crate::question::Question;

/// The core of the contenders.
const CONTENDER_CORE: &str = "1";
/// The file with the counted instructions.
const COUNTED: &str = "counted";
/// How often a server that has been started is asked, and how long between.
const ASKED_MOST: usize = 200;
const ASKED_EVERY: Duration = Duration::from_millis(50);

/// A server, and one kind of request to it.
#[derive(Clone, Debug)]
pub(crate) struct Contender {
    pub(crate) name: String,
    pub(crate) question: Question,
    pub(crate) launch: Launch,
}

/// How a server is started.
#[derive(Clone, Debug)]
pub(crate) enum Launch {
    /// Redis without persistence; with a module, if there is one.
    Redis { module: Option<PathBuf> },
    /// throttlecrab-server with this transport.
    Throttlecrab {
        program: PathBuf,
        transport: &'static str,
    },
    /// `tollgate serve`.
    Tollgate(PathBuf),
    /// This program.
    Floor(Floor),
    /// A command of the user's for `sh`.
    Command(String),
}

/// A contender's process.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) contender: Contender,
    pub(crate) address: SocketAddr,
    pub(crate) process: Process,
    /// The hash of the script that it has loaded; empty without one.
    pub(crate) script: String,
    folder: Folder,
}

// === impl Contender ===

impl Contender {
    /// Whether it limits anything; else it allows everything.
    pub(crate) fn limits(&self) -> bool {
        self.question.limits() && !matches!(self.launch, Launch::Floor(_))
    }

    /// Starts it on its core, and waits until it accepts connections.
    pub(crate) fn start(&self) -> Result<Running, Box<dyn Error>> {
        self.start_by(|words, _| start_on_core(CONTENDER_CORE, words))
    }

    /// Starts it so that its instructions are counted, and waits until it accepts connections.
    pub(crate) fn start_counted(&self) -> Result<Running, Box<dyn Error>> {
        self.start_by(|words, folder| start_counted(&folder.file(COUNTED), words))
    }

    /// Writes its configuration, starts it with the words of its command, and waits until it
    /// accepts connections.
    fn start_by(
        &self,
        start: impl Fn(Vec<String>, &Folder) -> Result<Process, Box<dyn Error>>,
    ) -> Result<Running, Box<dyn Error>> {
        let folder = Folder::new();
        let port = free_port();
        let words = self.launch.command(&folder, self.question, port)?;
        let mut running = Running {
            contender: self.clone(),
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            process: start(words, &folder)?,
            script: String::new(),
            folder,
        };
        running
            .wait()
            .map_err(|error| format!("{} does not accept connections: {error}", self.name))?;
        if self.question == Question::Script {
            running.script = load_script(running.address)?;
        }
        Ok(running)
    }
}

/// The hash of the script, which Redis keeps from now on.
fn load_script(address: SocketAddr) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.write_all(&resp::command(&["SCRIPT", "LOAD", GCRA]))?;
    let mut reply = [0; "$40\r\n".len() + 40];
    stream.read_exact(&mut reply)?;
    Ok(String::from_utf8_lossy(&reply[5..]).into_owned())
}

// === impl Launch ===

impl Launch {
    /// How it is started and what differs from its defaults, for people.
    pub(crate) fn settings(&self) -> String {
        match self {
            Launch::Redis { module: None } => "redis-server --save '' --appendonly no".to_owned(),
            Launch::Redis { module: Some(_) } => {
                "redis-server --save '' --appendonly no --loadmodule libredis_cell.so".to_owned()
            }
            Launch::Throttlecrab { transport, .. } => {
                format!("throttlecrab-server --{transport} (its other defaults: no log)")
            }
            Launch::Tollgate(_) => "tollgate serve, the defaults but for max_keys and \
                                    throttle_keys: 4000000, connections_per_address: 1024, \
                                    streams: 262144"
                .to_owned(),
            Launch::Floor(Floor::Http) => "axum: reads the body, answers a constant".to_owned(),
            Launch::Floor(Floor::Grpc) => {
                "tonic: reads the message, answers a status for each descriptor".to_owned()
            }
            Launch::Command(command) => command.clone(),
        }
    }

    /// Writes its configuration; the command that starts it.
    fn command(
        &self,
        folder: &Folder,
        question: Question,
        port: u16,
    ) -> Result<Vec<String>, Box<dyn Error>> {
        let port_word = port.to_string();
        let path = |path: &Path| path.display().to_string();
        Ok(match self {
            Launch::Redis { module } => {
                let mut words = ["redis-server", "--bind", "127.0.0.1", "--save", ""].to_vec();
                words.extend(["--appendonly", "no", "--port"]);
                let mut words: Vec<String> = words.into_iter().map(str::to_owned).collect();
                words.push(port_word);
                if let Some(module) = module {
                    words.extend(["--loadmodule".to_owned(), path(module)]);
                }
                words
            }
            Launch::Throttlecrab { program, transport } => vec![
                path(program),
                format!("--{transport}"),
                format!("--{transport}-host"),
                "127.0.0.1".to_owned(),
                format!("--{transport}-port"),
                port_word,
            ],
            Launch::Tollgate(program) => vec![
                path(program),
                "serve".to_owned(),
                write_settings(folder, question, port)?,
            ],
            Launch::Floor(floor) => {
                let program = path(&std::env::current_exe()?);
                let floor = floor.name().to_owned();
                vec![program, SERVE_FLOOR.to_owned(), floor, port_word]
            }
            Launch::Command(command) => {
                let settings = write_settings(folder, question, port)?;
                let command = command.replace("{settings}", &settings);
                let command = command.replace("{port}", &port_word);
                vec!["sh".to_owned(), "-c".to_owned(), format!("exec {command}")]
            }
        })
    }
}

/// Writes the rules and the settings of a Tollgate that answers this question at this port; the
/// file of the settings.
fn write_settings(folder: &Folder, question: Question, port: u16) -> io::Result<String> {
    let (mut redis, mut http, mut grpc) = (free_port(), free_port(), free_port());
    match question.protocol() {
        Protocol::Resp => redis = port,
        Protocol::Http => http = port,
        Protocol::Grpc => grpc = port,
    }
    fs::write(folder.file("rules.yaml"), tollgate_rules())?;
    let file = folder.file("tollgate.yaml");
    fs::write(&file, tollgate(Ports { redis, http, grpc }))?;
    Ok(file)
}

// === impl Running ===

impl Running {
    fn wait(&self) -> Result<(), io::Error> {
        let mut last = None;
        for _asked in 0..ASKED_MOST {
            match TcpStream::connect(self.address) {
                Ok(_) => return Ok(()),
                Err(error) => last = Some(error),
            }
            sleep(ASKED_EVERY);
        }
        Err(last.unwrap_or_else(|| io::ErrorKind::TimedOut.into()))
    }

    /// Ends it; the instructions that it has executed, if they were counted.
    pub(crate) fn instructions(self) -> Result<u64, Box<dyn Error>> {
        end(&self.process)?;
        read_total(&self.folder.file(COUNTED))
    }
}
