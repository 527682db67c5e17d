//! Credentials and encryption of a Redis store.

use std::error::Error;
use std::path::Path;

use tollgate_redis::{Config, Identity, Secret, Tls};
use tollgate_rules::Settings;

/// A user, unless it is the default one, and the password.
pub(super) type Credentials = (Option<String>, Option<Secret>);

/// Reads `tls`: a flag, or a map with certificates.
pub(super) fn encryption(
    redis: &Settings<'_>,
    url: Option<&Config>,
    directory: &Path,
) -> Option<Tls> {
    if redis.is_map("tls") {
        return Some(redis.map("tls", |tls| read_tls(tls, directory)));
    }
    let by_url = url.is_some_and(|url| url.tls.is_some());
    let is_encrypted = redis.flag("tls", by_url);
    if by_url && !is_encrypted {
        let message = "`rediss://` uses TLS, and `tls` turns it off".to_owned();
        redis.report_error("tls", message, "write `redis://`, or leave out `tls`");
    }
    is_encrypted.then(Tls::default)
}

/// Reads a `tls` map, and reports what is wrong with the certificates and the server's name.
fn read_tls(tls: &Settings<'_>, directory: &Path) -> Tls {
    let authorities = tls.text("ca").map(|path| directory.join(path));
    let server_name = tls.text("server_name");
    let report = |key: &'static str, part: &Tls, message: &str, help: &str| {
        if let Err(invalid) = part.check() {
            let why = invalid.source().map(|why| format!(": {why}"));
            tls.report_error(key, format!("{message}{}", why.unwrap_or_default()), help);
        }
    };
    let identity = identity(tls, directory);
    let part = Tls {
        authorities,
        ..Tls::default()
    };
    let message = "the certificates cannot be read";
    report("ca", &part, message, "name a file of certificates (PEM)");
    let own = Tls {
        identity,
        ..Tls::default()
    };
    let message = "the certificate and its key cannot be used";
    report(
        "cert",
        &own,
        message,
        "name a certificate (PEM) and the key that belongs to it",
    );
    let name = Tls {
        server_name,
        ..Tls::default()
    };
    let help = "write the name that is in the certificate, such as `redis.example.net`";
    report(
        "server_name",
        &name,
        "this is not a valid server name",
        help,
    );
    Tls {
        authorities: part.authorities,
        server_name: name.server_name,
        identity: own.identity,
    }
}

/// Reads `cert` and `key`, the client certificate.
fn identity(tls: &Settings<'_>, directory: &Path) -> Option<Identity> {
    let [certificate, key] = ["cert", "key"].map(|name| tls.text(name));
    match (certificate, key) {
        (Some(certificate), Some(key)) => Some(Identity {
            certificate: directory.join(certificate),
            key: directory.join(key),
        }),
        (None, None) => None,
        (Some(_), None) => {
            let message = "a certificate without its key".to_owned();
            tls.report_error("cert", message, "add `key: FILE`");
            None
        }
        (None, Some(_)) => {
            let message = "a key without its certificate".to_owned();
            tls.report_error("key", message, "add `cert: FILE`");
            None
        }
    }
}

/// Reads the user and the password, from the URL or from their own keys.
pub(super) fn signs_in(redis: &Settings<'_>, url: Option<Config>, directory: &Path) -> Credentials {
    let username = redis.text("username").filter(|name| !name.is_empty());
    let written = redis.secret("password").map(|password| {
        if password.is_empty() {
            let message = "the password is empty".to_owned();
            redis.report_error("password", message, "write it, or leave out the key");
        }
        Secret::new(password)
    });
    let in_file = redis.text("password_file").map(|path| {
        let path = directory.join(path);
        password_in(&path).unwrap_or_else(|why| {
            // Do not repeat the value: it may be a password, in the wrong place.
            let message = format!("the file with the password {why}");
            let help = "name a file that holds the password and nothing else";
            redis.report_error("password_file", message, help);
            Secret::new("")
        })
    });
    let by_url = url.as_ref().is_some_and(|url| url.password.is_some());
    let duplicate = match (by_url, &written, &in_file) {
        (_, Some(_), Some(_)) => Some(("password_file", "`password` and `password_file`")),
        (true, Some(_), None) => Some(("password", "`url` and `password`")),
        (true, None, Some(_)) => Some(("password_file", "`url` and `password_file`")),
        _ => None,
    };
    if let Some((key, ways)) = duplicate {
        let message = format!("{ways} both give a password");
        redis.report_error(key, message, "remove one of them");
    }
    let (url_username, url_password) = url.map_or((None, None), |url| (url.username, url.password));
    if url_username.is_some() && username.is_some() {
        let message = "`url` and `username` both give a user".to_owned();
        redis.report_error("username", message, "remove one of them");
    }
    let password = in_file.or(written).or(url_password);
    if username.is_some() && password.is_none() {
        let message = "a user without a password".to_owned();
        redis.report_error("username", message, "add `password_file` or `password`");
    }
    (username.or(url_username), password)
}

fn password_in(path: &Path) -> Result<Secret, String> {
    let password = tollgate_files::read_password(path);
    match password.map_err(|error| format!("cannot be read: {error}"))? {
        empty if empty.is_empty() => Err("is empty".to_owned()),
        password => Ok(Secret::new(password)),
    }
}
