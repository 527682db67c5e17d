//! The URL of a Redis server, with credentials: `rediss://user:password@host:6379`.

use std::fmt;

use super::{Config, Secret, Servers, Tls, UNIX};

/// The default port of a server.
const PORT: u16 = 6379;

/// Why the URL of a server is invalid. Neither text repeats the URL, which may contain a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidUrl {
    /// What is wrong.
    pub message: &'static str,
    /// What to write instead.
    pub help: &'static str,
}

/// A parsed URL.
#[derive(Debug, PartialEq, Eq)]
struct Url {
    /// `host:port`.
    address: String,
    /// Whether the scheme is `rediss`.
    is_encrypted: bool,
    username: Option<String>,
    password: Option<Secret>,
}

// === impl Config ===

impl Config {
    /// The server at a URL, and the default of every other setting: `redis://host:6379`,
    /// `rediss://user:password@host:6379` with TLS, `unix:///run/redis.sock`.
    ///
    /// # Errors
    ///
    /// [`InvalidUrl`].
    pub fn from_url(url: &str) -> Result<Config, InvalidUrl> {
        Url::parse(url).map(Url::config)
    }
}

// === impl InvalidUrl ===

impl fmt::Display for InvalidUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.message, self.help)
    }
}

impl std::error::Error for InvalidUrl {}

// === impl Url ===

