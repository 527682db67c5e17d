//! `admin`: the tokens that the admin listener demands.

use std::path::Path;

use tollgate_rules::Settings;

use super::{Listen, ListenerKind};
use crate::admin_tokens::{AdminTokens, InvalidTokens, TokenSources};
use crate::setting_warning::SettingWarning;

/// Reads the map `admin`, and the tokens, so that what is wrong with them is reported here. Paths
/// are relative to `directory`.
pub(super) fn take(top: &Settings<'_>, directory: &Path, has_listener: bool) -> TokenSources {
    if !top.has("admin") {
        return TokenSources::default();
    }
    if !has_listener {
        let message = "`admin` has no effect, because `listen.admin` is off".to_owned();
        let help = "give `listen.admin` an address, or remove `admin`";
        top.report_error("admin", message, help);
    }
    top.map("admin", |map| {
        if !map.contains("token_file") && !map.contains("token_env") {
            let message = "nothing says where the tokens are".to_owned();
            let help = "write `token_file: FILE` or `token_env: NAME`, or remove `admin`";
            map.report_error("token_file", message, help);
        }
        let sources = TokenSources {
            file: map.text("token_file").map(|path| directory.join(path)),
            env: map.text("token_env"),
        };
        if let Err(InvalidTokens { key, problem, help }) = AdminTokens::load(&sources) {
            map.report_error(key, problem, help);
        }
        sources
    })
}

/// That the admin listener trusts every client, and more than a private network may reach it.
pub fn find_exposed_admin(listen: &[Listen], tokens: &TokenSources) -> Option<SettingWarning> {
    let admin = listen.iter().find(|one| one.kind == ListenerKind::Admin)?;
    let has_client_ca = admin
        .tls
        .as_ref()
        .is_some_and(|tls| tls.client_ca.is_some());
    let trusts_all = *tokens == TokenSources::default() && !has_client_ca;
    (trusts_all && admin.address.is_exposed()).then(|| SettingWarning {
        path: "listen.admin.address".to_owned(),
        code: "exposed-admin",
        message: format!(
            "`admin` demands neither tokens nor client certificates at {}: every client that \
             reaches it may read keys and rules, and report headroom",
            admin.address
        ),
        help:
            "write `admin: {token_file: FILE}`, which health checks and /metrics do not need, or \
            bind it to a private address"
                .to_owned(),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs;

    use tempfile::TempDir;
    use tollgate_listen::TlsFiles;
    use tollgate_rules::Source;

    use super::find_exposed_admin;
    use crate::config::{Config, ConfigError};

    fn parse(directory: &TempDir, text: &str) -> Result<Config, ConfigError> {
        let source = Source::new("tollgate.yaml", format!("rules: r\n{text}"));
        Config::parse(&source, directory.path())
    }

    #[test]
    fn the_tokens_are_where_the_settings_say() {
        let directory = TempDir::new().unwrap();
        fs::write(directory.path().join("tokens"), "0123456789abcdef\n").unwrap();
        let config = parse(&directory, "admin: {token_file: tokens}\n").unwrap();
        assert_eq!(config.admin.file, Some(directory.path().join("tokens")));
        assert_eq!(config.admin.env, None);
        let without = parse(&directory, "").unwrap();
        assert_eq!(config.differences(&without), ["admin"]);
    }

    #[test]
    fn a_listener_that_trusts_everyone_is_exposed() {
        let directory = TempDir::new().unwrap();
        fs::write(directory.path().join("tokens"), "0123456789abcdef\n").unwrap();
        let tokens = "admin: {token_file: tokens}\n";
        for (address, more, expected) in [
            ("0.0.0.0:1", "", true),
            ("192.0.2.1:1", "", true),
            ("0.0.0.0:1", tokens, false),
            ("10.0.0.1:1", "", false),
            ("127.0.0.1:1", "", false),
            ("unix:a", "", false),
        ] {
            let text = format!("listen: {{admin: '{address}'}}\n{more}");
            let mut config = parse(&directory, &text).unwrap();
            let found = find_exposed_admin(&config.listen, &config.admin);
            assert_eq!(found.is_some(), expected, "{text}");
            let admin = config.listen.iter_mut().last().unwrap();
            admin.tls = Some(TlsFiles {
                cert: "c".into(),
                key: "k".into(),
                client_ca: Some("ca".into()),
            });
            let found = find_exposed_admin(&config.listen, &config.admin);
            assert_eq!(found, None, "{text}");
        }
    }

    #[test]
    fn errors_name_their_place_and_the_remedy_and_no_token() {
        let directory = TempDir::new().unwrap();
        fs::write(directory.path().join("short"), "hunter2\n").unwrap();
        let cases = [
            (
                "admin: {}",
                "2:8|write `token_file: FILE` or `token_env: NAME`",
            ),
            ("admin: hunter2", "2:8|this must be a map"),
            (
                "admin: {token: hunter2}",
                "2:9|the keys are `token_env`, `token_file`",
            ),
            ("admin: {token_file: hunter2}", "2:21|cannot be read"),
            (
                "admin: {token_file: short}",
                "2:21|one of 7 bytes in line 1",
            ),
            ("admin: {token_env: hunter2}", "2:20|is not set"),
            (
                "admin: {token_file: short}\nlisten: {admin: null}",
                "2:8|`listen.admin` is off",
            ),
        ];
        for (text, expected) in cases {
            let found = parse(&directory, &format!("{text}\n"))
                .unwrap_err()
                .to_string();
            let (place, help) = expected.split_once('|').unwrap();
            assert!(
                found.contains(&format!("tollgate.yaml:{place}\n")),
                "{text}: {found}"
            );
            assert!(found.contains(help), "{text}: {found}");
            assert!(!found.contains("hunter2"), "{text}: {found}");
        }
    }
}
