//! `tollgate top`: of a running service, as text, as JSON and in a terminal.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread;

use serde_json::Value;

use crate::house::{RULES, SETTINGS, Service, ask, directory, run, text, tollgate};

const TOKEN: &str = "hunter2-hunter2-hunter2";

/// A service, and the addresses of its listeners `http` and `admin`.
fn serving(directory: &Path) -> (Service, String, String) {
    let mut service = Service::start_with(directory, &[("TOKENS", TOKEN)]);
    let (http, admin) = (service.address("http"), service.address("admin"));
    (service, http, format!("http://{admin}"))
}

#[test]
fn without_a_terminal_it_prints_what_there_is_once() {
    let settings = format!("{SETTINGS}explain: {{show_values: true}}\n");
    let directory = directory(&[("rules.yaml", RULES), ("tollgate.yaml", &settings)]);
    let (_service, http, url) = serving(directory.path());
    for _ in 0..3 {
        ask(&http);
    }
    let top = |more: &[&str]| run(directory.path(), &[&["top", "--url", &url], more].concat());
    let shown = text(&top(&[]), 0);
    for expected in [
        &format!(
            "Tollgate {url}: live, version {}",
            env!("CARGO_PKG_VERSION")
        ),
        "\ndenied       0                2\n",
        "\nMost denied keys\n",
        "\nmemory: live keys",
        "  in effect: 1 rule in 1 domain\n",
    ] {
        assert!(shown.contains(expected), "{expected}\n{shown}");
    }
    assert!(!shown.contains('\u{1b}'));
    let json = text(&top(&["--output", "json"]), 0);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&json["version"], &json["outcomes"]["denied"]),
        (&1.into(), &2.into())
    );
    let unreachable = top(&["--format", "json", "--ca", "none.pem"]);
    assert!(text(&unreachable, 2).contains("certificates are for https"));
}

#[test]
fn the_service_demands_its_token() {
    let settings = format!("{SETTINGS}admin: {{token_env: TOKENS}}\n");
    let directory = directory(&[("rules.yaml", RULES), ("tollgate.yaml", &settings)]);
    let (_service, _, url) = serving(directory.path());
    let top = |token: Option<&str>| {
        let mut command = tollgate(directory.path());
        command.envs(token.map(|token| ("TOLLGATE_ADMIN_TOKEN", token)));
        command.args(["top", "--url", &url]).output().unwrap()
    };
    assert!(text(&top(None), 1).contains("the service demands a token: name one with"));
    assert!(text(&top(Some("another-token-of-somewhere")), 1).contains("does not accept"));
    assert!(text(&top(Some(TOKEN)), 0).contains("live, version"));
}

/// A peer that answers one request with a stream of these bytes, then closes the connection.
fn peer(events: Vec<u8>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut head = [0; 1024];
        let _ = stream.read(&mut head).unwrap();
        let head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
        // The command may close the connection before it has read everything.
        let _ = stream.write_all(&[&head[..], &events].concat());
    });
    url
}

#[test]
fn streams_that_no_service_sends_are_errors() {
    let directory = directory(&[]);
    let table: [(Vec<u8>, &str); 7] = [
        (b"".to_vec(), "the service closed the connection"),
        (
            vec![b'x'; (4 << 20) + 1],
            "the service closed the connection",
        ),
        (
            [&vec![b'x'; (4 << 20) + 1][..], b"\n\n"].concat(),
            "an event has more than 4194304 bytes",
        ),
        (
            b"data: hello\n\n".to_vec(),
            "not the admin listener of a Tollgate",
        ),
        (
            b"data: {\"version\": 2}\n\n".to_vec(),
            "snapshots of version 2",
        ),
        (
            b"data: {\"version\": 1, \"program\": 7}\n\n".to_vec(),
            "a snapshot cannot be read: invalid type",
        ),
        (
            b"data: {\"version\": 1, \"uptimeMillis\": \"\\u001b[2J\"}\n\n".to_vec(),
            "a snapshot cannot be read: ",
        ),
    ];
    for (events, expected) in table {
        let found = text(&run(directory.path(), &["top", "--url", &peer(events)]), 1);
        assert!(found.contains(expected), "{expected}: {found}");
        assert!(!found.contains('\u{1b}'), "{found:?}");
    }
    let free = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let url = format!("http://{free}");
    let closed = text(&run(directory.path(), &["top", "--url", &url]), 1);
    assert!(
        closed.contains("connection refused; is `tollgate serve` running"),
        "{closed}"
    );
}

