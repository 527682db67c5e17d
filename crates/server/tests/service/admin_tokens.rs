//! The admin listener demands a token, where the settings name any.

use std::fs;

use tollgate_server::Outcome;

use crate::house::{House, demand_token, replace};
use crate::http_client::{Client, Reply};

const RULES: &str = "domain: d\ndescriptors: [{key: k, rate_limit: 1/day}]\n";
const TOKEN: &str = "first-token-0123456789";
const NEXT: &str = "next-token-0123456789";

/// A service that demands a token of its file.
async fn guarded() -> House {
    House::with(RULES, |config| {
        demand_token(config, TOKEN);
    })
    .await
}

async fn get(house: &House, path: &str, header: &str) -> Reply {
    let request = format!("GET {path} HTTP/1.1\r\nhost: h\r\n{header}\r\n");
    let mut client = Client::to(house.admin()).await;
    client.send(request.as_bytes()).await;
    client.reply().await.unwrap()
}

#[tokio::test]
async fn what_shows_keys_or_rules_demands_a_token_and_probes_and_scrapes_do_not() {
    let house = guarded().await;
    let right = format!("authorization: Bearer {TOKEN}\r\n");
    for path in [
        "/v1/rules",
        "/v1/explain?domain=d&descriptor=k%3Dv",
        "/v1/headroom",
    ] {
        let missing = get(&house, path, "").await;
        let challenge = missing.header("www-authenticate").unwrap().to_owned();
        assert_eq!(challenge, r#"Bearer realm="tollgate admin""#);
        assert!(
            missing
                .problem(401)
                .contains("`Authorization: Bearer TOKEN`")
        );
        let wrong = get(&house, path, "authorization: Bearer wrong\r\n").await;
        let challenge = wrong.header("www-authenticate").unwrap().to_owned();
        assert!(
            challenge.ends_with(r#", error="invalid_token""#),
            "{challenge}"
        );
        assert!(!wrong.problem(401).contains("wrong"));
        assert_eq!(get(&house, path, &right).await.status, 200);
    }
    for path in ["/healthz", "/readyz", "/metrics"] {
        let open = get(&house, path, "").await;
        assert_eq!(open.status, 200);
        assert!(!open.body.contains(TOKEN));
    }
    let metrics = get(&house, "/metrics", "").await.body;
    let expected = r#"request_errors_total{listener="admin",kind="unauthorized"} 6"#;
    assert!(metrics.contains(expected), "{metrics}");
}

#[tokio::test]
async fn hostile_credentials_are_answered_and_the_connection_goes_on() {
    let house = guarded().await;
    let mut client = Client::to(house.admin()).await;
    let long = [b"Bearer ", &[b'x'; 4000][..]].concat();
    for credentials in [
        &b"Bearer \xff\xfe"[..],
        b"Bearer \xc3\xa9",
        b"Bearer",
        &long,
    ] {
        let head = b"GET /v1/rules HTTP/1.1\r\nhost: h\r\nauthorization: ";
        client
            .send(&[head, credentials, b"\r\n\r\n"].concat())
            .await;
        assert_eq!(client.reply().await.unwrap().status, 401);
    }
}

#[tokio::test]
async fn a_token_is_replaced_without_a_restart() {
    let house = guarded().await;
    let [old, new] = [TOKEN, NEXT].map(|token| format!("authorization: Bearer {token}\r\n"));
    replace(&house.path("tokens"), &format!("{TOKEN}\n{NEXT}\n"));
    assert_eq!(house.running.reload().await, Outcome::InEffect);
    assert_eq!(get(&house, "/v1/rules", &old).await.status, 200);
    assert_eq!(get(&house, "/v1/rules", &new).await.status, 200);
    let mut page = Client::to(house.admin()).await;
    let events = format!("GET /v1/dashboard/events HTTP/1.1\r\nhost: h\r\n{old}\r\n");
    page.send(events.as_bytes()).await;
    page.read_until("data: ").await;
    replace(&house.path("tokens"), NEXT);
    house.running.reload().await;
    assert_eq!(get(&house, "/v1/rules", &old).await.status, 401);
    // A page that was open ends with its token.
    page.read_until("0\r\n\r\n").await;
    fs::remove_file(house.path("tokens")).unwrap();
    house.running.reload().await;
    assert_eq!(get(&house, "/v1/rules", &new).await.status, 200);
}
