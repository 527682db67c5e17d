#![allow(clippy::unwrap_used)]

use std::fs;

use tempfile::TempDir;
use tollgate_memory::SystemClock;

use super::*;
use crate::stores::Stores;

#[test]
fn a_failure_that_lasts_is_told_once_and_when_ordered() {
    let directory = TempDir::new().unwrap();
    let file = directory.path().join("rules.yaml");
    let rules = "domain: d\ndescriptors: [{key: k, rate_limit: 5/day}]\n";
    fs::write(&file, rules).unwrap();
    let config = Config::new(vec![directory.path().to_owned()]);
    let stores = Stores::open(&config, Arc::new(SystemClock::new())).unwrap();
    let engine = Arc::new(Engine::new(stores));
    let metrics = Arc::new(Metrics::new(engine.decisions(), engine.stores()));
    let counted = Arc::clone(&metrics);
    let mut reader = Reader::new(engine, counted, config);
    reader.first().unwrap();
    let failures = |count: u32| {
        let line = format!("tollgate_reloads_total{{outcome=\"failed\"}} {count}\n");
        metrics.text().contains(&line)
    };
    fs::remove_file(&file).unwrap();
    for _ in 0..3 {
        assert_eq!(reader.again(Why::Noticed), Outcome::Failed);
        assert!(failures(1), "{}", metrics.text());
    }
    assert_eq!(reader.again(Why::Ordered), Outcome::Failed);
    assert!(failures(2), "{}", metrics.text());
    fs::write(&file, rules).unwrap();
    assert_eq!(reader.again(Why::Noticed), Outcome::InForce);
    fs::remove_file(&file).unwrap();
    assert_eq!(reader.again(Why::Noticed), Outcome::Failed);
    assert!(failures(3), "{}", metrics.text());
}
