//! Certificates that change while the service runs, in the ways in which files are replaced.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use tollgate_server::{ListenerKind, Outcome, TlsFiles};

use crate::eventually::eventually;
use crate::gateway::{FREE, add_gateway, section};
use crate::http_client::Client;
use crate::redis_client::with_redis;
use crate::tls_client::{GOOD, Pair, Secured, client_config, connect, put};

/// The certificate that a new client of the HTTP listener is shown, as DER.
async fn shown(secured: &Secured) -> Vec<u8> {
    shown_at(secured, ListenerKind::Http).await
}

/// The same of any listener.
pub(crate) async fn shown_at(secured: &Secured, kind: ListenerKind) -> Vec<u8> {
    let stream = secured.connect(kind, None).await.unwrap();
    let (_, session) = stream.get_ref();
    session.peer_certificates().unwrap()[0].to_vec()
}

fn loads(outcome: &str, count: usize) -> String {
    let labels = format!("listener=\"http\",outcome=\"{outcome}\"");
    format!("tollgate_certificate_loads_total{{{labels}}} {count}")
}

/// Replaces each file at once, as certbot does.
pub(crate) fn replace(directory: &Path, (cert, key): Pair) {
    for (from, name) in [(cert, "cert"), (key, "key")] {
        let beside = directory.join("beside");
        fs::copy(from, &beside).unwrap();
        fs::rename(beside, directory.join(name)).unwrap();
    }
}

#[tokio::test]
async fn an_order_reads_certificates_again() {
    let secured = Secured::new().await;
    let first = shown(&secured).await;
    let mut open = secured.client(ListenerKind::Http).await;
    put(secured.house.directory.path(), secured.issued.issue("next"));
    assert_eq!(secured.house.running.reload().await, Outcome::InEffect);
    assert_ne!(shown(&secured).await, first);
    // A connection from before goes on.
    assert_eq!(open.post("/v1/check", GOOD).await.status, 200);
}

#[tokio::test]
async fn files_that_are_replaced_by_a_rename_are_noticed() {
    let secured = Secured::new().await;
    let first = shown(&secured).await;
    replace(secured.house.directory.path(), secured.issued.issue("next"));
    secured.until_metric(&loads("ok", 2)).await;
    assert_ne!(shown(&secured).await, first);
}

/// Each has files of its own, and the change of one leaves the others what they are.
#[tokio::test]
async fn every_listener_shows_certificates_that_have_changed() {
    let secured = Secured::with(|config, issued| {
        with_redis(config);
        add_gateway(config, section("127.0.0.1:9".parse().unwrap(), FREE));
        for listen in &mut config.listen {
            let path = config.rules[0].with_file_name(listen.kind.name());
            fs::create_dir(&path).unwrap();
            put(&path, issued.identity());
            listen.tls = Some(TlsFiles {
                cert: path.join("cert"),
                key: path.join("key"),
                client_ca: None,
            });
        }
        assert_eq!(config.listen.len(), ListenerKind::ALL.len());
    })
    .await;
    let all_shown = async || {
        let mut all = Vec::new();
        for kind in ListenerKind::ALL {
            all.push(shown_at(&secured, kind).await);
        }
        all
    };
    let mut expected = all_shown().await;
    for (index, kind) in ListenerKind::ALL.into_iter().enumerate() {
        let pair = secured.issued.issue(kind.name());
        replace(&secured.house.path(kind.name()), pair);
        eventually(async || shown_at(&secured, kind).await != expected[index]).await;
        let now = all_shown().await;
        expected[index].clone_from(&now[index]);
        assert_eq!(now, expected, "{kind:?}");
    }
}

/// While only half of a file is there, and while it does not fit its key, the previous certificate
/// is shown.
#[tokio::test]
async fn files_that_are_truncated_and_written_again_are_noticed() {
    let secured = Secured::new().await;
    let first = shown(&secured).await;
    let (cert, key) = secured.issued.issue("next");
    let whole = fs::read(&cert).unwrap();
    let path = secured.house.path("cert");
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    secured.until_metric(&loads("failed", 1)).await;
    assert_eq!(shown(&secured).await, first);
    fs::write(&path, &whole).unwrap();
    secured.until_metric(&loads("failed", 2)).await;
    assert_eq!(shown(&secured).await, first);
    fs::copy(key, secured.house.path("key")).unwrap();
    secured.until_metric(&loads("ok", 2)).await;
    assert_ne!(shown(&secured).await, first);
}

/// As Kubernetes publishes a secret: links into a directory behind a link that is replaced.
fn publish(at: &Path, version: &str, (cert, key): Pair) {
    let data = at.join(version);
    fs::create_dir_all(&data).unwrap();
    fs::copy(cert, data.join("tls.crt")).unwrap();
    fs::copy(key, data.join("tls.key")).unwrap();
    symlink(version, at.join("..data_tmp")).unwrap();
    fs::rename(at.join("..data_tmp"), at.join("..data")).unwrap();
}

#[tokio::test]
async fn a_secret_that_is_swapped_is_noticed() {
    let secured = Secured::with(|config, issued| {
        let mount = config.rules[0].parent().unwrap().join("mount");
        publish(&mount, "..2026_1", issued.identity());
        for name in ["tls.crt", "tls.key"] {
            symlink(Path::new("..data").join(name), mount.join(name)).unwrap();
        }
        for listen in &mut config.listen {
            listen.tls = Some(TlsFiles {
                cert: mount.join("tls.crt"),
                key: mount.join("tls.key"),
                client_ca: None,
            });
        }
    })
    .await;
    let mut last = shown(&secured).await;
    let mount = secured.house.path("mount");
    for version in [2, 3] {
        let pair = secured.issued.issue(&format!("version{version}"));
        publish(&mount, &format!("..2026_{version}"), pair);
        fs::remove_dir_all(mount.join(format!("..2026_{}", version - 1))).unwrap();
        secured.until_metric(&loads("ok", version)).await;
        let next = shown(&secured).await;
        assert_ne!(next, last);
        last = next;
    }
    let failed = secured
        .client(ListenerKind::Admin)
        .await
        .get("/metrics")
        .await
        .body;
    assert!(!failed.contains(&loads("failed", 1)), "{failed}");
}

/// Trust that is taken away ends with the next connection, also for a client that could resume a
/// session.
#[tokio::test]
async fn clients_of_an_authority_that_was_removed_are_rejected() {
    let secured = Secured::with(|config, issued| {
        let ca = config.rules[0].with_file_name("client_ca");
        fs::copy(issued.authority(), &ca).unwrap();
        config.listen[1].tls.as_mut().unwrap().client_ca = Some(ca);
    })
    .await;
    let address = secured.house.http();
    let config = client_config(&secured.issued, Some(secured.issued.identity()));
    for _ in 0..2 {
        let mut client = Client(connect(address, &config).await.unwrap());
        assert_eq!(client.post("/v1/check", GOOD).await.status, 200);
    }
    let other = tollgate_testbed::Certificates::new();
    fs::copy(other.authority(), secured.house.path("client_ca")).unwrap();
    secured.house.running.reload().await;
    let is_rejected = match connect(address, &config).await {
        Ok(stream) => Client(stream).is_closed().await,
        Err(_) => true,
    };
    assert!(is_rejected);
    let labels = r#"listener="http",reason="client_certificate_untrusted""#;
    secured
        .until_metric(&format!("tollgate_connections_closed_total{{{labels}}} 1"))
        .await;
}
