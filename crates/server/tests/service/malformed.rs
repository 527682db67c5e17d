//! Invalid requests get an error each, and the service goes on.

use std::time::Duration;

use prost::Message;
use tollgate_rls::rate_limit_response::Code as Code2;
use tollgate_rls::{RateLimitRequest, RateLimitResponse};
use tonic::Code;

use crate::grpc_client;
use crate::house::House;
use crate::http_client::Client;

const RULES: &str = "domain: d\ndescriptors: [{key: k, rate_limit: 1000/day}]\n";
const GOOD: &str = r#"{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"v"}]}]}"#;

/// The service still answers at both listeners.
async fn goes_on(house: &House) {
    let mut client = Client::to(house.http()).await;
    assert_eq!(client.post("/json", GOOD).await.status, 200);
    assert_eq!(client.post("/v1/check", GOOD).await.status, 200);
    let client = grpc_client::Client::to(house.grpc()).await;
    client.ask(GOOD).await.unwrap();
}

fn good() -> RateLimitRequest {
    serde_json::from_str(GOOD).unwrap()
}

#[tokio::test]
async fn bodies_that_cannot_be_decided_on() {
    let house = House::on(RULES).await;
    let mut client = Client::to(house.http()).await;
    let entries = r#""entries":[{"key":"k","value":"v"}]"#;
    let one = |descriptor: &str| format!(r#"{{"domain":"d","descriptors":[{{{descriptor}}}]}}"#);
    let cases = [
        (String::new(), "EOF"),
        ("{".to_owned(), "EOF"),
        ("nonsense".to_owned(), "expected"),
        ("{}".to_owned(), "rate limit domain must not be empty"),
        (
            r#"{"domain":"d"}"#.to_owned(),
            "rate limit descriptor list must not be empty",
        ),
        (one(r#""entries":[]"#), "has no entries"),
        (one(r#""entries":[{"value":"v"}]"#), "has an empty key"),
        (
            one(&format!(
                r#"{entries},"limit":{{"requestsPerUnit":1,"unit":"EON"}}"#
            )),
            "unknown variant `EON`",
        ),
        (
            one(&format!(
                r#"{entries},"limit":{{"requestsPerUnit":1,"unit":99}}"#
            )),
            "99",
        ),
        (
            one(&format!(r#"{entries},"limit":{{"requestsPerUnit":1}}"#)),
            "limit.unit is 0",
        ),
        (
            r#"{"domain":"d","hitsAddend":4294967296}"#.to_owned(),
            "hitsAddend and requestsPerUnit are whole numbers",
        ),
        (
            r#"{"domain":"d","hitsAddend":-1}"#.to_owned(),
            "hitsAddend and requestsPerUnit are whole numbers",
        ),
        ("[".repeat(200_000), "invalid type"),
    ];
    for (body, expected) in cases {
        let detail = client.post("/json", &body).await.problem(400);
        assert!(detail.contains(expected), "{expected}: {detail}");
    }
    goes_on(&house).await;
}

#[tokio::test]
async fn messages_that_cannot_be_decided_on() {
    let house = House::on(RULES).await;
    let client = grpc_client::Client::to(house.grpc()).await;
    let mut cases: Vec<(RateLimitRequest, &str)> = Vec::new();
    let mut case = |expected, change: fn(&mut RateLimitRequest)| {
        let mut message = good();
        change(&mut message);
        cases.push((message, expected));
    };
    case("domain must not be empty", |m| m.domain.clear());
    case("descriptor list must not be empty", |m| {
        m.descriptors.clear();
    });
    case("has no entries", |m| m.descriptors[0].entries.clear());
    case("has an empty key", |m| {
        m.descriptors[0].entries[0].key.clear();
    });
    case("limit.unit is 77", |m| {
        m.descriptors[0].limit = Some(tollgate_rls::rate_limit_descriptor::RateLimitOverride {
            requests_per_unit: 1,
            unit: 77,
        });
    });
    for (message, expected) in cases {
        let status = client.send(message).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
        assert!(status.message().contains(expected), "{status:?}");
    }
    goes_on(&house).await;
}

/// A message whose domain is a number.
#[derive(Clone, PartialEq, Message)]
struct Wrong {
    #[prost(uint32, tag = "1")]
    domain: u32,
}

#[tokio::test]
async fn sizes_that_a_client_chooses_are_limited_like_any_others() {
    let house = House::on("domain: d\ndescriptors: [{key: k, rate_limit: 1/day}]\n").await;
    let client = grpc_client::Client::to(house.grpc()).await;
    let cases: [fn(&mut RateLimitRequest); 4] = [
        |m| m.descriptors[0].entries[0].value = b"v".repeat(500_000).into(),
        |m| {
            m.descriptors[0].entries[0].value = b"many"[..].into();
            let nowhere = good().descriptors[0].clone();
            m.descriptors.extend(vec![nowhere; 200]);
            m.descriptors[1..]
                .iter_mut()
                .for_each(|one| one.entries[0].key = b"x"[..].into());
        },
        // The most descriptors that are decided, each with the largest headers that Envoy accepts.
        |m| {
            m.descriptors[0].entries[0].value = b"h".repeat(60 * 1024).into();
            let same = m.descriptors[0].clone();
            m.descriptors.extend(vec![same; 127]);
            m.descriptors[1..]
                .iter_mut()
                .for_each(|one| one.entries[0].key = b"x"[..].into());
        },
        |m| m.descriptors[0].hits_addend = Some(u64::MAX.into()),
    ];
    for (index, change) in cases.into_iter().enumerate() {
        let mut message = good();
        change(&mut message);
        let answer = client.send(message.clone()).await.unwrap();
        let expected = if index < 3 {
            Code2::Ok
        } else {
            Code2::OverLimit
        };
        assert_eq!(answer.overall_code(), expected, "{index}");
        assert!(answer.statuses.len() <= 128, "{index}");
        let answer = client.send(message).await.unwrap();
        assert_eq!(answer.overall_code(), Code2::OverLimit, "{index}");
    }
    let metrics = Client::to(house.admin()).await.get("/metrics").await.body;
    assert!(
        metrics.contains("descriptors_left_out_total{listener=\"grpc\"} 146"),
        "{metrics}"
    );
}

#[tokio::test]
async fn bytes_that_are_not_utf8_are_limited_like_any_others() {
    let rules = "domain: d\ndescriptors: [{key: k, rate_limit: 1/day, detailed_metric: true}]\n";
    let house = House::on(rules).await;
    let client = grpc_client::Client::to(house.grpc()).await;
    let mut message = good();
    for value in [&b"a\xff"[..], b"a\xfe", b"\xed\xa0\x80", b"\n\x00"] {
        message.descriptors[0].entries[0].value = value.into();
        let first = client.send(message.clone()).await.unwrap();
        assert_eq!(first.overall_code(), Code2::Ok, "{value:?}");
        let second = client.send(message.clone()).await.unwrap();
        assert_eq!(second.overall_code(), Code2::OverLimit, "{value:?}");
    }
    let mut elsewhere = message.clone();
    elsewhere.domain = b"d\xff"[..].into();
    let answer = client.send(elsewhere).await.unwrap();
    assert_eq!(answer.overall_code(), Code2::Ok);
    let json =
        b"{\"domain\":\"d\",\"descriptors\":[{\"entries\":[{\"key\":\"k\",\"value\":\"a\xff\"}]}]}";
    let mut client = Client::to(house.http()).await;
    let head = format!(
        "POST /json HTTP/1.1\r\nhost: h\r\ncontent-length: {}\r\n\r\n",
        json.len()
    );
    client.send(&[head.as_bytes(), json].concat()).await;
    assert_eq!(client.reply().await.unwrap().status, 429);
    let metrics = Client::to(house.admin()).await.get("/metrics").await.body;
    assert!(
        metrics.contains(r#"rule="k_a\\xff",outcome="denied""#),
        "{metrics}"
    );
}

/// A message with a domain of any bytes.
#[derive(Clone, PartialEq, Message)]
struct Bytes {
    #[prost(bytes = "vec", tag = "1")]
    domain: Vec<u8>,
}

#[tokio::test]
async fn messages_that_cannot_be_read() {
    let house = House::on(RULES).await;
    let client = grpc_client::Client::to(house.grpc()).await;
    let path = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
    let answer = client
        .call::<_, RateLimitResponse>(path, Wrong { domain: 1 })
        .await;
    let status = answer.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
    assert!(status.message().contains("cannot be read"), "{status:?}");
    let domain = vec![b'd'; 10 * 1024 * 1024];
    let answer = client
        .call::<_, RateLimitResponse>(path, Bytes { domain })
        .await;
    let status = answer.unwrap_err();
    assert_eq!(status.code(), Code::OutOfRange, "{status:?}");
    let status = client
        .call::<_, RateLimitResponse>("/no.such.Service/Method", good())
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::Unimplemented);
    goes_on(&house).await;
}

#[tokio::test]
async fn ten_megabytes_are_rejected_before_they_are_read() {
    let house = House::on(RULES).await;
    for path in ["/json", "/v1/check", "/v1/settle"] {
        let mut client = Client::to(house.http()).await;
        let head = format!("POST {path} HTTP/1.1\r\nhost: h\r\ncontent-length: 10485760\r\n\r\n");
        client.send(head.as_bytes()).await;
        let detail = client.reply().await.unwrap().problem(413);
        assert!(detail.contains("262144 bytes"), "{detail}");
        // A chunked body does not announce its length.
        let mut client = Client::to(house.http()).await;
        let head = format!("POST {path} HTTP/1.1\r\nhost: h\r\ntransfer-encoding: chunked\r\n\r\n");
        client.send(head.as_bytes()).await;
        client.send(b"40001\r\n").await;
        client.send(&vec![b' '; 0x40001]).await;
        client.reply().await.unwrap().problem(413);
    }
    goes_on(&house).await;
}

#[tokio::test]
async fn requests_that_are_no_http() {
    let house = House::on(RULES).await;
    let mut client = Client::to(house.http()).await;
    client.send(b"\x16\x03\x01\x02\x00 hello\r\n\r\n").await;
    assert_eq!(client.reply().await.unwrap().status, 400);
    let mut client = Client::to(house.http()).await;
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(100_000));
    client.send(long.as_bytes()).await;
    let status = client.reply().await.unwrap().status;
    assert!(matches!(status, 414 | 431), "{status}");
    let mut client = Client::to(house.http()).await;
    let long = format!("GET / HTTP/1.1\r\nx: {}\r\n\r\n", "x".repeat(1_000_000));
    client.send(long.as_bytes()).await;
    assert_eq!(client.reply().await.unwrap().status, 431);
    let mut client = Client::to(house.grpc()).await;
    client.send(b"GET / HTTP/1.1\r\nhost: h\r\n\r\n").await;
    let reply = client.reply().await.unwrap();
    assert_eq!(reply.status, 505);
    assert!(reply.body.contains("gRPC"), "{reply:?}");
    goes_on(&house).await;
}

/// They were charged.
#[tokio::test]
async fn requests_before_one_that_ends_early_are_answered() {
    let house = House::on(RULES).await;
    let mut client = Client::to(house.http()).await;
    let body = r#"{"domain": "shop", "descriptors": [{"user": "ann"}]}"#;
    let request = format!(
        "POST /v1/check HTTP/1.1\r\nhost: h\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    let pipeline = request.repeat(40) + "POST /v1/check HT";
    client.send(pipeline.as_bytes()).await;
    client.end_sending().await;
    let answers = String::from_utf8(client.rest().await).unwrap();
    assert_eq!(answers.matches("HTTP/1.1 ").count(), 40, "{answers}");
    goes_on(&house).await;
}

#[tokio::test]
async fn paths_methods_and_media_types_that_are_not_served() {
    let house = House::on(RULES).await;
    let mut client = Client::to(house.http()).await;
    let detail = client.get("/nowhere").await.problem(404);
    assert!(detail.contains("/nowhere"), "{detail}");
    let reply = client.get("/json").await;
    assert!(reply.problem(405).contains("GET"));
    assert_eq!(reply.header("allow"), Some("POST"));
    client
        .send(
            b"POST /v1/check HTTP/1.1\r\nhost: h\r\n\
              content-type: text/xml\r\ncontent-length: 0\r\n\r\n",
        )
        .await;
    client.reply().await.unwrap().problem(415);
    let mut client = Client::to(house.admin()).await;
    client.get("/nowhere").await.problem(404);
    goes_on(&house).await;
}

#[tokio::test]
async fn slow_senders_are_disconnected() {
    let house = House::with(RULES, |config| {
        config.limits.header_timeout = Duration::from_millis(100);
        config.limits.body_timeout = Duration::from_millis(100);
        config.limits.connections = 2;
    })
    .await;
    let mut head = Client::to(house.http()).await;
    head.send(b"POST /json HTTP/1.1\r\nhost: h\r\n").await;
    assert_eq!(head.reply().await.unwrap().status, 408);
    assert!(head.is_closed().await);
    let mut body = Client::to(house.http()).await;
    body.send(b"POST /json HTTP/1.1\r\nhost: h\r\ncontent-length: 99\r\n\r\n{")
        .await;
    let detail = body.reply().await.unwrap().problem(408);
    assert!(detail.contains("100ms"), "{detail}");
    let mut silent = Client::to(house.grpc()).await;
    assert!(silent.is_closed().await);
    let mut halting = Client::to(house.grpc()).await;
    halting.send(b"PRI * HT").await;
    assert!(halting.is_closed().await);
    // Each listener has two connections, so four slow clients would occupy them all.
    drop(body);
    goes_on(&house).await;
}

#[tokio::test]
async fn a_grpc_message_that_does_not_arrive_times_out() {
    let house = House::with(RULES, |config| {
        config.limits.body_timeout = Duration::from_millis(100);
    })
    .await;
    let client = grpc_client::Client::to(house.grpc()).await;
    let status = client.ask_without_end().await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status:?}");
    goes_on(&house).await;
}
