//! Removes passwords and keys from the diagnostics of a settings file.
//!
//! A diagnostic quotes its line, which may contain a password, perhaps in the wrong place. So lines
//! that might contain one are not quoted; file, line and column remain.

use std::net::IpAddr;

use tollgate_backends::AnyBackend;
use tollgate_rules::Diagnostic;

/// Replaces the text of a line.
const HIDDEN: &str = "(not shown: there may be a password in it)";
/// Signs of a password or a key wherever they are in a line, in lower case.
const SIGNS: [&str; 3] = ["pass", "secret", "-----begin"];
/// Parts of keys whose values may be a password or a key. As values, these words are harmless:
/// `key: user`, `header: x-token`.
const KEY_SIGNS: [&str; 9] = [
    "token",
    "username",
    "user_name",
    "user-name",
    "credential",
    "authorization",
    "bearer",
    "api_key",
    "api-key",
];
/// The same, for whole words between `-`, `_` and `.`: `curl` is not a sign.
const KEY_WORDS: [&str; 3] = ["url", "urls", "dsn"];
/// Top-level keys below which every line is hidden, because a URL with a password or a token is
/// easily written in the wrong place.
pub(super) const KEYS: [&str; 5] = ["store", "stores", "redis_protocol", "telemetry", ADMIN];
/// Those of them that also hide what follows a similar key, such as `redis_store`.
const KEY_PARTS: [&str; 3] = ["store", "stores", "telemetry"];
/// Hidden only as a top-level key: a listener has the same name.
const ADMIN: &str = "admin";

/// What hides lines after a line with a sign.
#[derive(Default)]
struct Scan {
    /// Whether the current top-level key is one of [`KEYS`].
    is_in_section: bool,
    /// The line with a sign that the current line may continue.
    sign: Option<SignLine>,
    /// How many brackets are open.
    depth: usize,
}

/// A line with a sign.
struct SignLine {
    indent: usize,
    is_item: bool,
}

/// A word in a line: a key, or a part of a value.
#[derive(Clone, Copy)]
struct Word<'l> {
    before: &'l str,
    text: &'l str,
    /// What follows it, without the quote that closes it.
    after: &'l str,
}

/// Hides the lines that may contain a password.
pub(crate) fn hide(diagnostics: &mut [Diagnostic], text: &[u8], backends: &[AnyBackend]) {
    let hidden = lines_to_hide(&String::from_utf8_lossy(text), backends);
    for found in diagnostics {
        let line = usize::try_from(found.line).unwrap_or(usize::MAX);
        let is_hidden = match hidden.get(line.saturating_sub(1)) {
            Some(is_hidden) => *is_hidden,
            // A line that the file does not have has nothing to hide.
            None => !found.text.is_empty(),
        };
        if is_hidden {
            HIDDEN.clone_into(&mut found.text);
            found.length = 1;
        }
    }
}

/// For each line, whether it may contain a password.
fn lines_to_hide(text: &str, backends: &[AnyBackend]) -> Vec<bool> {
    let mut scan = Scan::default();
    let lines = text.lines();
    if text.replace("\r\n", "").contains('\r') {
        // A line end for YAML, and none here.
        return vec![true; lines.count()];
    }
    lines
        .map(|line| scan.hides(&line.to_lowercase(), backends))
        .collect()
}

// === impl Scan ===

impl Scan {
    /// Whether the next line, in lower case, may contain a password.
    ///
    /// A line with a sign may be the beginning of a value of several lines, such as a map, a block
    /// scalar or a list. That value ends at a key that is not indented further, outside of
    /// brackets. A line that is not a key ends nothing: it may be a password whose indentation is
    /// wrong.
    fn hides(&mut self, line: &str, backends: &[AnyBackend]) -> bool {
        let content = line.trim_start();
        let indent = line.len() - content.len();
        let is_item = content.starts_with('-');
        let is_comment = content.starts_with('#');
        if begins_with_key(content) {
            if indent == 0 && !is_item {
                *self = Scan::default();
            }
            let ends = |sign: &SignLine| {
                let is_beside = indent == sign.indent && (sign.is_item || !is_item);
                indent < sign.indent || is_beside
            };
            self.sign = self
                .sign
                .take()
                .filter(|sign| self.depth > 0 || !ends(sign));
        }
        self.is_in_section |= begins_section(line);
        let has_sign = has_sign(line, backends);
        if has_sign && !is_comment && self.sign.is_none() {
            self.sign = Some(SignLine { indent, is_item });
        }
        self.count_brackets(line);
        has_sign || self.is_in_section || self.sign.is_some()
    }

