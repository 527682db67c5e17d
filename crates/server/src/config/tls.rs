//! `tls`: the certificate of a listener, and whether its clients need one.

use std::path::{Path, PathBuf};

use tollgate_listen::TlsFiles;
use tollgate_rules::Settings;

/// How every PEM file contains its parts; no path does.
const PEM_BEGIN: &str = "-----BEGIN";

/// Reads the map `tls`, whose paths are relative to `directory`, and the files that it names unless
/// they are in effect; `None` if it is missing, or lacks a file.
pub(super) fn take(
    listener: &Settings<'_>,
    directory: &Path,
    are_in_effect: impl FnOnce(&TlsFiles) -> bool,
) -> Option<TlsFiles> {
    if !listener.has("tls") {
        return None;
    }
    let is_map = listener.is_map("tls");
    listener.map("tls", |tls| {
        let [cert, key, client_ca] =
            ["cert", "key", "client_ca"].map(|name| take_path(tls, name, directory));
        let (Some(cert), Some(key)) = (cert, key) else {
            if is_map {
                report_missing(tls);
            }
            return None;
        };
        let files = TlsFiles {
            cert,
            key,
            client_ca,
        };
        if are_in_effect(&files) {
            return Some(files);
        }
        for invalid in files.read().err().unwrap_or_default() {
            let problem = &invalid.problem;
            tls.report_error(invalid.file.name(), problem.to_string(), problem.help());
        }
        Some(files)
    })
}

/// Reports each file that is needed and not named.
fn report_missing(tls: &Settings<'_>) {
    let [has_cert, has_key, has_client_ca] = ["cert", "key", "client_ca"].map(|name| tls.has(name));
    let (at, message, help) = match (has_cert, has_key) {
        (true, true) => return, // What is wrong with them has been reported.
        (true, false) => (
            "cert",
            "a certificate without its key",
            "add `key: FILE` (PEM)",
        ),
        (false, true) => (
            "key",
            "a key without its certificate",
            "add `cert: FILE` (PEM)",
        ),
        (false, false) if has_client_ca => (
            "client_ca",
            "clients are asked for certificates, and the listener has none itself",
            "add `cert: FILE` and `key: FILE` (PEM)",
        ),
        (false, false) => (
            "cert",
            "TLS needs a certificate and its key",
            "add `cert: FILE` and `key: FILE` (PEM), or leave out `tls`",
        ),
    };
    tls.report_error(at, message.to_owned(), help);
}

fn take_path(tls: &Settings<'_>, name: &'static str, directory: &Path) -> Option<PathBuf> {
    let path = tls.text(name)?;
    if path.contains(PEM_BEGIN) {
        // The value is not repeated: it may be a key.
        let message = "this is PEM itself, and must be the path of a file with it".to_owned();
        tls.report_error(
            name,
            message,
            "write it to a file that only this user may read",
        );
        return None;
    }
    Some(directory.join(path))
}

#[cfg(test)]
mod tests;