impl Url {
    /// Parses a URL.
    ///
    /// # Errors
    ///
    /// [`InvalidUrl`].
    fn parse(text: &str) -> Result<Url, InvalidUrl> {
        let (scheme, rest) = text.split_once("://").unwrap_or(("", text));
        if scheme == "unix" {
            return socket(rest);
        }
        let is_encrypted = match scheme {
            "redis" => false,
            "rediss" => true,
            _ => {
                let help = "begin with `redis://`, with `rediss://` for TLS, or with `unix:///` \
                    and the path of a socket";
                let message = "the URL begins with neither redis:// nor rediss:// nor unix://";
                return Err(invalid(message, help));
            }
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if !matches!(path, "" | "/" | "/0") {
            let help = "leave out what follows the port: only database 0 is used, and `prefix` \
                keeps services apart; in a password write % and / as %25 and %2F";
            return Err(invalid("the URL continues after the host and port", help));
        }
        let (username, password, host) = match authority.rsplit_once('@') {
            None => (None, None, authority),
            Some((user, host)) => {
                let (username, password) = parse_credentials(user)?;
                (username, Some(password), host)
            }
        };
        let address = match host.rsplit_once(':') {
            // The last group of an IPv6 address is not a port.
            Some((_, port)) if !port.ends_with(']') => host.to_owned(),
            _ => format!("{host}:{PORT}"),
        };
        if !is_address(&address) {
            let help = "write `redis://host:6379`; put an IPv6 address in brackets";
            return Err(invalid("the URL has no valid host and port", help));
        }
        Ok(Url {
            address,
            is_encrypted,
            username,
            password,
        })
    }

    /// The settings of a store at this URL, with every default.
    fn config(self) -> Config {
        Config {
            tls: self.is_encrypted.then(Tls::default),
            username: self.username,
            password: self.password,
            ..Config::new(Servers::Single(self.address))
        }
    }
}

const fn invalid(message: &'static str, help: &'static str) -> InvalidUrl {
    InvalidUrl { message, help }
}

/// Parses the rest of `unix:///run/redis.sock`; a user and a password are separate settings.
fn socket(path: &str) -> Result<Url, InvalidUrl> {
    if path.len() < 2 || !path.starts_with('/') {
        let help = "write `unix:///run/redis.sock`";
        return Err(invalid("the URL has no absolute path of a socket", help));
    }
    Ok(Url {
        address: format!("{UNIX}{path}"),
        is_encrypted: false,
        username: None,
        password: None,
    })
}

/// Whether a text is `host:port`.
pub fn is_address(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else {
        return false;
    };
    let is_host = match host.strip_prefix('[') {
        Some(bracketed) => bracketed
            .strip_suffix(']')
            .is_some_and(|host| host.parse::<std::net::Ipv6Addr>().is_ok()),
        None => {
            let in_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
            !host.is_empty() && host.chars().all(in_name)
        }
    };
    is_host && port.parse::<u16>().is_ok_and(|port| port > 0)
}

fn parse_credentials(user: &str) -> Result<(Option<String>, Secret), InvalidUrl> {
    let Some((username, password)) = user.split_once(':') else {
        let help = "write `user:password@` or `:password@`, or use `username` and `password`";
        return Err(invalid("the URL has a user but no password", help));
    };
    let (Some(username), Some(password)) = (decode(username), decode(password)) else {
        let help = "write % and two digits from 0 to f, as in %40 for @";
        return Err(invalid(
            "the URL has a `%` that is not a valid escape",
            help,
        ));
    };
    if password.is_empty() {
        let help = "leave out the `@` and what is before it, or write the password";
        return Err(invalid("the URL's password is empty", help));
    }
    let username = (!username.is_empty()).then_some(username);
    Ok((username, Secret::new(password)))
}

/// Decodes percent escapes; `None` if one is invalid or the result is not UTF-8.
fn decode(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        let value = digit()? * 16 + digit()?;
        bytes.push(u8::try_from(value).ok()?);
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn read(text: &str) -> (String, bool, Option<String>, Option<Secret>) {
        let url = Url::parse(text).unwrap();
        (url.address, url.is_encrypted, url.username, url.password)
    }

    #[test]
    fn missing_parts_have_their_defaults() {
        let at = |address: &str, is_encrypted| (address.to_owned(), is_encrypted, None, None);
        assert_eq!(read("redis://localhost"), at("localhost:6379", false));
        assert_eq!(read("rediss://10.0.0.1:1/0"), at("10.0.0.1:1", true));
        assert_eq!(read("redis://[::1]/"), at("[::1]:6379", false));
        assert_eq!(read("redis://[::1]:7"), at("[::1]:7", false));
        assert_eq!(read("unix:///run/r.sock"), at("unix:/run/r.sock", false));
    }

    #[test]
    fn users_and_passwords_are_decoded() {
        let secret = |text: &str| Some(Secret::new(text));
        let (.., username, password) = read("redis://me:a%40b%2f:c%25@h:1");
        assert_eq!(
            (username.as_deref(), password),
            (Some("me"), secret("a@b/:c%"))
        );
        let (.., username, password) = read("redis://:p@q@h");
        assert_eq!((username, password), (None, secret("p@q")));
    }

    #[test]
    fn no_error_repeats_the_text() {
        let cases = [
            ("localhost:6379", "neither redis:// nor rediss://"),
            ("http://hunter2@h", "neither redis:// nor rediss://"),
            ("redis://h:1/2", "continues after"),
            ("redis://:hun/ter2@h:1", "continues after"),
            ("redis://h?x=hunter2", "continues after"),
            ("redis://hunter2@h", "a user but no password"),
            ("redis://u:@h", "password is empty"),
            ("redis://u:hunter2%4@h", "not a valid escape"),
            ("redis://u:hunter2%ff@h", "not a valid escape"),
            ("unix://hunter2", "no absolute path"),
            ("redis://", "no valid host"),
            ("redis://:6379", "no valid host"),
            ("redis://h:0", "no valid host"),
            ("redis://h:65536", "no valid host"),
            ("redis://u:hunter2@h h:1", "no valid host"),
            ("redis://[::1:6379", "no valid host"),
            ("redis://::1:6379", "no valid host"),
        ];
        for (text, expected) in cases {
            let InvalidUrl { message, help } = Url::parse(text).unwrap_err();
            assert!(message.contains(expected), "{text}: {message}");
            assert!(!message.contains("hunter2") && !help.contains("hunter2"));
        }
    }
}
