#![allow(clippy::unwrap_used)]

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;

use tempfile::TempDir;
use tollgate_listen::{Budget, Limits};
use tollgate_memory::SystemClock;
use tollgate_testbed::Journal;

use tollgate_engine::{Engine, Outcome, Reloader};

use super::*;
use crate::metrics::Metrics;
use crate::stores;

type Parts = (Reloader<ConfiguredRules>, Arc<Engine>, Arc<Metrics>);

/// A reloader of the rules in a directory, its engine, and its metrics.
fn reloader(directory: &TempDir) -> Parts {
    reloader_with(Config::new(vec![directory.path().to_owned()]))
}

fn reloader_with(config: Config) -> Parts {
    let stores = stores::open(&config, &[], Arc::new(SystemClock::new())).unwrap();
    let engine = Arc::new(Engine::new(stores));
    let limits = Limits::default();
    let budget = Arc::new(Budget::new(&limits));
    let host = Arc::default();
    let metrics = Arc::new(Metrics::new(&engine, &budget, &limits, &host, None, None));
    let clock = Arc::new(SystemClock::new());
    let certificates = Certificates::load(&config.listen, clock, Arc::clone(&metrics));
    let certificates = certificates.map_err(|_| ()).unwrap();
    let source = ConfiguredRules::new(config, certificates, None, None, None, metrics.clone());
    (Reloader::new(Arc::clone(&engine), source), engine, metrics)
}

#[test]
fn rules_behind_a_dangling_link_stay_and_a_removed_domain_is_a_warning() {
    let (journal, _guard) = Journal::begin();
    let directory = TempDir::new().unwrap();
    let path = |name: &str| directory.path().join(name);
    let rules =
        |domain: &str| format!("domain: {domain}\ndescriptors: [{{key: k, rate_limit: 5/day}}]\n");
    fs::write(path("d.yaml"), rules("d")).unwrap();
    fs::write(path("target"), rules("e")).unwrap();
    symlink("target", path("e.yaml")).unwrap();
    let (mut reloader, engine, _metrics) = reloader(&directory);
    reloader.load().unwrap();
    fs::remove_file(path("target")).unwrap();
    assert_eq!(reloader.reload(Why::Noticed), Outcome::Failed);
    assert!(engine.rules().domains().eq(["d", "e"]));
    let failure = journal.lines("the rules cannot be read");
    assert!(
        failure[0].contains("ERROR") && failure[0].contains("e.yaml"),
        "{failure:?}"
    );
    assert!(journal.lines("domain removed").is_empty());
    fs::remove_file(path("e.yaml")).unwrap();
    assert_eq!(reloader.reload(Why::Noticed), Outcome::InEffect);
    assert!(engine.rules().domains().eq(["d"]));
    let removed = journal.lines("domain removed");
    assert!(removed[0].contains("WARN"), "{removed:?}");
    // A rule is no longer where it was.
    assert!(journal.lines("rule removed").is_empty());
    fs::write(path("d.yaml"), rules("d").replace("key: k", "key: kk")).unwrap();
    assert_eq!(reloader.reload(Why::Noticed), Outcome::InEffect);
    let removed = journal.lines("rule removed");
    assert!(
        removed[0].contains("WARN") && removed[0].contains("rule=\"k\""),
        "{removed:?}"
    );
}

