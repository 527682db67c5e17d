//! Reservations over HTTP: `/v1/check` with `reserve`, and `/v1/settle`.

use serde_json::{Value, json};
use tollgate_core::Span;
use tollgate_server::ReservationBounds;

use crate::eventually::eventually;
use crate::house::House;
use crate::http_client::{Client, Reply};

const RULES: &str = "
domain: llm
descriptors:
  - key: user
    rate_limit: {name: tokens, unit: day, requests_per_unit: 1000}
";

async fn reserve(client: &mut Client, units: u32) -> Reply {
    let body = json!({
        "domain": "llm", "descriptors": [{"user": "ann"}], "cost": units, "reserve": true,
    });
    client.post("/v1/check", &body.to_string()).await
}

async fn settle(client: &mut Client, id: &Value, units: u64) -> Reply {
    let body = json!({"reservation": id, "cost": units});
    client.post("/v1/settle", &body.to_string()).await
}

async fn remaining(client: &mut Client) -> Value {
    let body = r#"{"domain":"llm","descriptors":[{"user":"ann"}],"peek":true}"#;
    let reply = client.post("/v1/check", body).await;
    reply.json()["limits"][0]["remaining"].clone()
}

#[tokio::test]
async fn an_estimate_is_charged_and_settled_once() {
    let house = House::on(RULES).await;
    let mut client = Client::to(house.http()).await;
    let reply = reserve(&mut client, 600).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let reservation = &reply.json()["reservation"];
    assert_eq!(reservation["expiresIn"], "3600s");
    assert_eq!(reply.json()["limits"][0]["remaining"], 400);
    let id = &reservation["id"];
    let reply = settle(&mut client, id, 150).await;
    assert_eq!(reply.status, 200, "{reply:?}");
    let expected = json!({
        "reservation": id,
        "limits": [{
            "outcome": "settled", "rule": "user", "name": "tokens",
            "reserved": 600, "charged": 150, "remaining": 850,
        }],
    });
    assert_eq!(reply.json(), expected);
    let again = settle(&mut client, id, 0).await.problem(404);
    assert!(again.contains("settled already"), "{again}");
    assert_eq!(remaining(&mut client).await, 850);
    // More than the estimate: the limit is exhausted, and not more than that.
    let id = &reserve(&mut client, 50).await.json()["reservation"]["id"];
    let reply = settle(&mut client, id, 5_000).await;
    assert_eq!(reply.json()["limits"][0]["charged"], 850);
    let denied = reserve(&mut client, 1).await;
    assert_eq!(denied.status, 429);
    assert_eq!(denied.json()["reservation"], Value::Null);
}

#[tokio::test]
async fn the_description_fits_reservations() {
    let house = House::on(RULES).await;
    let mut client = Client::to(house.http()).await;
    let document = client.get("/openapi.json").await.json();
    let schemas = &document["components"]["schemas"];
    let reply = reserve(&mut client, 10).await.json();
    let described = &schemas["Reservation"]["properties"];
    for member in reply["reservation"].as_object().unwrap().keys() {
        assert!(described[member].is_object(), "{member}");
    }
    let reply = settle(&mut client, &reply["reservation"]["id"], 1).await;
    let described = &schemas["SettledLimit"];
    let limit = &reply.json()["limits"][0];
    for member in limit.as_object().unwrap().keys() {
        assert!(described["properties"][member].is_object(), "{member}");
    }
    for required in described["required"].as_array().unwrap() {
        assert!(!limit[required.as_str().unwrap()].is_null(), "{required}");
    }
}

#[tokio::test]
async fn a_reservation_expires_and_stays_charged() {
    let house = House::on(RULES).await;
    let mut client = Client::to(house.http()).await;
    let id = &reserve(&mut client, 600).await.json()["reservation"]["id"];
    house.clock.advance(Span::HOUR);
    let detail = settle(&mut client, id, 0).await.problem(404);
    assert!(detail.contains("expired"), "{detail}");
    assert_eq!(remaining(&mut client).await, 400);
}