/// The command in a terminal of 80 by 24.
struct Watching {
    process: Child,
    keys: ChildStdin,
    screen: ChildStdout,
    /// All that was written to the terminal and not looked at yet.
    written: String,
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Watching {
    /// `script` gives the command a terminal, which ends with our pipe.
    fn start(url: &str, variables: &[(&str, &str)]) -> Watching {
        let tollgate = env!("CARGO_BIN_EXE_tollgate");
        let command = format!("stty rows 24 cols 80; exec {tollgate} top --url {url}");
        let mut process = Command::new("script")
            .args(["-qec", &command, "/dev/null"])
            .env("TERM", "xterm-256color")
            .env_remove("NO_COLOR")
            .envs(variables.iter().copied())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("bsdutils, which has `script`, is installed");
        Watching {
            keys: process.stdin.take().unwrap(),
            screen: process.stdout.take().unwrap(),
            process,
            written: String::new(),
        }
    }

    /// Reads what is written to the terminal until it has this text; returns all of it.
    fn read_to(&mut self, text: &str) -> String {
        loop {
            if let Some(at) = self.written.find(text) {
                let rest = self.written.split_off(at + text.len());
                return std::mem::replace(&mut self.written, rest);
            }
            let mut bytes = [0; 4096];
            let length = self.screen.read(&mut bytes).unwrap();
            assert!(length > 0, "no {text:?} before the end: {:?}", self.written);
            self.written
                .push_str(&String::from_utf8_lossy(&bytes[..length]));
        }
    }

    /// The number of the process that `script` has started.
    fn number_of_command(&self) -> String {
        let script = self.process.id();
        let children = format!("/proc/{script}/task/{script}/children");
        let children = std::fs::read_to_string(children).unwrap();
        children.trim().to_owned()
    }

    fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).unwrap();
        self.keys.flush().unwrap();
    }
}

#[test]
fn in_a_terminal_it_follows_the_service_also_after_a_restart() {
    let directory = directory(&[("rules.yaml", RULES), ("tollgate.yaml", SETTINGS)]);
    let (service, _, url) = serving(directory.path());
    let mut watching = Watching::start(&url, &[]);
    let shown = watching.read_to("decisions/s");
    // The other screen, and a colour.
    assert!(
        shown.contains("\u{1b}[?1049h") && shown.contains("live, version"),
        "{shown:?}"
    );
    assert!(shown.contains("\u{1b}[38;5;"), "{shown:?}");
    watching.press("4");
    watching.read_to("memory:");
    drop(service);
    watching.read_to("no connection");
    let address = url.strip_prefix("http://").unwrap();
    let settings = SETTINGS.replace("admin: '127.0.0.1:0'", &format!("admin: '{address}'"));
    assert_ne!(settings, SETTINGS);
    std::fs::write(directory.path().join("tollgate.yaml"), settings).unwrap();
    let _service = serving(directory.path());
    watching.read_to("live, version");
    watching.press("q");
    // Back to the first screen.
    watching.read_to("\u{1b}[?1049l");
    assert_eq!(watching.process.wait().unwrap().code(), Some(0));
}

#[test]
fn it_has_no_colours_with_no_color_and_ends_if_there_is_no_service() {
    let directory = directory(&[("rules.yaml", RULES), ("tollgate.yaml", SETTINGS)]);
    let (service, _, url) = serving(directory.path());
    let mut watching = Watching::start(&url, &[("NO_COLOR", "1")]);
    let shown = watching.read_to("decisions/s");
    assert!(
        shown.contains("version") && !shown.contains("\u{1b}[38;5;"),
        "{shown:?}"
    );
    watching.press("\u{3}");
    watching.read_to("\u{1b}[?1049l");
    assert_eq!(watching.process.wait().unwrap().code(), Some(0));
    drop(service);
    let mut watching = Watching::start(&url, &[]);
    let shown = watching.read_to("connection refused");
    assert!(!shown.contains("\u{1b}[?1049h"), "{shown:?}");
    assert_eq!(watching.process.wait().unwrap().code(), Some(1));
}

#[test]
fn a_signal_that_ends_it_restores_the_terminal() {
    let directory = directory(&[("rules.yaml", RULES), ("tollgate.yaml", SETTINGS)]);
    let (_service, _, url) = serving(directory.path());
    for signal in ["-TERM", "-INT", "-HUP"] {
        let mut watching = Watching::start(&url, &[]);
        watching.read_to("decisions/s");
        let number = watching.number_of_command();
        let sent = Command::new("kill").args([signal, &number]).status();
        assert!(sent.unwrap().success());
        watching.read_to("\u{1b}[?1049l");
        let code = watching.process.wait().unwrap().code();
        assert_eq!(code, Some(0), "{signal}");
    }
}
