//! Certificates for a server that speaks TLS, and a user with a password.

use std::process::{Command, Stdio};

use crate::clock::wrong_by;
use crate::folder::Folder;
use crate::port::free_port;
use crate::redis::{Redis, Setup};

/// The user that the servers of these tests know.
pub const USER: &str = "tollgate";
/// Its password.
pub const PASSWORD: &str = "correct horse";

/// The options for a new key of a kind that is quick to make.
const KEY: [&str; 5] = [
    "-newkey",
    "ec",
    "-pkeyopt",
    "ec_paramgen_curve:prime256v1",
    "-nodes",
];
/// How far the clock is behind when a certificate of two days is issued that has expired.
const EXPIRED_SECONDS: i32 = -4 * 24 * 60 * 60;
/// How far it is behind when certificates are made that are not new: more than any server's here.
const EARLIER_SECONDS: i32 = -10 * 60;

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
        Certificates::new_at(0)
    }

    /// Makes them as if some minutes ago, so that they are valid where a clock is behind.
    ///
    /// # Panics
    ///
    /// As [`Certificates::new`], or if libfaketime is not installed.
    pub(crate) fn new_earlier() -> Certificates {
        Certificates::new_at(EARLIER_SECONDS)
    }

    /// Makes them by a clock that is wrong by so many seconds.
    fn new_at(seconds: i32) -> Certificates {
        let certificates = Certificates::default();
        let at = |name: &str| certificates.folder.file(name);
        let san = "subjectAltName=DNS:localhost,IP:127.0.0.1\nbasicConstraints=CA:FALSE\n";
        std::fs::write(at("san"), san).expect("the folder is writable");
        let authority = ["req", "-x509", "-days", "2", "-subj", "/CN=authority"];
        let words = [
            &authority[..],
            &KEY,
            &["-keyout", &at("ca.key"), "-out", &at("ca.pem")],
        ];
        openssl_at(seconds, &words);
        certificates.issue_at("server", seconds);
        certificates
    }

    /// Makes another certificate for `localhost` and 127.0.0.1, for a server or a client, and its
    /// key: the files NAME.pem and NAME.key.
    pub fn issue(&self, name: &str) -> (String, String) {
        self.issue_at(name, 0)
    }

    /// The same, but it has expired.
    pub fn issue_expired(&self, name: &str) -> (String, String) {
        self.issue_at(name, EXPIRED_SECONDS)
    }

    /// Issues a certificate by a clock that is wrong by so many seconds.
    fn issue_at(&self, name: &str, seconds: i32) -> (String, String) {
        let at = |suffix: &str| self.folder.file(&format!("{name}.{suffix}"));
        let request = ["req", "-subj", "/CN=localhost"];
        openssl(&[
            &request[..],
            &KEY,
            &["-keyout", &at("key"), "-out", &at("csr")],
        ]);
        let sign = ["x509", "-req", "-days", "2", "-CAcreateserial"];
        let [san, authority, key] = ["san", "ca.pem", "ca.key"].map(|name| self.folder.file(name));
        let words = [
            &sign[..],
            &["-in", &at("csr"), "-out", &at("pem"), "-extfile", &san],
            // Tests that issue certificates at once do not share the file of serial numbers.
            &["-CA", &authority, "-CAkey", &key, "-CAserial", &at("srl")],
        ];
        openssl_at(seconds, &words);
        (at("pem"), at("key"))
    }

    /// The authority's certificate, as PEM.
    pub fn authority(&self) -> String {
        self.folder.file("ca.pem")
    }

    /// The certificate of another authority, with this subject: the file NAME.pem.
    pub fn other_authority(&self, name: &str, subject: &str) -> String {
        let at = |suffix: &str| self.folder.file(&format!("{name}.{suffix}"));
        let request = ["req", "-x509", "-days", "2", "-subj", subject];
        let files = ["-keyout", &at("key"), "-out", &at("pem")];
        openssl(&[&request[..], &KEY, &files]);
        at("pem")
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

    /// As `setup`, with another port that speaks TLS; returns that port. `redis-cli` and other
    /// servers use the first one, without TLS.
    pub fn beside(&self, setup: &Setup) -> (Setup, u16) {
        let port = free_port();
        let mut setup = setup.clone();
        setup.options.extend(self.tls_options(port, "no"));
        (setup, port)
    }

    /// The lines of a configuration file for the same.
    pub(crate) fn lines_beside(&self) -> (String, u16) {
        let port = free_port();
        let options = self.tls_options(port, "no");
        let lines = options.chunks_exact(2).map(|pair| {
            let name = pair[0].trim_start_matches('-');
            format!("{name} {}\n", pair[1])
        });
        (lines.collect(), port)
    }

    /// A certificate of the authority and its key, as PEM, for a client to show.
    pub fn identity(&self) -> (String, String) {
        let [certificate, key] = ["server.pem", "server.key"].map(|name| self.folder.file(name));
        (certificate, key)
    }

    /// The options of a server whose `port` speaks TLS.
    fn tls_options(&self, port: u16, asks_clients: &str) -> Vec<String> {
        let (certificate, key) = self.identity();
        let options = [
            ["--tls-port", &port.to_string()],
            ["--tls-auth-clients", asks_clients],
            ["--tls-cert-file", &certificate],
            ["--tls-key-file", &key],
            ["--tls-ca-cert-file", &self.authority()],
        ];
        let words = options.as_flattened().iter();
        words.map(|word| (*word).to_owned()).collect()
    }

    /// Starts a server with TLS, the one user and the rights of that user.
    fn start_server(&self, prefix: &str, asks_clients: &str) -> Redis {
        let port = free_port();
        let [password, keys] = [format!(">{PASSWORD}"), format!("~{prefix}*")];
        let mut setup = Setup::with(&[
            "--port", "0", "--user", USER, "on", &password, &keys, "+@all", "-@admin", "--user",
            "default", "off",
        ]);
        setup.options.extend(self.tls_options(port, asks_clients));
        Redis::start_on(&setup, port)
    }
}

fn openssl(words: &[&[&str]]) {
    run("openssl", &words.concat());
}

/// The same by a clock that is wrong by so many seconds.
fn openssl_at(seconds: i32, words: &[&[&str]]) {
    if seconds == 0 {
        return openssl(words);
    }
    let prefix = wrong_by(seconds);
    let (program, rest) = prefix.split_first().expect("a program and its words");
    let rest = rest.iter().map(String::as_str);
    let words: Vec<&str> = rest.chain(["openssl"]).chain(words.concat()).collect();
    run(program, &words);
}

fn run(program: &str, words: &[&str]) {
    let status = Command::new(program)
        .args(words)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("openssl is installed");
    assert!(status.success(), "{program} {words:?} failed");
}
