//! `redis_protocol`: what the listener `redis` answers, and to whom.

use std::fmt;
use std::path::Path;

use tollgate_rules::Settings;

/// How many keys `CL.THROTTLE` can count unless the settings say otherwise.
const THROTTLE_KEYS: u32 = 1_000_000;
/// The most of them.
const THROTTLE_KEYS_MAX: u32 = 1_000_000_000;
/// The shortest password. Shorter ones can be guessed.
const PASSWORD_BYTES_MIN: usize = 16;
/// The longest password.
const PASSWORD_BYTES_MAX: usize = 512;

/// The settings of the listener `redis`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedisProtocol {
    /// `throttle_keys`: room for this many live keys of `CL.THROTTLE`. 1 000 000.
    pub throttle_keys: usize,
    /// `password_file` or `password_env`: what clients need to ask anything. Default: nothing.
    pub password: Password,
    /// `admin_password_file` or `admin_password_env`: the password of the user `admin`, who may
    /// reset and refund. Default: there is no such user.
    pub admin_password: Password,
}

/// A password, or none.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Password(pub Option<String>);

// === impl RedisProtocol ===

impl RedisProtocol {
    /// Reads the section, and the passwords that it names. Paths are relative to `directory`.
    pub(super) fn take(top: &Settings<'_>, directory: &Path, has_listener: bool) -> RedisProtocol {
        if top.has("redis_protocol") && !has_listener {
            let message = "`redis_protocol` has no effect, because `listen.redis` is off";
            let help = "give `listen.redis` an address, or remove `redis_protocol`";
            top.report_error("redis_protocol", message.to_owned(), help);
        }
        top.map("redis_protocol", |map| {
            let keys = map.count("throttle_keys", THROTTLE_KEYS, (1, THROTTLE_KEYS_MAX));
            RedisProtocol {
                throttle_keys: usize::try_from(keys).unwrap_or(usize::MAX),
                password: Password::take(map, directory, ["password_file", "password_env"]),
                admin_password: {
                    let keys = ["admin_password_file", "admin_password_env"];
                    Password::take(map, directory, keys)
                },
            }
        })
    }
}

impl Default for RedisProtocol {
    fn default() -> RedisProtocol {
        RedisProtocol {
            throttle_keys: usize::try_from(THROTTLE_KEYS).unwrap_or(usize::MAX),
            password: Password::default(),
            admin_password: Password::default(),
        }
    }
}

// === impl Password ===

impl Password {
    /// Reads a password from a file or from the environment. No message repeats what may be one.
    fn take(
        map: &Settings<'_>,
        directory: &Path,
        [file_key, env_key]: [&'static str; 2],
    ) -> Password {
        let file = map.text(file_key).map(|path| {
            let text = tollgate_files::read_password(&directory.join(path));
            let text = text.map_err(|error| format!("the file cannot be read: {error}"));
            (file_key, text)
        });
        let env = map.text(env_key).map(|name| {
            let text = std::env::var(name);
            (
                env_key,
                text.map_err(|_| "the environment variable is not set".to_owned()),
            )
        });
        if file.is_some() && env.is_some() {
            let message = format!("`{file_key}` and `{env_key}` both give a password");
            map.report_error(env_key, message, "remove one of them");
        }
        let Some((key, read)) = file.or(env) else {
            return Password::default();
        };
        match read.and_then(check) {
            Ok(password) => Password(Some(password)),
            Err(message) => {
                let help = "name a file, or an environment variable, that holds the password and \
                    nothing else, such as `openssl rand -base64 32` makes";
                map.report_error(key, message, help);
                Password::default()
            }
        }
    }
}

impl fmt::Debug for Password {
    /// Does not print it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let has = self.0.is_some();
        f.write_str(if has {
            "Password(…)"
        } else {
            "Password(none)"
        })
    }
}