    /// Counts the brackets outside of quotes.
    fn count_brackets(&mut self, line: &str) {
        let mut quote = None;
        for c in line.chars() {
            match (quote, c) {
                (Some(open), _) if open == c => quote = None,
                (None, '"' | '\'') => quote = Some(c),
                (None, '{' | '[') => self.depth += 1,
                (None, '}' | ']') => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
    }
}

// === impl Word ===

impl<'l> Word<'l> {
    /// The words of a line.
    fn list(line: &'l str) -> Vec<Word<'l>> {
        let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
        let mut words = Vec::new();
        let mut at = 0;
        while let Some(start) = line[at..].find(is_part).map(|start| at + start) {
            let length = line[start..].find(|c| !is_part(c));
            at = length.map_or(line.len(), |length| start + length);
            words.push(Word {
                before: &line[..start],
                text: &line[start..at],
                after: line[at..].trim_start_matches(['"', '\'']),
            });
        }
        words
    }

    /// Whether nothing follows it in its value, or only more of a path: it is an item, or a value
    /// as a whole.
    fn ends_value(self) -> bool {
        let after = self.after.trim_start();
        let is_in_path = self.before.ends_with('/') && after.starts_with('/');
        after.is_empty() || after.starts_with([',', '}', ']', '#']) || is_in_path
    }

    /// What follows the colon after a key.
    fn value(self) -> Option<&'l str> {
        self.after.trim_start().strip_prefix(':')
    }

    /// Whether one of these is in it, between `-`, `_` and `.`.
    fn has_part(self, parts: &[&str]) -> bool {
        let mut own = self.text.split(['-', '_', '.']);
        own.any(|part| parts.contains(&part))
    }

    /// Whether a password may follow this word.
    fn is_sign(self, backends: &[AnyBackend]) -> bool {
        if self.ends_value() {
            return false;
        }
        let names =
            |backend: &AnyBackend| self.has_part(backend.schemes) || self.has_part(&[backend.key]);
        // A listener can have the name of a backend, and `unix:` as its address.
        let is_socket = self.text == "unix" && !self.after.starts_with("://");
        let is_listener = is_socket || self.value().is_some_and(is_address);
        if backends.iter().any(names) && !is_listener {
            return true;
        }
        if self.text == "user" {
            // An upstream can have this name. Its value is a map.
            let value = self.value().map(str::trim);
            return !value.is_some_and(|value| value.is_empty() || value.starts_with('{'));
        }
        self.has_part(&KEY_WORDS) || KEY_SIGNS.iter().any(|sign| self.text.contains(sign))
    }
}

/// Whether one of [`KEYS`] begins in this line.
fn begins_section(line: &str) -> bool {
    let is_key = |word: Word<'_>| {
        let is_first = word.before.trim_start_matches(['"', '\'', '{']).is_empty();
        let is_named = match word.text {
            ADMIN => is_first,
            text => text.contains("redis_protocol") || word.has_part(&KEY_PARTS),
        };
        is_named && (is_first || !word.ends_value())
    };
    Word::list(line).into_iter().any(is_key)
}

/// Whether a line may contain a password, or be the beginning of one.
fn has_sign(line: &str, backends: &[AnyBackend]) -> bool {
    let content = line.trim_start();
    // A key and its value in lines of their own: `? url` and `: redis://`.
    let is_split = content.starts_with(['?', ':']);
    // An alias elsewhere may make it a password.
    let is_anchor = |(at, _): (usize, &str)| {
        let begins = line[..at].chars().next_back();
        let is_begin = begins.is_none_or(|c| c.is_whitespace() || "[{,:".contains(c));
        is_begin && line[at + 1..].starts_with(char::is_alphanumeric)
    };
    is_split
        || SIGNS.iter().any(|sign| line.contains(sign))
        || line.match_indices('&').any(is_anchor)
        || line
            .match_indices('@')
            .any(|(at, _)| ends_credentials(&line[..at]))
        || Word::list(line)
            .into_iter()
            .any(|word| word.is_sign(backends))
}

/// Whether there may be a password in this text before an `@`. In a path, such as `/@{name}`, there
/// is none.
fn ends_credentials(before: &str) -> bool {
    let is_border = |c: char| c.is_whitespace() || c == '"' || c == '\'';
    let last = before.rsplit(is_border).next().unwrap_or_default();
    let last = last.trim_start_matches(['[', '{']);
    let is_path = last.starts_with('/') && !last.contains(':');
    before.contains("://") || !(last.is_empty() || is_path)
}

/// Whether this is the address of a listener, and the end of its value.
fn is_address(value: &str) -> bool {
    let value = value.trim_start();
    let end = value.find(|c: char| c.is_whitespace() || matches!(c, ',' | '}'));
    let (text, after) = value.split_at(end.unwrap_or(value.len()));
    let after = after.trim_start();
    let text = text.trim_matches(['"', '\'']);
    let is_port = |text: &str| text.len() <= 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    let is_host = |text: &str| {
        let bare = text.trim_start_matches('[').trim_end_matches(']');
        text == "localhost" || bare.parse::<IpAddr>().is_ok()
    };
    let is_whole = match text.rsplit_once(':') {
        Some((host, port)) if is_port(port) => host.is_empty() || is_host(host),
        _ => text == "null" || is_host(text) || !text.is_empty() && is_port(text),
    };
    is_whole && (after.is_empty() || after.starts_with([',', '}', '#']))
}

/// Whether a line, without its indentation, begins with a key, perhaps that of an item.
fn begins_with_key(content: &str) -> bool {
    let content = content.trim_start_matches(['-', ' ']);
    let words = Word::list(content);
    words.first().is_some_and(|first| {
        let is_first = first.before.trim_matches(['"', '\'']).is_empty();
        let value = first.value().filter(|_| is_first);
        value.is_some_and(|value| value.is_empty() || value.starts_with(char::is_whitespace))
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn whatever_belongs_to_admin_is_hidden_but_for_its_listener() {
        let text = "listen:\n  admin: 1\n  http: 2\nadmin:\n\n  a\nlog: {}\n";
        let expected = [false, false, false, true, true, true, false];
        let hidden = lines_to_hide(text, tollgate_backends::BACKENDS);
        assert_eq!(hidden, expected);
        assert!(
            lines_to_hide("\"admin\": [x,\n y]\n", &[])
                .iter()
                .all(|hidden| *hidden)
        );
        assert!(lines_to_hide("log: 1\ntokens: x\n", &[])[1]);
    }

    fn hidden(text: &str) -> Vec<bool> {
        lines_to_hide(text, tollgate_backends::BACKENDS)
    }

    #[test]
    fn a_line_without_a_password_is_shown() {
        for line in [
            "    - entries: [{key: user, from: {header: x-user}}]",
            "  in_flight: [{per: [user]}]",
            "in_flight: [{per: ['user'], requests: 0}]",
            "  - user",
            "  per: user",
            "listen: {http: 8080, redis: 127.0.0.1:6380}",
            "listen: {http: 8080, redis: '[::1]:6380'}",
            "  redis: localhost:6380",
            "  redis: null",
            "listen: {http: unix:/run/http.sock, grpc: 'unix:grpc.sock'}",
            "listen: {redis: 6380, http: x}",
            "  paths: ['/users/{id}', '/user/{id}', /token, '/@{name}']",
            "  upstreams: {user: {addresses: [a]}, curl: {addresses: [http://h:80]}}",
            "  domain: store",
            "  - entries: [{key: token, from: {header: x-auth-token}}]",
            "  domain: redis",
            "    - domains: [bookstore, storefront]",
        ] {
            let text = format!("{line}\n  x: y\n");
            assert_eq!(hidden(&text), [false, false], "{line}");
        }
    }

    #[test]
    fn a_line_that_may_have_a_password_is_hidden() {
        for line in [
            "password: hunter2",
            "{rules: r, password: hunter2}",
            "  \"password\" : hunter2",
            "  password hunter2",
            "  client_secret: hunter2",
            "  url: redis://u:hunter2@h",
            "  redis_url: hunter2",
            "  addresses: [http://u:hunter2@h]",
            "  addresses: ['u:hunter2@h:80']",
            "  x: /hunter2:a@h",
            "  redis: hunter2",
            "  redis: 127.0.0.1:6380 hunter2",
            "  redis: 123456",
            "  redis: deadbeef",
            "redis hunter2",
            "  cache: rediss://hunter2",
            "  cache: unix://:hunter2",
            "  cache-redis: hunter2",
            "  user: hunter2",
            "  user:hunter2",
            "  username: hunter2",
            "  token: hunter2",
            "  token = hunter2",
            "  x: user/hunter2",
            "  redis_token: 12345",
            "  x-api-key: hunter2",
            "  Authorization: Bearer hunter2",
            "  x: &key hunter2",
            "  x: [&key hunter2]",
            "? url",
            ": hunter2",
            "log: {level: hunter2, # the token: hunter2",
        ] {
            assert_eq!(hidden(&format!("{line}\n")), [true], "{line}");
        }
    }

    #[test]
    fn what_a_line_with_a_password_continues_with_is_hidden() {
        for text in [
            "gateway:\n  password: |\n    hunter2\n\n    a: b\n  x: y\n",
            "gateway:\n  password:\n  - hunter2\n  - a: b\n # c\n  x: y\n",
            "gateway:\n  password:\n hunter2\nhunter2\nhunter2:hunter2\n  x: y\n",
            "gateway:\n  {token:\n  hunter2,\n  x: hunter2,\n  z: '}'}\n  x: y\n",
            "gateway:\n  - url: >-\n     hunter2\n    c: d\n    e: f\n  - x: y\n",
            "gateway:\n  x: &a\n    y: hunter2\n    -----BEGIN\n    hunter2\n  x: y\n",
        ] {
            let expected = [false, true, true, true, true, false];
            assert_eq!(hidden(text), expected, "{text}");
        }
        assert_eq!(hidden("password:\nhunter2\nlog: {}\n"), [true, true, false]);
        assert_eq!(hidden("{password:\nhunter2}\n"), [true, true]);
        assert_eq!(hidden("log: {}\rx\ny\n"), [true, true]);
    }

    #[test]
    fn a_line_that_is_not_there_is_not_hidden() {
        for text in ["", "rules: []"] {
            let source = tollgate_rules::Source::new("tollgate.yaml", text);
            let error = crate::Config::parse(&source, std::path::Path::new("")).unwrap_err();
            let error = error.to_string();
            assert!(error.contains("no rules file is named"), "{error}");
            assert!(!error.contains("not shown"), "{error}");
        }
    }

    #[test]
    fn whatever_belongs_to_a_store_is_hidden() {
        let text = "rules: r\nstore:\n  redis:\n\n    # hm\n    password:\n hunter2\nlog: {}\n\
            stoer: {pw: a@b}\n{x: y,\n stores: {a:\n {pw: x},\n\nlimits: {}\n\
            store:\n  mode: lax\nlog:\n  level: info\n";
        let expected = [
            false, true, true, true, true, true, true, false, true, true, true, true, true, false,
            true, true, false, false,
        ];
        assert_eq!(lines_to_hide(text, tollgate_backends::BACKENDS), expected);
    }
}
