//! The dashboard's files and events, as a client without a browser sees them.

use serde_json::Value;

use crate::house::{House, demand_token, replace};
use crate::http_client::Client;

const RULES: &str = "domain: d\ndescriptors:\n  \
    - {key: k, rate_limit: {name: twice, unit: day, requests_per_unit: 2}}\n";
const EVENTS: &str = "GET /v1/dashboard/events HTTP/1.1\r\nhost: localhost\r\n\r\n";
/// As in `dashboard.rs`.
const PAGES_MAX: usize = 16;

/// Opens a stream of events.
async fn open(house: &House) -> Client {
    let mut client = Client::to(house.admin()).await;
    client.send(EVENTS.as_bytes()).await;
    let head = client.read_until("\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
    assert!(
        head.contains("content-type: text/event-stream\r\n"),
        "{head}"
    );
    assert!(head.contains("cache-control: no-store\r\n"), "{head}");
    client
}

async fn next(client: &mut Client) -> Value {
    let event = client.read_until("\n\n").await;
    let (_, data) = event.split_once("data: ").unwrap();
    serde_json::from_str(data.trim_end()).unwrap()
}

async fn check(house: &House, value: &str) -> u16 {
    let body = serde_json::json!({"domain": "d", "descriptors": [{"k": value}]});
    let mut client = Client::to(house.http()).await;
    client.post("/v1/check", &body.to_string()).await.status
}

#[tokio::test]
async fn events_have_what_was_decided_and_hide_values() {
    let house = House::on(RULES).await;
    check(&house, "before").await;
    let mut page = open(&house).await;
    let first = next(&mut page).await;
    assert_eq!(first["outcomes"]["allowed"], 1);
    // Nothing was counted before there was a page.
    assert_eq!(first["keys"]["decisions"], 0);
    for expected in [200, 200, 429, 429, 429] {
        assert_eq!(check(&house, "hunter2").await, expected);
    }
    let mut event = next(&mut page).await;
    while event["keys"]["denials"] != 3 {
        event = next(&mut page).await;
    }
    assert_eq!(
        event["outcomes"],
        serde_json::json!({"allowed": 3, "denied": 3})
    );
    let denied = &event["keys"]["mostDenied"][0];
    assert_eq!([&denied["count"], &denied["error"]], [3, 0]);
    assert_eq!(denied["entries"][0][0], "k");
    assert_eq!(denied["entries"][0][1].as_str().unwrap().len(), 13);
    assert!(!event.to_string().contains("hunter2"), "{event}");
    let rule = &event["rules"][0];
    let names = [&rule["domain"], &rule["rule"], &rule["name"]];
    assert_eq!(names, ["d", "k", "twice"]);
    assert_eq!(
        [&rule["budget"]["used"], &rule["budget"]["capacity"]],
        [2, 2]
    );
    let latency = event["latency"]["http"].as_array().unwrap();
    assert_eq!(latency.last().unwrap()[1], 6);
    assert_eq!(event["memory"]["liveKeys"].as_u64(), Some(1));
}

#[tokio::test]
async fn a_failed_reload_is_in_the_events() {
    let house = House::on(RULES).await;
    replace(&house.path("rules.yaml"), "domain: d\nx: <b>\n");
    house.running.reload().await;
    let event = next(&mut open(&house).await).await;
    let reloads = &event["reloads"];
    assert_eq!(reloads["ok"], 1);
    // The change of the file may be noticed as well, and is then a reload of its own.
    let recent = reloads["recent"].as_array().unwrap();
    assert!((2..=3).contains(&recent.len()), "{reloads}");
    assert_eq!(reloads["failed"], recent.len() - 1);
    let latest = &recent[0];
    assert_eq!(latest["ok"], false);
    assert_eq!(
        [&latest["diagnostics"][0]["line"], &latest["rules"]],
        [2, 1]
    );
    assert_eq!(recent.last().unwrap()["ok"], true);
}

#[tokio::test]
async fn pages_are_bounded_and_one_that_is_closed_makes_room() {
    let house = House::on(RULES).await;
    let mut pages = Vec::new();
    for _ in 0..PAGES_MAX {
        let mut page = open(&house).await;
        next(&mut page).await;
        pages.push(page);
    }
    let one_more = Client::to(house.admin())
        .await
        .get("/v1/dashboard/events")
        .await;
    assert!(one_more.problem(503).contains("16 dashboards are open"));
    pages.truncate(1);
    // The service notices the ends at the next events.
    loop {
        next(&mut pages[0]).await;
        let mut client = Client::to(house.admin()).await;
        client.send(EVENTS.as_bytes()).await;
        if client.read_until("\r\n").await.contains(" 200 ") {
            break;
        }
    }
}

#[tokio::test]
async fn events_demand_a_token_and_the_files_do_not() {
    let house = House::with(RULES, |config| {
        demand_token(config, "0123456789abcdef");
    })
    .await;
    let mut client = Client::to(house.admin()).await;
    assert_eq!(client.get("/v1/dashboard/events").await.status, 401);
    let page = client.get("/").await;
    assert_eq!(page.status, 200);
    let policy = page.header("content-security-policy").unwrap();
    assert!(
        policy.starts_with("default-src 'none'; script-src 'self';"),
        "{policy}"
    );
    assert!(!policy.contains("unsafe"), "{policy}");
    // Whatever the page names is here.
    for part in page.body.split(['"', '\'']) {
        if part.starts_with("/dashboard/") {
            assert_eq!(client.get(part).await.status, 200, "{part}");
        }
        assert!(!part.contains("//"), "{part}");
    }
}

#[tokio::test]
async fn open_pages_do_not_delay_the_stop() {
    let house = House::on(RULES).await;
    let mut page = open(&house).await;
    next(&mut page).await;
    house.running.stop().await;
    page.rest().await;
}