#[test]
fn a_failure_that_lasts_is_reported_once_and_on_each_order() {
    Journal::keep_enabled();
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("rules.yaml");
    let rules = "domain: d\ndescriptors: [{key: k, rate_limit: 5/day}]\n";
    fs::write(&file, rules).unwrap();
    let (mut reloader, _engine, metrics) = reloader(&directory);
    reloader.load().unwrap();
    let failures = |count: u32| {
        let line = format!("tollgate_reloads_total{{outcome=\"failed\"}} {count}\n");
        metrics.text().contains(&line)
    };
    let is_rejected = || metrics.text().contains("tollgate_rules_rejected 1\n");
    assert!(!is_rejected());
    fs::remove_file(&file).unwrap();
    for _ in 0..3 {
        assert_eq!(reloader.reload(Why::Noticed), Outcome::Failed);
        assert!(failures(1) && is_rejected(), "{}", metrics.text());
    }
    assert_eq!(reloader.reload(Why::Ordered), Outcome::Failed);
    assert!(failures(2), "{}", metrics.text());
    fs::write(&file, rules).unwrap();
    assert_eq!(reloader.reload(Why::Noticed), Outcome::InEffect);
    assert!(!is_rejected(), "{}", metrics.text());
    fs::remove_file(&file).unwrap();
    assert_eq!(reloader.reload(Why::Noticed), Outcome::Failed);
    assert!(failures(3), "{}", metrics.text());
}

#[test]
fn settings_that_change_are_logged_once_and_need_a_restart() {
    let (journal, _guard) = Journal::begin();
    let directory = TempDir::new().unwrap();
    let path = |name: &str| directory.path().join(name);
    let rules = "domain: d\ndescriptors: [{key: k, rate_limit: 5/day}]\n";
    fs::write(path("rules.yaml"), rules).unwrap();
    let settings = path("tollgate.yaml");
    fs::write(&settings, "rules: [rules.yaml]\n").unwrap();
    let (mut reloader, _engine, metrics) = reloader_with(Config::read(&settings).unwrap());
    let is_rejected = || metrics.text().contains("tollgate_settings_rejected 1\n");
    assert!(reloader.watched_paths().any(|path| *path == settings));
    reloader.load().unwrap();
    let warnings = || journal.lines("restart").len();
    for why in [Why::Noticed, Why::Ordered] {
        assert_eq!(reloader.reload(why), Outcome::InEffect);
        assert_eq!(warnings(), 0);
    }
    let changed = "rules: [rules.yaml]\nlimits: {connections: 9}\nlog: {level: warn}\n\
                   store: {redis: {url: 'redis://h', password: hush}}\n";
    fs::write(&settings, changed).unwrap();
    for (why, count) in [(Why::Noticed, 1), (Why::Noticed, 1), (Why::Ordered, 2)] {
        assert_eq!(reloader.reload(why), Outcome::InEffect);
        assert_eq!(warnings(), count);
    }
    let line = &journal.lines("restart")[0];
    let is_whole = line.contains("WARN") && line.contains("\"store, limits, log\"");
    assert!(is_whole && !line.contains("hush"), "{line}");
    assert!(!is_rejected(), "{}", metrics.text());
    fs::write(&settings, "rules: [rules.yaml]\nlimit: {}\n").unwrap();
    assert_eq!(reloader.reload(Why::Noticed), Outcome::InEffect);
    assert!(is_rejected(), "{}", metrics.text());
    let line = &journal.lines("a restart will fail")[0];
    assert!(
        line.contains("ERROR") && !line.contains("unknown key"),
        "{line}"
    );
    let lines = journal.lines("unknown key");
    for part in [
        "ERROR",
        "tollgate.yaml",
        "line=2",
        "column=1",
        "did you mean `limits`?",
    ] {
        assert!(lines[0].contains(part), "{part}: {lines:?}");
    }
    assert!(lines.len() == 1 && !lines[0].contains("\\n"), "{lines:?}");
    fs::remove_file(&settings).unwrap();
    assert_eq!(reloader.reload(Why::Noticed), Outcome::InEffect);
    assert_eq!(journal.lines("No such file").len(), 1);
    fs::write(&settings, "# as it was\nrules: [rules.yaml]\n").unwrap();
    assert_eq!(reloader.reload(Why::Noticed), Outcome::InEffect);
    assert_eq!(journal.lines("again has the settings in effect").len(), 1);
    assert!(!is_rejected(), "{}", metrics.text());
}
