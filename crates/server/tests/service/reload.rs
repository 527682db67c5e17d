//! Rules that change while the service runs.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;
use tokio::time::{Instant, sleep};
use tollgate_server::{Outcome, ServeError};

use crate::house::{House, replace};
use crate::http_client::Client;

/// How long a change may take to be noticed. The file system notifies the service, not a clock, so
/// the tests have to wait in real time.
const NOTICED_WITHIN: Duration = Duration::from_secs(20);

fn rules(count: u32) -> String {
    format!("domain: d\ndescriptors: [{{key: k, rate_limit: {count}/day}}]\n")
}

async fn check(house: &House, domain: &str) -> Value {
    let mut client = Client::to(house.http()).await;
    let question = format!(r#"{{"domain":"{domain}","descriptors":[{{"k":"v"}}]}}"#);
    client.post("/v1/check", &question).await.json()["limits"][0].clone()
}

/// Polls the admin listener until `domain` has one rule of `count`.
async fn until(house: &House, domain: &str, count: u32) {
    let latest = Instant::now() + NOTICED_WITHIN;
    loop {
        let rules = Client::to(house.admin())
            .await
            .get("/v1/rules")
            .await
            .json();
        let rules = rules["rules"].as_array().unwrap().clone();
        if rules
            .iter()
            .any(|rule| rule["domain"] == domain && rule["limit"] == count)
        {
            return;
        }
        assert!(Instant::now() < latest, "not noticed: {rules:?}");
        sleep(Duration::from_millis(20)).await;
    }
}

/// Whether a counter is above 0. How often a change is read depends on the file system.
async fn counted(house: &House, counter: &str) -> bool {
    let reply = Client::to(house.admin()).await.get("/metrics").await;
    reply.body.lines().any(|line| line.starts_with(counter))
}

#[tokio::test]
async fn what_was_consumed_is_kept_when_a_limit_changes() {
    let house = House::on(&rules(5)).await;
    for remaining in [4, 3] {
        assert_eq!(check(&house, "d").await["remaining"], remaining);
    }
    fs::write(house.path("rules.yaml"), rules(10)).unwrap();
    assert_eq!(house.running.reload().await, Outcome::InEffect);
    assert_eq!(check(&house, "d").await["remaining"], 7);
    assert_eq!(house.running.reload().await, Outcome::InEffect);
    assert_eq!(check(&house, "d").await["remaining"], 6);
}

#[tokio::test]
async fn an_error_keeps_the_domain_and_lets_the_others_change() {
    let two = |one: &str, other: u32| {
        format!(
            "domain: d\ndescriptors: [{{key: k, rate_limit: {one}}}]\n---\n\
             domain: e\ndescriptors: [{{key: k, rate_limit: {other}/day}}]\n"
        )
    };
    let house = House::on(&two("5/day", 5)).await;
    assert_eq!(check(&house, "d").await["remaining"], 4);
    fs::write(house.path("rules.yaml"), two("5/fortnight", 7)).unwrap();
    assert_eq!(house.running.reload().await, Outcome::Failed);
    assert_eq!(check(&house, "d").await["remaining"], 3);
    assert_eq!(check(&house, "e").await["limit"], 7);
    assert!(counted(&house, r#"tollgate_reloads_total{outcome="failed"}"#).await);
    fs::write(house.path("rules.yaml"), "domain: [\n").unwrap();
    assert_eq!(house.running.reload().await, Outcome::Failed);
    fs::remove_file(house.path("rules.yaml")).unwrap();
    assert_eq!(house.running.reload().await, Outcome::Failed);
    assert_eq!(check(&house, "d").await["remaining"], 2);
    fs::write(house.path("rules.yaml"), two("6/day", 7)).unwrap();
    assert_eq!(house.running.reload().await, Outcome::InEffect);
    assert_eq!(check(&house, "d").await["remaining"], 2);
}

#[tokio::test]
async fn an_error_at_the_start_takes_down_its_domain_alone() {
    let text = format!("{}---\ndomain: e\ndescriptors: [{{kee: k}}]\n", rules(5));
    let house = House::on(&text).await;
    assert_eq!(check(&house, "d").await["remaining"], 4);
    assert_eq!(check(&house, "e").await["outcome"], "no_limit");
    assert!(counted(&house, r#"tollgate_reloads_total{outcome="failed"}"#).await);
}

#[tokio::test]
async fn a_start_without_one_good_domain_fails_with_every_error() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("rules.yaml");
    fs::write(&path, "domain: d\ndescriptors: [{kee: k}]\n").unwrap();
    let failed = House::at(directory, path, |_| ()).await.err().unwrap();
    assert!(matches!(failed, ServeError::NoRules(_)));
    let text = failed.to_string();
    assert!(text.contains("did you mean `key`?"), "{text}");
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("nowhere.yaml");
    let failed = House::at(directory, path, |_| ()).await.err().unwrap();
    assert!(matches!(failed, ServeError::Unreadable(_)));
}

#[tokio::test]
async fn a_file_that_is_written_or_replaced_is_noticed() {
    let house = House::on(&rules(5)).await;
    fs::write(house.path("rules.yaml"), rules(6)).unwrap();
    until(&house, "d", 6).await;
    for count in [7, 8] {
        replace(&house.path("rules.yaml"), &rules(count));
        until(&house, "d", count).await;
    }
}

#[tokio::test]
async fn a_new_file_in_a_directory_is_noticed() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("rules");
    fs::create_dir(&path).unwrap();
    fs::write(path.join("d.yaml"), rules(5)).unwrap();
    let house = House::at(directory, path, |_| ()).await.unwrap();
    let added = rules(6).replace("domain: d", "domain: e");
    fs::write(house.path("rules/e.yaml"), added).unwrap();
    until(&house, "e", 6).await;
    assert_eq!(check(&house, "d").await["limit"], 5);
    fs::write(house.path("rules/d.yaml"), rules(7)).unwrap();
    until(&house, "d", 7).await;
}

/// Publishes files as Kubernetes does: as links into a directory that is itself behind a link,
/// which is replaced atomically.
fn publish(at: &Path, version: &str, count: u32) {
    let data = at.join(version);
    fs::create_dir(&data).unwrap();
    fs::write(data.join("rules.yaml"), rules(count)).unwrap();
    symlink(version, at.join("..data_tmp")).unwrap();
    fs::rename(at.join("..data_tmp"), at.join("..data")).unwrap();
}

#[tokio::test]
async fn a_config_map_that_is_swapped_is_noticed() {
    for below in ["", "rules.yaml"] {
        let directory = TempDir::new().unwrap();
        let mount = directory.path().join("mount");
        fs::create_dir(&mount).unwrap();
        publish(&mount, "..2026_1", 5);
        symlink("..data/rules.yaml", mount.join("rules.yaml")).unwrap();
        let house = House::at(directory, mount.join(below), |_| ())
            .await
            .unwrap();
        assert_eq!(check(&house, "d").await["remaining"], 4);
        for (version, count) in [("..2026_2", 6), ("..2026_3", 7)] {
            publish(&mount, version, count);
            fs::remove_dir_all(mount.join(format!("..2026_{}", count - 5))).unwrap();
            until(&house, "d", count).await;
        }
        assert_eq!(check(&house, "d").await["remaining"], 5);
    }
}

#[tokio::test]
async fn a_directory_behind_a_link_that_is_swapped_is_noticed() {
    let directory = TempDir::new().unwrap();
    for (name, count) in [("one", 5), ("two", 6)] {
        let data = directory.path().join(name);
        fs::create_dir(&data).unwrap();
        fs::write(data.join("rules.yaml"), rules(count)).unwrap();
    }
    let current = directory.path().join("current");
    symlink("one", &current).unwrap();
    let house = House::at(directory, current, |_| ()).await.unwrap();
    symlink("two", house.path("next")).unwrap();
    fs::rename(house.path("next"), house.path("current")).unwrap();
    until(&house, "d", 6).await;
    fs::write(house.path("two/rules.yaml"), rules(7)).unwrap();
    until(&house, "d", 7).await;
}
