//! The command and its files, and a service that is ended with its test.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

pub(crate) const RULES: &str = "domain: d\ndescriptors: [{key: k, rate_limit: 1/day}]\n";
pub(crate) const SETTINGS: &str = "rules: rules.yaml\nlisten: {grpc: '127.0.0.1:0', \
    http: '127.0.0.1:0', admin: '127.0.0.1:0'}\nlog: {format: json}\n";

pub(crate) fn tollgate(directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tollgate"));
    command.current_dir(directory);
    command
}

pub(crate) fn run(directory: &Path, arguments: &[&str]) -> Output {
    tollgate(directory).args(arguments).output().unwrap()
}

pub(crate) fn directory(files: &[(&str, &str)]) -> TempDir {
    let directory = TempDir::new().unwrap();
    for (name, text) in files {
        fs::write(directory.path().join(name), text).unwrap();
    }
    directory
}

/// A service that is ended with its test.
pub(crate) struct Service {
    pub(crate) process: Child,
    log: BufReader<ChildStderr>,
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Service {
    pub(crate) fn start(directory: &Path) -> Service {
        Service::start_with(directory, &[])
    }

    /// A service with these variables in its environment.
    pub(crate) fn start_with(directory: &Path, variables: &[(&str, &str)]) -> Service {
        let mut command = tollgate(directory);
        command.envs(variables.iter().copied());
        Service::spawn(command)
    }

    /// A service with these limits of the shell, such as `ulimit -n 64`.
    pub(crate) fn start_under(limits: &str, directory: &Path) -> Service {
        let limited = format!(r#"{limits} && exec "$@""#);
        let mut command = Command::new("sh");
        command.current_dir(directory);
        command.args(["-c", &limited, "sh", env!("CARGO_BIN_EXE_tollgate")]);
        Service::spawn(command)
    }

    /// A service that is started by a command of its own, to which `serve` is added.
    pub(crate) fn spawn(mut command: Command) -> Service {
        let mut process = command.arg("serve").stderr(Stdio::piped()).spawn().unwrap();
        let log = BufReader::new(process.stderr.take().unwrap());
        Service { process, log }
    }

    /// Reads the log, a JSON object a line, up to the line that is meant.
    pub(crate) fn logged(&mut self, mut meant: impl FnMut(&Value) -> bool) -> Value {
        loop {
            let mut line = String::new();
            let length = self.log.read_line(&mut line).unwrap();
            assert!(length > 0, "the log has ended");
            let line: Value = serde_json::from_str(&line).unwrap();
            if meant(&line) {
                return line;
            }
        }
    }

    /// Reads the log up to the line of a listener, which has its address.
    pub(crate) fn address(&mut self, listener: &str) -> String {
        let line = self.logged(|line| line["listener"] == listener);
        line["address"].as_str().unwrap().to_owned()
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.process.id().to_string();
        let sent = Command::new("kill").args([name, &pid]).status().unwrap();
        assert!(sent.success());
    }
}

/// What a command has printed, which ended with `status`: its errors, if that is not 0.
pub(crate) fn text(output: &Output, status: i32) -> String {
    let stream = match status {
        0 => &output.stdout,
        _ => &output.stderr,
    };
    assert_eq!(output.status.code(), Some(status), "{output:?}");
    String::from_utf8(stream.clone()).unwrap()
}

/// The response to a request that begins with `start`, such as `GET /metrics`.
pub(crate) fn exchange(address: &str, start: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let length = body.len();
    write!(
        stream,
        "{start} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-length: {length}\r\n\r\n{body}"
    )
    .unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    assert!(reply.starts_with("HTTP/1.1 "), "{reply:?}");
    reply
}

pub(crate) fn ask(address: &str) -> String {
    let question = r#"{"domain":"d","descriptors":[{"k":"secret"}]}"#;
    exchange(address, "POST /v1/check", question)
}
