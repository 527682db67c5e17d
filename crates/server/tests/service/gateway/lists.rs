//! Allow and deny lists: whom they concern, and that they follow their files.

use std::fs;
use std::path::Path;
use std::time::Duration;

use tempfile::TempDir;
use tokio::task::yield_now;
use tokio::time::timeout;
use tollgate_engine::Outcome;
use tollgate_rules::{Options, RuleSet, Source};
use tollgate_server::{Config, find_unlimited};
use tollgate_testbed::Journal;

use super::upstream::{Echo, Stage};
use super::{RULES, gateway_with, section};
use crate::house::{House, replace};
use crate::http_client::Client;
use crate::journal::until_logged;

/// Longer than any test takes.
const TIMEOUT: Duration = Duration::from_secs(20);

/// Clients are named by a header that the test sends, and have a user.
const IDENTITY: &str = "identity: {client_address: {source: x-forwarded-for, trusted_proxies: \
    ['127.0.0.1']}, descriptors: [{entries: [{key: remote_address, from: client_address}]}, \
    {entries: [{key: user, from: {header: x-user}, if_missing: skip}]}]}";

struct Lists {
    directory: TempDir,
    house: House,
    upstream: Echo,
}

impl Lists {
    /// A gateway with these lists.
    async fn start(allow: &str, deny: &str, more: &str) -> Lists {
        let directory = TempDir::new().unwrap();
        let path = |name: &str| directory.path().join(name);
        fs::write(path("allow"), allow).unwrap();
        fs::write(path("deny"), deny).unwrap();
        let (allow, deny) = (path("allow"), path("deny"));
        let (allow, deny) = (allow.display(), deny.display());
        let lists = format!("lists: {{allow: ['{allow}'], deny: ['{deny}']}}");
        let upstream = Echo::start().await;
        let settings = section(upstream.address, &format!("{IDENTITY}, {lists}{more}"));
        let house = gateway_with(RULES, settings, |_| ()).await;
        Lists {
            directory,
            house,
            upstream,
        }
    }

    fn replace(&self, name: &str, text: &str) {
        replace(&self.directory.path().join(name), text);
    }

    /// The status of a request of a client.
    async fn ask(&self, address: &str, user: &str) -> u16 {
        ask(&self.house, address, user).await
    }

    async fn metrics(&self) -> String {
        let mut client = Client::to(self.house.admin()).await;
        client.get("/metrics").await.body
    }
}

async fn ask(house: &House, address: &str, user: &str) -> u16 {
    let mut client = Client::to(house.gateway()).await;
    let user = match user {
        "" => String::new(),
        user => format!("x-user: {user}\r\n"),
    };
    let head = format!("GET / HTTP/1.1\r\nhost: h\r\nx-forwarded-for: {address}\r\n{user}\r\n");
    client.send(head.as_bytes()).await;
    let reply = client.reply().await.unwrap();
    if reply.status == 403 {
        assert_eq!(reply.problem(403), "this client is on a deny list");
    }
    reply.status
}

