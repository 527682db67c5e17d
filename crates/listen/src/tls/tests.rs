//! Handshakes over real sockets, with certificates that were made just now.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use rustls::client::ResolvesClientCert;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, SignatureScheme, SupportedProtocolVersion};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client;
use tollgate_testbed::{Certificates, Folder};

use super::credentials::{authorities, certificates, certify, private_key};
use super::*;
use crate::address::PeerAddress;
use crate::budget::Budget;
use crate::limits::Limits;

/// The authority that these tests trust.
fn trusted() -> &'static Certificates {
    static ALL: OnceLock<Certificates> = OnceLock::new();
    ALL.get_or_init(Certificates::new)
}

fn connection() -> Arc<Connection> {
    let limits = Limits::default();
    let budget = Arc::new(Budget::new(&limits));
    let (peer, now) = (PeerAddress::Unix, Instant::now());
    Arc::new(Connection::new(peer, false, limits.turn_bytes, budget, now))
}

fn files((cert, key): (String, String), client_ca: Option<String>) -> TlsFiles {
    TlsFiles {
        cert: cert.into(),
        key: key.into(),
        client_ca: client_ca.map(Into::into),
    }
}

fn server_files() -> TlsFiles {
    files(trusted().identity(), None)
}

/// A client that trusts [`trusted`], offers these protocols, and may have a certificate.
fn client(offered: &[&[u8]], identity: Option<(String, String)>) -> ClientConfig {
    let files = ClientTlsFiles {
        ca: Some(trusted().authority().into()),
        identity: identity.map(|(cert, key)| (cert.into(), key.into())),
    };
    let mut config = files.read().unwrap();
    config.alpn_protocols = offered.iter().map(|name| name.to_vec()).collect();
    config
}

/// The outcome of a handshake on both sides: the client's stream after it has read `x`, and the
/// server's failure.
async fn shake_hands(
    tls: &Tls,
    config: &Arc<ClientConfig>,
) -> (io::Result<client::TlsStream<TcpStream>>, Option<Failure>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serve = async {
        let (socket, _) = listener.accept().await.unwrap();
        match tls.handshake(socket.into(), &connection()).await {
            Ok(mut stream) => {
                stream.write_all(b"x").await.unwrap();
                stream.shutdown().await.unwrap();
                None
            }
            Err(error) => Some(error.failure),
        }
    };
    let connect = async {
        let socket = TcpStream::connect(address).await?;
        let connector = TlsConnector::from(Arc::clone(config));
        let name = ServerName::try_from("localhost").unwrap();
        let mut stream = connector.connect(name, socket).await?;
        let mut all = Vec::new();
        stream.read_to_end(&mut all).await?;
        assert_eq!(all, b"x");
        Ok(stream)
    };
    let (connected, failure) = tokio::join!(connect, serve);
    (connected, failure)
}

fn is_resumed(stream: &client::TlsStream<TcpStream>) -> bool {
    stream.get_ref().1.handshake_kind() == Some(rustls::HandshakeKind::Resumed)
}

#[tokio::test]
async fn a_client_gets_the_protocol_of_the_listener() {
    let credentials = server_files().read().unwrap();
    for (protocol, offered, expected) in [
        (
            Protocol::Http1,
            &[&b"h2"[..], b"http/1.1"][..],
            Some(&b"http/1.1"[..]),
        ),
        (Protocol::Http2, &[b"http/1.1", b"h2"], Some(b"h2")),
        (Protocol::Any, &[b"http/1.1", b"h2"], Some(b"h2")),
        (Protocol::Any, &[b"http/1.1"], Some(b"http/1.1")),
        (Protocol::Http1, &[], None),
        (Protocol::Http2, &[], None),
    ] {
        let tls = Tls::new(protocol, &credentials);
        let (stream, failure) = shake_hands(&tls, &Arc::new(client(offered, None))).await;
        assert_eq!(stream.unwrap().get_ref().1.alpn_protocol(), expected);
        assert_eq!(failure, None);
    }
    let tls = Tls::new(Protocol::Http2, &credentials);
    let (stream, failure) = shake_hands(&tls, &Arc::new(client(&[b"http/1.1"], None))).await;
    assert!(stream.is_err());
    assert_eq!(failure, Some(Failure::Incompatible));
}

