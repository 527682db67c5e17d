//! Certificates for a server that speaks TLS, and a user with a password.

use std::process::{Command, Stdio};

use crate::folder::Folder;
use crate::redis::{Redis, Setup, free_port};

/// The user that the servers of these tests know.
pub const USER: &str = "tollgate";
/// Its password.
pub const PASSWORD: &str = "correct horse";

/// An authority and a server's certificate for `localhost` and 127.0.0.1, both made just now.
#[derive(Debug, Default)]
pub struct Certificates {
    folder: Folder,
}

// === impl Certificates ===

impl Certificates {
    /// Makes them.
    ///
    /// # Panics
    ///
    /// If `openssl` is not installed.
    pub fn new() -> Certificates {
        let certificates = Certificates::default();
        let at = |name: &str| certificates.folder.file(name);
        let san = "subjectAltName=DNS:localhost,IP:127.0.0.1\nbasicConstraints=CA:FALSE\n";
        std::fs::write(at("san"), san).expect("the folder is writable");
        let key = [
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
        ];
        let authority = ["req", "-x509", "-days", "2", "-subj", "/CN=authority"];
        let request = ["req", "-subj", "/CN=localhost"];
        openssl(&[
            &authority[..],
            &key,
            &["-keyout", &at("ca.key"), "-out", &at("ca.pem")],
        ]);
        openssl(&[
            &request[..],
            &key,
            &["-keyout", &at("server.key"), "-out", &at("server.csr")],
        ]);
        openssl(&[
            &["x509", "-req", "-days", "2", "-CAcreateserial"],
            &[
                "-in",
                &at("server.csr"),
                "-out",
                &at("server.pem"),
                "-extfile",
                &at("san"),
            ],
            &["-CA", &at("ca.pem"), "-CAkey", &at("ca.key")],
        ]);
        certificates
    }

    /// The authority's certificate, as PEM.
    pub fn authority(&self) -> String {
        self.folder.file("ca.pem")
    }

    /// A server that speaks TLS on its port, and knows one user who may touch keys below `prefix`
    /// only; the default user is off.
    pub fn start(&self, prefix: &str) -> Redis {
        self.start_server(prefix, "no")
    }

    /// The same, but it serves only clients that show a certificate of the authority.
    pub fn start_asking(&self, prefix: &str) -> Redis {
        self.start_server(prefix, "yes")
    }

    /// A certificate of the authority and its key, as PEM, for a client to show.
    pub fn identity(&self) -> (String, String) {
        let [certificate, key] = ["server.pem", "server.key"].map(|name| self.folder.file(name));
        (certificate, key)
    }

    /// Starts a server with TLS, the one user and the rights of that user.
    fn start_server(&self, prefix: &str, asks_clients: &str) -> Redis {
        let plain = free_port().to_string();
        let [password, keys] = [format!(">{PASSWORD}"), format!("~{prefix}*")];
        let setup = |port: &str| {
            Setup::with(&[
                "--port",
                "0",
                "--tls-port",
                port,
                "--tls-auth-clients",
                asks_clients,
                "--tls-cert-file",
                &self.folder.file("server.pem"),
                "--tls-key-file",
                &self.folder.file("server.key"),
                "--tls-ca-cert-file",
                &self.authority(),
                "--user",
                USER,
                "on",
                &password,
                &keys,
                "+@all",
                "-@admin",
                "--user",
                "default",
                "off",
            ])
        };
        Redis::start_on(
            &setup(&plain),
            plain.parse().expect("`free_port` returned it"),
        )
    }
}

fn openssl(words: &[&[&str]]) {
    let status = Command::new("openssl")
        .args(words.concat())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("openssl is installed");
    assert!(status.success(), "openssl {words:?} failed");
}