#[tokio::test]
async fn who_is_denied_never_reaches_the_upstream_and_who_is_allowed_has_no_limit() {
    let allow = "192.0.2.0/24\nuser=ann\n2001:db8::/32\n";
    let deny = "192.0.2.7\nuser=mal\n198.51.100.0/24\n2001:db8:bad::/48\n";
    let limit = ", in_flight: [{per: [remote_address], requests: 1}]";
    let lists = Lists::start(allow, deny, limit).await;
    for (address, user, expected) in [
        ("192.0.2.1", "", [200, 200, 200]),
        ("192.0.2.7", "", [403, 403, 403]),
        ("::ffff:192.0.2.7", "", [403, 403, 403]),
        // NAT64 and 6to4 of the same address.
        ("64:ff9b::192.0.2.7", "", [403, 403, 403]),
        ("2002:c000:207::1", "", [403, 403, 403]),
        ("2001:db8:1::1", "", [200, 200, 200]),
        ("2001:db8:bad::1", "", [403, 403, 403]),
        ("203.0.113.1", "", [200, 200, 429]),
        ("203.0.113.2", "ann", [200, 200, 200]),
        // A denial beats the other list, whichever name it is for.
        ("192.0.2.1", "mal", [403, 403, 403]),
        ("198.51.100.1", "ann", [403, 403, 403]),
    ] {
        for expected in expected {
            let status = lists.ask(address, user).await;
            assert_eq!(status, expected, "{address} {user}");
        }
    }
    assert_eq!(lists.upstream.requests().len(), 11);
    let metrics = lists.metrics().await;
    for expected in [
        r#"tollgate_gateway_requests_total{route="default",outcome="deny_listed"} 21"#,
        "tollgate_gateway_list_denied_total 21",
        "tollgate_gateway_list_allowed_total 9",
        r#"tollgate_gateway_list_entries{list="allow"} 3"#,
        r#"tollgate_gateway_list_entries{list="deny"} 4"#,
        r#"tollgate_gateway_list_loads_total{outcome="ok"} 1"#,
        // Limits and denials know nothing of listed clients.
        r#"tollgate_decisions_total{domain="api",rule="remote_address",outcome="allowed"} 2"#,
    ] {
        assert!(metrics.contains(expected), "{expected}\n{metrics}");
    }
}

#[tokio::test]
async fn an_allowed_client_meets_no_concurrency_limit() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("allow");
    fs::write(&path, "192.0.2.1\n").unwrap();
    let more = "in_flight: [{per: [remote_address], requests: 1}], lists: {allow: ['";
    let more = format!("{IDENTITY}, {more}{}']}}", path.display());
    let stage = Stage::open().await;
    let house = gateway_with(RULES, section(stage.address(), &more), |_| ()).await;
    let mut open = Vec::new();
    for _ in 0..3 {
        let mut client = Client::to(house.gateway()).await;
        client
            .send(b"GET / HTTP/1.1\r\nhost: h\r\nx-forwarded-for: 192.0.2.1\r\n\r\n")
            .await;
        let mut upstream = stage.accept().await;
        upstream.head().await;
        open.push((client, upstream));
    }
}

#[tokio::test]
async fn a_changed_list_is_used_and_an_invalid_one_is_not() {
    let lists = Lists::start("", "192.0.2.7\n", "").await;
    assert_eq!(lists.ask("192.0.2.7", "").await, 403);
    // Without an order, as soon as the file is seen to have changed.
    lists.replace("deny", "192.0.2.8\n");
    let used = async {
        while lists.ask("192.0.2.8", "").await != 403 {
            yield_now().await;
        }
    };
    timeout(TIMEOUT, used).await.unwrap();
    assert_eq!(lists.ask("192.0.2.7", "").await, 200);
    // One invalid line: nothing of either file is used.
    lists.replace("allow", "192.0.2.8\n");
    lists.replace("deny", "192.0.2.9\nexample.com\n");
    assert_eq!(lists.house.running.reload().await, Outcome::InEffect);
    for (address, expected) in [("192.0.2.8", 403), ("192.0.2.9", 200)] {
        assert_eq!(lists.ask(address, "").await, expected, "{address}");
    }
    let metrics = lists.metrics().await;
    let failed = r#"tollgate_gateway_list_loads_total{outcome="failed"}"#;
    assert!(metrics.contains(failed), "{metrics}");
    let rejected = "tollgate_gateway_lists_rejected 1\n";
    assert!(metrics.contains(rejected), "{metrics}");
    fs::remove_file(lists.directory.path().join("deny")).unwrap();
    lists.house.running.reload().await;
    assert_eq!(lists.ask("192.0.2.8", "").await, 403);
    lists.replace("deny", "192.0.2.9\n");
    lists.house.running.reload().await;
    for (address, expected) in [("192.0.2.8", 200), ("192.0.2.9", 403)] {
        assert_eq!(lists.ask(address, "").await, expected, "{address}");
    }
    let metrics = lists.metrics().await;
    assert!(!metrics.contains(rejected), "{metrics}");
}