#[tokio::test]
async fn client_certificates_are_required_and_checked() {
    let other = Certificates::new();
    let with_ca = files(trusted().identity(), Some(trusted().authority()));
    let tls = Tls::new(Protocol::Http1, &with_ca.read().unwrap());
    for (identity, expected) in [
        (Some(trusted().issue("client")), None),
        (None, Some(Failure::NoCertificate)),
        (
            Some(trusted().issue_expired("old")),
            Some(Failure::ExpiredCertificate),
        ),
        (Some(other.identity()), Some(Failure::UntrustedCertificate)),
    ] {
        let config = Arc::new(client(&[], identity));
        let (stream, failure) = shake_hands(&tls, &config).await;
        assert_eq!(failure, expected);
        assert_eq!(stream.is_ok(), expected.is_none());
    }
}

#[tokio::test]
async fn sessions_are_resumed_unless_clients_need_certificates() {
    let without = server_files().read().unwrap();
    let with = files(trusted().identity(), Some(trusted().authority()));
    let with = with.read().unwrap();
    for (credentials, expected) in [(without, true), (with, false)] {
        let tls = Tls::new(Protocol::Http1, &credentials);
        let config = Arc::new(client(&[], Some(trusted().identity())));
        let (first, _) = shake_hands(&tls, &config).await;
        assert!(!is_resumed(&first.unwrap()));
        let (second, _) = shake_hands(&tls, &config).await;
        assert_eq!(is_resumed(&second.unwrap()), expected);
    }
}

#[test]
fn sessions_that_can_be_resumed_take_no_memory() {
    let config = server_config(Protocol::Http1, &server_files().read().unwrap());
    assert!(config.ticketer.enabled());
    assert!(!config.session_storage.can_cache());
}

/// A client's certificate, which it presents whatever the server asks for, and how many
/// authorities the server named.
#[derive(Debug)]
struct Presented {
    certified: Arc<CertifiedKey>,
    named: AtomicUsize,
}