#[tokio::test]
async fn what_cannot_be_reserved_or_settled_is_an_error() {
    let house = House::with(RULES, |config| {
        config.reservations = ReservationBounds {
            max: 1,
            lifetime: Span::HOUR,
        };
    })
    .await;
    let mut client = Client::to(house.http()).await;
    for rest in [r#""peek":true"#, r#""cost":-1"#] {
        let body =
            format!(r#"{{"domain":"llm","descriptors":[{{"user":"ann"}}],"reserve":true,{rest}}}"#);
        let detail = client.post("/v1/check", &body).await.problem(400);
        assert!(detail.contains("`reserve`"), "{detail}");
    }
    let descriptors: Vec<Value> = (0..17).map(|user| json!({"user": user})).collect();
    let many = json!({"domain": "llm", "descriptors": descriptors, "reserve": true});
    let detail = client.post("/v1/check", &many.to_string()).await;
    assert!(detail.problem(400).contains("16 is the most"));
    assert_eq!(reserve(&mut client, 600).await.status, 200);
    let detail = reserve(&mut client, 100).await.problem(503);
    assert!(detail.contains("`reservations.max`"), "{detail}");
    assert_eq!(remaining(&mut client).await, 400);
    let unknown = json!("00000000000000000000000000000000");
    settle(&mut client, &unknown, 1).await.problem(404);
    settle(&mut client, &json!("no id"), 1).await.problem(400);
    settle(&mut client, &unknown, u64::MAX).await.problem(400);
    let mut admin = Client::to(house.admin()).await;
    let metrics = admin.get("/metrics").await.body;
    for line in [
        "tollgate_reservations 1\n",
        "tollgate_reservations_max 1\n",
        r#"tollgate_request_errors_total{listener="http",kind="reservations_full"} 1"#,
        r#"tollgate_request_errors_total{listener="http",kind="unknown_reservation"} 1"#,
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
}

#[tokio::test]
async fn a_reservation_outlives_a_reload() {
    let house = House::on(RULES).await;
    let mut client = Client::to(house.http()).await;
    let id = &reserve(&mut client, 600).await.json()["reservation"]["id"];
    let larger = RULES.replace("1000", "2000");
    crate::house::replace(&house.path("rules.yaml"), &larger);
    house.running.reload().await;
    let reply = settle(&mut client, id, 100).await.json();
    assert_eq!(reply["limits"][0]["charged"], 100);
    assert_eq!(reply["limits"][0]["remaining"], 1_900);
}

/// A client that goes away before it reads the id can settle nothing: its estimate stays charged.
#[tokio::test]
async fn a_client_that_goes_away_leaves_its_estimate_charged() {
    let house = House::on(RULES).await;
    let mut admin = Client::to(house.admin()).await;
    let mut goes = Client::to(house.http()).await;
    let body = json!({
        "domain": "llm", "descriptors": [{"user": "ann"}], "cost": 600, "reserve": true,
    });
    let body = body.to_string();
    let head = format!(
        "POST /v1/check HTTP/1.1\r\nhost: h\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    goes.send((head + &body).as_bytes()).await;
    let is_open = |metrics: &str| metrics.contains("tollgate_reservations 1\n");
    eventually(async || is_open(&admin.get("/metrics").await.body)).await;
    drop(goes);
    let mut client = Client::to(house.http()).await;
    assert_eq!(remaining(&mut client).await, 400);
    house.clock.advance(Span::HOUR);
    assert!(!is_open(&admin.get("/metrics").await.body));
    assert_eq!(remaining(&mut client).await, 400);
}

#[tokio::test]
async fn bytes_that_are_no_text_are_an_error() {
    let house = House::on(RULES).await;
    let mut client = Client::to(house.http()).await;
    for body in [
        &b"\xff\xfe"[..],
        b"{\"reservation\":\"\xff\",\"cost\":1}",
        b"\0",
    ] {
        let head = format!(
            "POST /v1/settle HTTP/1.1\r\nhost: h\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        client.send(&[head.as_bytes(), body].concat()).await;
        client.reply().await.unwrap().problem(400);
    }
}