#[test]
fn an_invalid_list_is_an_error_of_the_settings() {
    let directory = TempDir::new().unwrap();
    let parse = |lists: &str| parse(lists, directory.path());
    fs::write(directory.path().join("good"), "10.0.0.0/8\n").unwrap();
    fs::write(directory.path().join("bad"), "10.0.0.0/8\n10.0.0.1/8\n").unwrap();
    let config = parse("{allow: [good], deny: [good]}").unwrap();
    let lists = config.gateway.unwrap().lists;
    assert_eq!(lists.allow, [directory.path().join("good")]);
    let bad = directory.path().join("bad");
    for (lists, expected) in [
        (
            "{deny: [bad]}",
            format!(
                "{}:2:1: 10.0.0.1/8 has bits beyond its prefix",
                bad.display()
            ),
        ),
        ("{allow: [none]}", "none: it cannot be read: ".to_owned()),
        ("{allow: [.]}", "it is not a regular file".to_owned()),
        (
            "{allow: ['']}",
            "`gateway.lists.allow[0]`: it is empty".to_owned(),
        ),
        ("{block: [bad]}", "unknown key `block`".to_owned()),
    ] {
        let error = parse(lists).unwrap_err();
        assert!(error.contains(&expected), "{expected}\n{error}");
        assert!(error.contains("tollgate.yaml:5:"), "{error}");
    }
    let many = format!("{{deny: [{}]}}", vec!["good"; 65].join(", "));
    assert!(parse(&many).unwrap_err().contains("64 is the most"));
}

/// Settings with these lists.
fn parse(lists: &str, directory: &Path) -> Result<Config, String> {
    let text = format!(
        "rules: r\ngateway:\n  domain: api\n  upstreams: {{api: {{addresses: ['h:1']}}}}\n  \
         lists: {lists}\n"
    );
    let parsed = Config::parse(&Source::new("tollgate.yaml", text), directory);
    parsed.map_err(|error| error.to_string())
}

#[test]
fn checked_settings_have_a_warning_for_an_entry_that_lists_nobody() {
    let directory = TempDir::new().unwrap();
    let good = directory.path().join("good");
    let doubtful = directory.path().join("doubtful");
    fs::write(&good, "10.0.0.0/8\nremote_address=10.0.0.1\n").unwrap();
    fs::write(&doubtful, "10.0.0.0/8\n user=bob\n").unwrap();
    let config = parse("{allow: [good], deny: [good, doubtful]}", directory.path()).unwrap();
    let no_rules = RuleSet::parse(&[], &Options::default());
    let found = find_unlimited(None, config.gateway.as_ref(), &no_rules);
    let found = found.iter().find(|one| one.code == "unlisted").unwrap();
    assert_eq!(found.path, "gateway.lists.deny[1]");
    let place = format!(
        "{}:2:2: no descriptor of `identity` has",
        doubtful.display()
    );
    assert!(found.message.starts_with(&place), "{found:?}");
    fs::write(&doubtful, "").unwrap();
    let found = find_unlimited(None, config.gateway.as_ref(), &no_rules);
    assert!(found.iter().all(|one| one.code != "unlisted"), "{found:?}");
}

/// Such an entry denied nobody, and nothing said so.
#[tokio::test]
async fn an_entry_that_lists_nobody_is_logged_with_its_line() {
    let (journal, _guard) = Journal::begin();
    let lists = Lists::start("", "192.0.2.7\nusr=bob\n", "").await;
    let unknown = "an entry of a list has no effect";
    until_logged(&journal, unknown).await;
    let line = &journal.lines(unknown)[0];
    for part in [
        "/deny",
        "line=2",
        "column=1",
        "`usr`",
        "did you mean `user`?",
    ] {
        assert!(line.contains(part), "{part}: {line}");
    }
    assert_eq!(lists.ask("192.0.2.7", "").await, 403);
    assert_eq!(journal.count(unknown), 1, "{}", journal.text());
}
