#![allow(clippy::unwrap_used)]

use std::fs;

use tollgate_core::Moment;
use tollgate_engine::Engine;
use tollgate_listen::{Budget, Limits};
use tollgate_memory::ManualClock;
use tollgate_testbed::{Certificates as Issued, Folder, Journal};

use super::*;
use crate::config::Config;
use crate::stores;

/// Certificates of one listener whose files can be replaced.
struct Scene {
    issued: Issued,
    folder: Folder,
    clock: Arc<ManualClock>,
    metrics: Arc<Metrics>,
}

impl Scene {
    /// At a time at which fresh certificates are valid.
    fn new() -> Scene {
        let issued = Issued::new();
        let (cert, _) = issued.identity();
        let now = fs::metadata(cert).unwrap().modified().unwrap();
        let now = now.duration_since(std::time::UNIX_EPOCH).unwrap();
        let nanos = u64::try_from(now.as_nanos()).unwrap();
        let clock = Arc::new(ManualClock::at(Moment::from_nanos(nanos) + Span::SECOND));
        let config = Config::new(Vec::new());
        let stores = stores::open(&config, &[], Arc::<ManualClock>::clone(&clock)).unwrap();
        let engine = Arc::new(Engine::new(stores));
        let limits = Limits::default();
        let metrics = Metrics::new(
            &engine,
            &Arc::new(Budget::new(&limits)),
            &limits,
            &Arc::default(),
            None,
            None,
        );
        Scene {
            issued,
            folder: Folder::new(),
            clock,
            metrics: Arc::new(metrics),
        }
    }

    fn files(&self) -> TlsFiles {
        TlsFiles {
            cert: self.folder.path().join("cert"),
            key: self.folder.path().join("key"),
            client_ca: None,
        }
    }

    fn put(&self, (cert, key): (String, String)) {
        fs::copy(cert, self.files().cert).unwrap();
        fs::copy(key, self.files().key).unwrap();
    }

    fn load(&self) -> Certificates {
        let mut listen = Listen::defaults();
        listen[0].tls = Some(self.files());
        let loaded = Certificates::load(
            &listen,
            Arc::<ManualClock>::clone(&self.clock),
            Arc::clone(&self.metrics),
        );
        loaded.map_err(|(_, invalid)| invalid).unwrap()
    }

    fn has_metric(&self, line: &str) -> bool {
        let text = self.metrics.plain_text();
        text.lines().any(|found| found == line)
    }
}

#[test]
fn an_invalid_pair_is_logged_once_and_the_previous_one_stays() {
    let scene = Scene::new();
    scene.put(scene.issued.identity());
    let (journal, _guard) = Journal::begin();
    let mut certificates = scene.load();
    let first = certificates.all[0].digest;
    // As a tool does that writes one file after the other.
    let (cert, key) = scene.issued.issue("next");
    let whole = fs::read(&cert).unwrap();
    for half in [&whole[..whole.len() / 2], &whole] {
        fs::write(scene.files().cert, half).unwrap();
        for _ in 0..3 {
            certificates.reload(Why::Noticed);
        }
        assert_eq!(certificates.all[0].digest, first);
    }
    let kept = "the previous one stays in effect";
    assert_eq!(journal.lines(kept).len(), 2, "{:?}", journal.lines(""));
    assert_eq!(journal.lines("a part of it has no end").len(), 1);
    assert_eq!(
        journal
            .lines("the key does not belong to the certificate")
            .len(),
        1
    );
    certificates.reload(Why::Ordered);
    assert_eq!(journal.lines(kept).len(), 3);
    let rejected = r#"tollgate_certificate_rejected{listener="grpc"}"#;
    assert!(scene.has_metric(&format!("{rejected} 1")));
    fs::copy(key, scene.files().key).unwrap();
    for _ in 0..3 {
        certificates.reload(Why::Noticed);
    }
    assert_ne!(certificates.all[0].digest, first);
    assert_eq!(journal.lines("certificate in effect").len(), 1);
    let label = r#"tollgate_certificate_loads_total{listener="grpc",outcome="#;
    assert!(
        scene.has_metric(&format!("{label}\"ok\"}} 2")),
        "{}",
        scene.metrics.plain_text()
    );
    assert!(scene.has_metric(&format!("{label}\"failed\"}} 3")));
    assert!(scene.has_metric(&format!("{rejected} 0")));
}

#[test]
fn a_file_that_is_gone_and_comes_back_changes_nothing() {
    let scene = Scene::new();
    scene.put(scene.issued.identity());
    let (journal, _guard) = Journal::begin();
    let mut certificates = scene.load();
    fs::remove_file(scene.files().key).unwrap();
    certificates.reload(Why::Noticed);
    assert_eq!(journal.lines("No such file").len(), 1);
    scene.put(scene.issued.identity());
    certificates.reload(Why::Noticed);
    assert_eq!(journal.lines("certificate in effect").len(), 1);
}

#[test]
fn a_certificate_that_has_expired_or_will_is_in_the_metrics_and_the_log() {
    let scene = Scene::new();
    scene.put(scene.issued.identity());
    let (journal, _guard) = Journal::begin();
    let mut certificates = scene.load();
    let expiry = certificates.all[0].validity.not_after;
    let name = r#"tollgate_certificate_expiry_timestamp_seconds{listener="grpc"}"#;
    assert!(
        scene.has_metric(&format!("{name} {expiry}")),
        "{}",
        scene.metrics.plain_text()
    );
    assert_eq!(
        journal.lines("certificate").len(),
        0,
        "{:?}",
        journal.lines("")
    );
    scene.clock.advance(Span::DAY.times(3));
    for _ in 0..3 {
        certificates.reload(Why::Noticed);
    }
    assert_eq!(journal.lines("the certificate has expired").len(), 1);
    certificates.reload(Why::Ordered);
    assert_eq!(journal.lines("the certificate has expired").len(), 2);
    // A new one that has expired as well is used: it may be what the clients expect.
    scene.put(scene.issued.issue_expired("old"));
    certificates.reload(Why::Noticed);
    assert_eq!(journal.lines("the certificate has expired").len(), 3);
    assert_eq!(journal.lines("certificate in effect").len(), 1);
    assert!(!scene.has_metric(&format!("{name} {expiry}")));
}

#[test]
fn a_certificate_that_expires_while_its_file_is_unusable_is_logged() {
    let scene = Scene::new();
    scene.put(scene.issued.identity());
    let (journal, _guard) = Journal::begin();
    let mut certificates = scene.load();
    fs::write(scene.files().cert, "no certificate").unwrap();
    certificates.reload(Why::Noticed);
    assert_eq!(journal.lines("the certificate has expired").len(), 0);
    scene.clock.advance(Span::DAY.times(3));
    for _ in 0..3 {
        certificates.reload(Why::Noticed);
    }
    assert_eq!(journal.lines("the certificate has expired").len(), 1);
    certificates.reload(Why::Ordered);
    assert_eq!(journal.lines("the certificate has expired").len(), 2);
}

#[test]
fn a_clock_that_is_behind_is_noticed() {
    let scene = Scene::new();
    scene.put(scene.issued.identity());
    let (journal, _guard) = Journal::begin();
    let clock = Arc::new(ManualClock::at(Moment::ZERO + Span::DAY));
    let scene = Scene { clock, ..scene };
    scene.load();
    assert_eq!(journal.lines("the certificate is not valid yet").len(), 1);
}
