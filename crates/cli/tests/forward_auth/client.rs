//! curl, which sends a request from an address of the loopback network.

use std::process::Command;

/// How long a client may take, in seconds. None waits for anything, so this is generous.
const SECONDS_MAX: &str = "60";

/// What a client got.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    head: String,
    pub(crate) body: String,
}

/// The response to a request to this port for a target, with more arguments of curl.
pub(crate) fn ask(port: u16, from: u8, target: &str, arguments: &[&str]) -> Reply {
    let mut curl = Command::new("curl");
    let url = format!("http://127.0.0.1:{port}{target}");
    let from = format!("127.0.0.{from}");
    curl.args(["--silent", "--include", "--path-as-is", "--globoff"])
        .args(["--max-time", SECONDS_MAX, "--noproxy", "*"])
        .args(["--interface", &from])
        .args(arguments)
        .arg(url);
    let output = curl.output().expect("curl is installed");
    let text = String::from_utf8(output.stdout).unwrap();
    let (head, body) = text
        .split_once("\r\n\r\n")
        .unwrap_or_else(|| panic!("{text:?}"));
    Reply {
        status: head.split(' ').nth(1).unwrap().parse().unwrap(),
        head: head.to_owned(),
        body: body.to_owned(),
    }
}

// === impl Reply ===

impl Reply {
    /// The value of a header, whose name may be in any case.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut fields = self.head.lines().filter_map(|line| line.split_once(": "));
        let found = fields.find(|(field, _)| field.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value)
    }
}
