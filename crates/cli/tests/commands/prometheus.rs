//! A real Prometheus that scrapes one service.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;

use serde_json::Value;
use tollgate_testbed::{Folder, Process, free_port};

/// How often it is started when another process has taken its port.
const STARTS_TRIED: usize = 5;
/// What it logs last before it serves.
const IS_READY: &str = "Server is ready to receive web requests";
/// It logs to standard error.
const SCRIPT: &str = r#"exec prometheus "$@" 2>&1"#;

/// Settings with the file of rules and the address to scrape. A scrape may take as long as the
/// pause between two, and on a machine with much other work it takes hundreds of milliseconds.
const SETTINGS: &str = r"
global: {scrape_interval: 2s, scrape_timeout: 2s, evaluation_interval: 200ms}
rule_files: ['RULES']
scrape_configs: [{job_name: tollgate, static_configs: [{targets: ['TARGET']}]}]
";

/// A Prometheus, which ends with its test.
pub(crate) struct Prometheus {
    port: u16,
    _folder: Folder,
    _process: Process,
}

// === impl Prometheus ===

impl Prometheus {
    /// One that scrapes this address and evaluates the rules of this file.
    pub(crate) fn start(target: &str, rules: &str) -> Prometheus {
        let started = (0..STARTS_TRIED).find_map(|_| Prometheus::launch(target, rules));
        started.expect("Prometheus starts: `cargo xtask ci` installs it")
    }

    /// `None` if another process has taken the port.
    fn launch(target: &str, rules: &str) -> Option<Prometheus> {
        let (folder, port) = (Folder::new(), free_port());
        let settings = SETTINGS.replace("RULES", rules).replace("TARGET", target);
        fs::write(folder.file("prometheus.yaml"), settings).unwrap();
        let arguments = [
            "-c".to_owned(),
            SCRIPT.to_owned(),
            "sh".to_owned(),
            format!("--config.file={}", folder.file("prometheus.yaml")),
            format!("--storage.tsdb.path={}", folder.file("data")),
            format!("--web.listen-address=127.0.0.1:{port}"),
        ];
        let process = Process::start("sh", &arguments, IS_READY)?;
        Some(Prometheus {
            port,
            _folder: folder,
            _process: process,
        })
    }

    /// The samples of an expression, or why it has an error.
    pub(crate) fn query(&self, expression: &str) -> Result<Vec<Value>, Value> {
        let form: String = form_urlencoded::Serializer::new(String::new())
            .append_pair("query", expression)
            .finish();
        let mut answer = self.post("/api/v1/query", &form);
        match answer["data"]["result"].take() {
            Value::Array(samples) if answer["status"] == "success" => Ok(samples),
            _ => Err(answer),
        }
    }

    /// Its alert rules, each with its state.
    pub(crate) fn rules(&self) -> Vec<Value> {
        let answer = self.ask("GET /api/v1/rules HTTP/1.0\r\n\r\n");
        let groups = answer["data"]["groups"].as_array().unwrap();
        let rules = groups.iter().map(|group| group["rules"].as_array());
        rules.flatten().flatten().cloned().collect()
    }

    fn post(&self, path: &str, form: &str) -> Value {
        let length = form.len();
        self.ask(&format!(
            "POST {path} HTTP/1.0\r\ncontent-type: application/x-www-form-urlencoded\r\n\
             content-length: {length}\r\n\r\n{form}"
        ))
    }

    /// The answer to a request. HTTP/1.0, so that it ends with its connection and has no chunks.
    fn ask(&self, request: &str) -> Value {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        let (_, body) = reply.split_once("\r\n\r\n").unwrap();
        serde_json::from_str(body).unwrap()
    }
}
