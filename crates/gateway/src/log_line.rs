//! A line of the access log, in its two formats.
//!
//! What clients send is escaped in both, so that it can neither end a line nor a field.

use std::fmt::Write;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::{Method, Version};
use serde::Serialize;
use tollgate_core::{Escaped, RuleName};

use crate::settings::AccessLogFormat;
use crate::utc::{format_clf, format_rfc3339};

/// The status of a request whose client went away before there was an answer, as in nginx.
const CLIENT_GONE: u16 = 499;
/// The client of a request that came over a Unix socket.
const UNIX: &str = "unix";

/// A request and what became of it.
#[derive(Clone, Debug)]
pub(crate) struct LogLine {
    /// When it arrived, since 1970.
    pub(crate) at: Duration,
    pub(crate) took: Duration,
    /// `None` for a peer of a Unix socket, of which no proxy has said who its client is.
    pub(crate) client: Option<IpAddr>,
    pub(crate) method: Method,
    /// Path and query.
    pub(crate) target: Box<[u8]>,
    pub(crate) version: Version,
    pub(crate) host: Option<Box<[u8]>>,
    pub(crate) user_agent: Option<Box<[u8]>>,
    pub(crate) referer: Option<Box<[u8]>>,
    /// The client's, or that of its denial.
    pub(crate) request_id: Option<Box<[u8]>>,
    pub(crate) route: Option<String>,
    pub(crate) upstream: Option<String>,
    pub(crate) outcome: &'static str,
    /// `None` if the client has gone before there was one.
    pub(crate) status: Option<u16>,
    /// Of the response's body.
    pub(crate) bytes: u64,
    /// Whether the response had its end.
    pub(crate) is_complete: bool,
    /// The rule that denied it.
    pub(crate) rule: Option<Arc<RuleName>>,
    /// Seconds.
    pub(crate) retry_after: Option<u64>,
}

/// The members of a line in JSON, in their order.
#[derive(Serialize)]
struct Members<'a> {
    time: String,
    client: String,
    method: &'a str,
    target: String,
    protocol: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<String>,
    status: u16,
    bytes: u64,
    duration_us: u64,
    complete: bool,
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    route: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    upstream: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_agent: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    referer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rule: Option<Rule<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<u64>,
}

#[derive(Serialize)]
struct Rule<'a> {
    domain: &'a str,
    path: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
}

// === impl LogLine ===

impl LogLine {
    /// The line, with its end.
    pub(crate) fn format(&self, format: AccessLogFormat) -> String {
        let mut line = match format {
            AccessLogFormat::Json => self.format_json(),
            AccessLogFormat::Combined => self.format_combined(),
        };
        line.push('\n');
        line
    }

    fn client_text(&self) -> String {
        let address = self.client.map(|address| address.to_string());
        address.unwrap_or_else(|| UNIX.to_owned())
    }

    /// An object, without what is missing.
    fn format_json(&self) -> String {
        let text = |bytes: &Option<Box<[u8]>>| bytes.as_deref().map(show);
        let members = Members {
            time: format_rfc3339(self.at),
            client: self.client_text(),
            method: self.method.as_str(),
            target: show(&self.target),
            protocol: protocol(self.version),
            host: text(&self.host),
            status: self.status.unwrap_or(CLIENT_GONE),
            bytes: self.bytes,
            duration_us: u64::try_from(self.took.as_micros()).unwrap_or(u64::MAX),
            complete: self.is_complete,
            outcome: self.outcome,
            route: self.route.as_deref(),
            upstream: self.upstream.as_deref(),
            user_agent: text(&self.user_agent),
            referer: text(&self.referer),
            request_id: text(&self.request_id),
            rule: self.rule.as_ref().map(|rule| Rule {
                domain: &rule.domain,
                path: &rule.path,
                name: rule.name.as_deref(),
            }),
            retry_after: self.retry_after,
        };
        serde_json::to_string(&members).expect("all members are text, numbers and booleans")
    }

    /// As nginx and Apache write it, and the rule that denied it.
    fn format_combined(&self) -> String {
        let mut line = String::new();
        let status = self.status.unwrap_or(CLIENT_GONE);
        let time = format_clf(self.at);
        write!(
            line,
            "{} - - [{time}] \"{} ",
            self.client_text(),
            self.method
        )
        .expect("a String takes everything");
        escape(&mut line, &self.target);
        let (protocol, bytes) = (protocol(self.version), self.bytes);
        write!(line, " {protocol}\" {status} {bytes}").expect("a String takes everything");
        let rule = self.rule.as_ref().map(|rule| {
            let name = rule.name.as_deref();
            let words = [Some(&*rule.domain), Some(&*rule.path), name];
            let words: Vec<&str> = words.into_iter().flatten().collect();
            words.join(" ").into_bytes().into_boxed_slice()
        });
        for field in [&self.referer, &self.user_agent, &rule] {
            line.push_str(" \"");
            escape(&mut line, field.as_deref().unwrap_or(b"-"));
            line.push('"');
        }
        line
    }
}

fn show(bytes: &[u8]) -> String {
    Escaped(bytes).to_string()
}

const fn protocol(version: Version) -> &'static str {
    match version {
        Version::HTTP_10 => "HTTP/1.0",
        Version::HTTP_2 => "HTTP/2.0",
        _ => "HTTP/1.1",
    }
}

/// Escapes as nginx does: quotes, backslashes, and all that is not visible ASCII.
fn escape(line: &mut String, bytes: &[u8]) {
    for byte in bytes {
        match byte {
            b'"' | b'\\' | 0..0x20 | 0x7f.. => {
                write!(line, "\\x{byte:02X}").expect("a String takes everything");
            }
            plain => line.push(char::from(*plain)),
        }
    }
}

#[cfg(test)]
mod tests;