fn check(password: String) -> Result<String, String> {
    match password.len() {
        PASSWORD_BYTES_MIN..=PASSWORD_BYTES_MAX => Ok(password),
        bytes => Err(format!(
            "a password of {bytes} bytes; it has {PASSWORD_BYTES_MIN} to {PASSWORD_BYTES_MAX}"
        )),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs;

    use tempfile::TempDir;
    use tollgate_rules::Source;

    use super::*;
    use crate::config::{Config, ConfigError, ListenerKind};

    fn parse(directory: &TempDir, text: &str) -> Result<Config, ConfigError> {
        let source = Source::new("tollgate.yaml", format!("rules: r\n{text}\n"));
        Config::parse(&source, directory.path())
    }

    #[test]
    fn the_listener_is_off_unless_it_is_named() {
        let directory = TempDir::new().unwrap();
        let address = |text: &str| {
            let config = parse(&directory, text).unwrap();
            let mut listen = config.listen.into_iter();
            let found = listen.find(|listen| listen.kind == ListenerKind::Redis);
            found.map(|listen| listen.address.to_string())
        };
        assert_eq!(address("log: {}"), None);
        assert_eq!(address("listen: {redis: null}"), None);
        let by_section = address("redis_protocol: {throttle_keys: 7}");
        assert_eq!(by_section.as_deref(), Some("127.0.0.1:6380"));
        let named = address("listen: {redis: '[::1]:7000'}");
        assert_eq!(named.as_deref(), Some("[::1]:7000"));
        let alone = address("listen: {redis: 127.0.0.1:1, grpc: null, http: null}");
        assert_eq!(alone.as_deref(), Some("127.0.0.1:1"));
    }

    #[test]
    fn passwords_are_where_the_settings_say_and_are_never_shown() {
        let directory = TempDir::new().unwrap();
        fs::write(directory.path().join("pass"), "correct horse battery\r\n").unwrap();
        let text = "listen: {redis: 127.0.0.1:1}\nredis_protocol: {throttle_keys: 5, \
            password_file: pass}";
        let config = parse(&directory, text).unwrap();
        let expected = RedisProtocol {
            throttle_keys: 5,
            password: Password(Some("correct horse battery".to_owned())),
            admin_password: Password::default(),
        };
        assert_eq!(config.redis_protocol, expected);
        assert!(!format!("{config:?}").contains("horse"));
        let without = parse(&directory, "listen: {redis: 127.0.0.1:1}").unwrap();
        assert_eq!(config.differences(&without), ["redis_protocol"]);
    }

    #[test]
    fn errors_name_their_place_and_no_password() {
        let directory = TempDir::new().unwrap();
        fs::write(directory.path().join("short"), "hunter2\n").unwrap();
        let cases = [
            (
                "password_file: short",
                "a password of 7 bytes; it has 16 to 512",
            ),
            ("password_file: hunter2", "the file cannot be read"),
            (
                "password_file: /dev/null",
                "the file cannot be read: it is not a regular file",
            ),
            (
                "admin_password_env: hunter2",
                "the environment variable is not set",
            ),
            (
                "password: hunter2",
                "the keys are `admin_password_env`, `admin_password_file`",
            ),
            ("throttle_keys: 0", "1 to 1000000000"),
            (
                "{password_file: short, password_env: hunter2}",
                "`password_file` and `password_env` both give a password",
            ),
        ];
        for (text, expected) in cases {
            let text = text.trim_matches(['{', '}']);
            let text = format!("listen: {{redis: 127.0.0.1:1}}\nredis_protocol: {{{text}}}");
            let found = parse(&directory, &text).unwrap_err().to_string();
            assert!(found.contains("tollgate.yaml:3:"), "{text}: {found}");
            assert!(found.contains(expected), "{text}: {found}");
            assert!(!found.contains("hunter2"), "{text}: {found}");
        }
        let text = "listen: {redis: null}\nredis_protocol: {throttle_keys: 5}";
        let off = parse(&directory, text).unwrap_err();
        assert!(off.to_string().contains("`listen.redis` is off"), "{off}");
    }
}