impl ResolvesClientCert for Presented {
    fn resolve(&self, names: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.named.store(names.len(), Ordering::Relaxed);
        Some(Arc::clone(&self.certified))
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// A client of one version of TLS with a certificate of [`trusted`].
fn presenting(version: &'static SupportedProtocolVersion) -> (ClientConfig, Arc<Presented>) {
    let provider = Arc::new(ring::default_provider());
    let (cert, key) = trusted().identity();
    let (chain, _) = certificates(&fs::read(cert).unwrap()).unwrap();
    let key = private_key(&fs::read(key).unwrap()).unwrap();
    let presented = Arc::new(Presented {
        certified: Arc::new(certify(chain, key, &provider).unwrap()),
        named: AtomicUsize::new(usize::MAX),
    });
    let config = ClientConfig::builder_with_provider(provider)
        .with_protocol_versions(&[version])
        .unwrap()
        .with_root_certificates(authorities(&fs::read(trusted().authority()).unwrap()).unwrap())
        .with_client_cert_resolver(Arc::<Presented>::clone(&presented));
    (config, presented)
}

#[tokio::test]
async fn authorities_are_named_once_and_not_at_all_if_that_is_too_long() {
    let folder = Folder::new();
    let own = fs::read(trusted().authority()).unwrap();
    // A certificate has less than 64 KiB, and has this name twice.
    let long = format!("/OU={}", "x".repeat(60)).repeat(400);
    let long = ["one", "two", "three"].map(|name| {
        let path = trusted().other_authority(name, &format!("/CN={name}{long}"));
        fs::read(path).unwrap()
    });
    let bundles = [
        (own.repeat(200), 1),
        ([&own[..], &long[0], &own].concat(), 2),
        ([&own[..], &long.concat()].concat(), 0),
    ];
    for (index, (bundle, expected)) in bundles.into_iter().enumerate() {
        let path = folder.path().join(format!("{index}.pem"));
        fs::write(&path, bundle).unwrap();
        let files = files(trusted().identity(), path.to_str().map(str::to_owned));
        let tls = Tls::new(Protocol::Http1, &files.read().unwrap());
        for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
            let (config, presented) = presenting(version);
            let (stream, failure) = shake_hands(&tls, &Arc::new(config)).await;
            assert_eq!(failure, None, "bundle {index}");
            stream.unwrap();
            let named = presented.named.load(Ordering::Relaxed);
            assert_eq!(named, expected, "bundle {index}, {version:?}");
        }
    }
}

/// A session from before the reload would prove nothing about the new authority.
#[tokio::test]
async fn no_session_outlives_the_authority_that_vouched_for_it() {
    let other = Certificates::new();
    let steps = [
        None,
        Some(trusted().authority()),
        Some(other.authority()),
        None,
    ];
    let read = |client_ca| files(trusted().identity(), client_ca).read().unwrap();
    let tls = Tls::new(Protocol::Http1, &read(None));
    // Without a certificate, and with one of the first authority.
    let configs = [None, Some(trusted().identity())].map(|one| Arc::new(client(&[], one)));
    let mut allowed = Vec::new();
    for client_ca in steps {
        tls.replace(&read(client_ca));
        for config in &configs {
            let (stream, _) = shake_hands(&tls, config).await;
            allowed.push(stream.as_ref().is_ok_and(|stream| !is_resumed(stream)));
        }
    }
    assert_eq!(allowed, [true, true, false, true, false, false, true, true]);
}

#[tokio::test]
async fn a_replaced_certificate_is_shown_to_the_next_client() {
    let tls = Tls::new(Protocol::Http1, &server_files().read().unwrap());
    let config = Arc::new(client(&[], None));
    let shown = |stream: &client::TlsStream<TcpStream>| {
        stream.get_ref().1.peer_certificates().unwrap()[0].to_vec()
    };
    let (first, _) = shake_hands(&tls, &config).await;
    tls.replace(&files(trusted().issue("next"), None).read().unwrap());
    let (second, _) = shake_hands(&tls, &config).await;
    let (first, second) = (first.unwrap(), second.unwrap());
    assert_ne!(shown(&first), shown(&second));
    assert!(!is_resumed(&second));
}

#[tokio::test]
async fn a_peer_that_does_not_speak_tls_is_recognised() {
    let tls = Tls::new(Protocol::Http1, &server_files().read().unwrap());
    for (sent, expected) in [
        (&b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"[..], Failure::NotTls),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Failure::NotTls),
        (b"\x16\x03\x01", Failure::Aborted),
        (b"", Failure::Aborted),
        // A record of the handshake that is not a ClientHello.
        (b"\x16\x03\x01\x00\x05\xff\xff\xff\xff\xff", Failure::Broken),
        (b"\x15\x03\x03\x00\x02\x02\x30", Failure::RejectedByPeer),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut peer = TcpStream::connect(listener.local_addr().unwrap())
            .await
            .unwrap();
        peer.write_all(sent).await.unwrap();
        peer.shutdown().await.unwrap();
        let (socket, _) = listener.accept().await.unwrap();
        let failed = tls
            .handshake(socket.into(), &connection())
            .await
            .unwrap_err();
        assert_eq!(failed.failure, expected, "{sent:?}: {failed}");
    }
}

/// What is wrong with credentials, one line for each file.
fn problems(files: &TlsFiles) -> String {
    let invalid = files.read().unwrap_err();
    let lines = invalid
        .iter()
        .map(|one| format!("{}: {}", one.file.name(), one.problem));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn files_that_cannot_be_used_say_why() {
    let folder = Folder::new();
    let write = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        path
    };
    let good = server_files();
    let (cert, key) = (fs::read(&good.cert).unwrap(), fs::read(&good.key).unwrap());
    let half = write("half.pem", &cert[..cert.len() / 2]);
    let half_key = write("half.key", &key[..key.len() - 20]);
    let text = write("text.pem", b"hello\n");
    let large = write(
        "large.pem",
        &vec![b'x'; usize::try_from(PEM_BYTES_MAX).unwrap() + 1],
    );
    let malformed = b"-----BEGIN CERTIFICATE-----\nMAAA\n-----END CERTIFICATE-----\n";
    let second = write("second.pem", &[&cert[..], malformed].concat());
    let (other_cert, other_key) = trusted().issue("another");
    let cert_is = |path: &Path| TlsFiles {
        cert: path.to_owned(),
        ..good.clone()
    };
    let key_is = |path: &Path| TlsFiles {
        key: path.to_owned(),
        ..good.clone()
    };
    let ca_is = |path: &Path| TlsFiles {
        client_ca: Some(path.to_owned()),
        ..good.clone()
    };
    let mismatch = "key: the key does not belong to the certificate";
    for (files, expected) in [
        (
            cert_is(&half),
            "cert: the file is not PEM: a part of it has no end",
        ),
        (cert_is(&text), "cert: the file has no certificate"),
        (cert_is(&good.key), "cert: the file has no certificate"),
        (
            cert_is(&large),
            "cert: the file has more than 1048576 bytes",
        ),
        (
            cert_is(&second),
            "cert: certificate 2 of the file is malformed",
        ),
        (cert_is(folder.path()), "cert: it is not a regular file"),
        (
            cert_is(Path::new("/dev/zero")),
            "cert: it is not a regular file",
        ),
        (cert_is(Path::new(&other_cert)), mismatch),
        (key_is(Path::new(&other_key)), mismatch),
        (
            key_is(&half_key),
            "key: the file is not PEM: a part of it has no end",
        ),
        (
            key_is(&good.cert),
            "key: the file has no private key that can be read",
        ),
        (ca_is(&text), "client_ca: the file has no certificate"),
    ] {
        assert_eq!(problems(&files), expected, "{files:?}");
    }
}

/// In the traditional form, and in that of PKCS #8.
#[test]
fn a_key_with_a_password_is_no_key() {
    let folder = Folder::new();
    let path = folder.path().join("encrypted.key");
    let header = "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,00\n\n";
    for (kind, header) in [("EC PRIVATE KEY", header), ("ENCRYPTED PRIVATE KEY", "")] {
        let text = format!("-----BEGIN {kind}-----\n{header}MAAA\n-----END {kind}-----\n");
        fs::write(&path, text).unwrap();
        let files = TlsFiles {
            key: path.clone(),
            ..server_files()
        };
        let expected = "key: the file has no private key that can be read";
        assert_eq!(problems(&files), expected, "{kind}");
    }
}

#[test]
fn every_file_that_cannot_be_read_is_reported() {
    let nowhere = Folder::new().path().join("nowhere.pem");
    let found = problems(&TlsFiles {
        cert: nowhere.clone(),
        key: nowhere.clone(),
        client_ca: Some(nowhere),
    });
    let problem = "the file cannot be read: No such file";
    assert_eq!(found.matches(problem).count(), 3, "{found}");
}

#[test]
fn credentials_know_when_they_expire_and_whether_they_changed() {
    let (old, new) = (trusted().issue_expired("was"), trusted().issue("is"));
    let now = fs::metadata(&new.0).unwrap().modified().unwrap();
    let now = now.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    let expired = files(old, None).read().unwrap();
    assert!(expired.validity().not_after < now);
    let read = || files(new.clone(), None).read().unwrap();
    let validity = read().validity();
    assert!(
        validity.not_before <= now && now < validity.not_after,
        "{validity:?}"
    );
    assert_eq!(read().digest(), read().digest());
    assert_ne!(read().digest(), expired.digest());
    assert_ne!(
        read().digest(),
        files(new.clone(), Some(new.0.clone()))
            .read()
            .unwrap()
            .digest()
    );
    let shown = format!("{:?} {:?}", read(), Tls::new(Protocol::Http1, &read()));
    assert!(
        !shown.contains("PRIVATE") && !shown.contains("key"),
        "{shown}"
    );
}
