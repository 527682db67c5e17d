//! Where a page is tested: a folder with the examples, free ports, and the programs it names.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use tollgate_testbed::tool::ENVOY;
use tollgate_testbed::{Folder, Process};

use crate::root;

/// The ports that pages and examples name.
const PORTS: [&str; 16] = [
    "8000", "8080", "8081", "6070", "6071", "9080", "9081", "9070", "9180", "9181", "9170", "6379",
    "6380", "10000", "10001", "9901",
];
/// What servers log when they are ready.
const READY: [(&str, &str); 4] = [
    ("tollgate", "admin"),
    ("redis-server", "Ready to accept connections"),
    ("nginx", "getrlimit"),
    ("envoy", "starting main dispatch loop"),
];
/// How long a command may take, in seconds. None waits for anything, so this is generous.
const SECONDS_MAX: &str = "120";
/// Stands for `cargo`: `cargo run` in a page runs the program that these tests have built.
const CARGO: &str = r#"#!/bin/sh
case "$*" in
  "run --release --bin tollgate -- "*) shift 5; exec tollgate "$@" ;;
  *) echo "cargo $*: not tried here" >&2; exit 97 ;;
esac
"#;

/// A folder in which commands run.
pub(crate) struct Ground {
    folder: Folder,
    /// Ports of the pages, and free ones.
    ports: Vec<(&'static str, String)>,
    running: Vec<Process>,
}

// === impl Ground ===

impl Ground {
    pub(crate) fn new() -> Ground {
        // All are open at once, so that no two are the same.
        let open: Vec<TcpListener> = PORTS
            .iter()
            .map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap())
            .collect();
        let free = open
            .iter()
            .map(|one| one.local_addr().unwrap().port().to_string());
        let ground = Ground {
            folder: Folder::new(),
            ports: PORTS.into_iter().zip(free).collect(),
            running: Vec::new(),
        };
        ground.copy(&root().join("examples"), &ground.path().join("examples"));
        ground.add_programs();
        ground
    }

    /// Runs commands to their end; returns their status and output.
    pub(crate) fn run(&self, commands: &str) -> (i32, String) {
        let script = format!("exec 2>&1\nset -eu\n{}", self.here(commands));
        let mut command = Command::new("timeout");
        command.args([SECONDS_MAX, "bash", "-c", &script]);
        command
            .current_dir(self.path())
            .env("PATH", self.programs());
        let output = command.output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        (output.status.code().unwrap_or(-1), self.there(&text))
    }

    /// Starts a server that runs until this is dropped; returns whether it became ready.
    pub(crate) fn start(&mut self, command: &str) -> bool {
        let is_named = |name: &str| command.split_whitespace().any(|word| word == name);
        let ready = READY.iter().find(|(name, _)| is_named(name));
        let (name, ready) = ready.unwrap_or_else(|| panic!("when is it ready? {command}"));
        let (status, _) = self.run(&format!("command -v {name} && command -v curl"));
        assert_eq!(
            status, 0,
            "`{name}` or `curl` is missing: `cargo xtask ci` installs them"
        );
        let (folder, programs) = (self.path().display(), self.programs());
        let command = self.here(command);
        let script = format!("cd '{folder}'; export PATH='{programs}'; exec {command}");
        let arguments = ["-c", &format!("exec 2>&1\n{script}")].map(str::to_owned);
        let process = Process::start("bash", &arguments, ready);
        let is_ready = process.is_some();
        self.running.extend(process);
        is_ready
    }

    /// The status and output of `tollgate check` for rules.
    pub(crate) fn check_rules(&self, text: &str) -> (i32, String) {
        self.write("checked/rules/rules.yaml", text);
        self.run("tollgate check checked/rules")
    }

    /// The status and output of `tollgate check` for settings, with valid rules.
    pub(crate) fn check_settings(&self, text: &str) -> (i32, String) {
        self.write("checked/rules/rules.yaml", "domain: any\n");
        self.write("checked/tollgate.yaml", text);
        self.run("tollgate check --config checked/tollgate.yaml")
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, self.here(text)).unwrap();
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The folders of programs, ours first. Debian has nginx where only root's shells look.
    fn programs(&self) -> String {
        let path = std::env::var("PATH").unwrap();
        format!("{}:{path}:/usr/sbin", self.path().join("bin").display())
    }

    fn copy(&self, from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let (path, to) = (
                entry.as_ref().unwrap().path(),
                to.join(entry.unwrap().file_name()),
            );
            if path.is_dir() {
                self.copy(&path, &to);
            } else {
                fs::write(to, self.here(&fs::read_to_string(path).unwrap())).unwrap();
            }
        }
    }

    fn add_programs(&self) {
        let bin = self.path().join("bin");
        fs::create_dir_all(&bin).unwrap();
        symlink(env!("CARGO_BIN_EXE_tollgate"), bin.join("tollgate")).unwrap();
        let envoy = ENVOY.path(env!("CARGO_TARGET_TMPDIR"));
        if envoy.is_file() {
            symlink(envoy, bin.join("envoy")).unwrap();
        }
        let cargo = bin.join("cargo");
        fs::write(&cargo, CARGO).unwrap();
        fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// The text with the ports of this folder.
    fn here(&self, text: &str) -> String {
        let with = |text: String, (theirs, ours): &(&str, String)| replaced(&text, theirs, ours);
        self.ports.iter().fold(text.to_owned(), with)
    }

    /// The text with the ports of the page.
    fn there(&self, text: &str) -> String {
        let with = |text: String, (theirs, ours): &(&str, String)| replaced(&text, ours, theirs);
        self.ports.iter().fold(text.to_owned(), with)
    }
}

/// Replaces one whole number in a text with another.
fn replaced(text: &str, number: &str, other: &str) -> String {
    let is_digit = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_digit);
    let bytes = text.as_bytes();
    let mut out = String::with_capacity(text.len());
    let mut done = 0;
    for (at, _) in text.match_indices(number) {
        let end = at + number.len();
        let is_inside =
            is_digit(at.checked_sub(1).map(|before| &bytes[before])) || is_digit(bytes.get(end));
        if !is_inside {
            out.push_str(&text[done..at]);
            out.push_str(other);
            done = end;
        }
    }
    out.push_str(&text[done..]);
    out
}

#[test]
fn only_whole_numbers_are_replaced() {
    assert_eq!(replaced("a:80 8080 80", "80", "1"), "a:1 8080 1");
}
