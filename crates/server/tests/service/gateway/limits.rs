//! Which requests reach the upstream, and what their clients see.

use std::net::SocketAddr;
use std::sync::atomic::Ordering;

use tokio::task::JoinSet;
use tollgate_core::Span;
use tollgate_server::Place;
use tollgate_testbed::{Journal, Redis};

use super::upstream::{Echo, Stage};
use super::{FREE, RULES, gateway, gateway_with, section};
use crate::eventually::eventually;
use crate::house::House;
use crate::http_client::Client;
use crate::over_redis::at;

#[tokio::test]
async fn a_client_is_allowed_up_to_its_limit_and_the_rest_never_reaches_the_upstream() {
    let upstream = Echo::start().await;
    let house = gateway(upstream.address, "").await;
    let mut client = Client::to(house.gateway()).await;
    for remaining in [1, 0] {
        let allowed = client.post("/a?b=c", "hello").await;
        assert_eq!((allowed.status, allowed.body.as_str()), (200, "hello"));
        let expected = format!("\"remote_address\";r={remaining};t=3600");
        assert_eq!(allowed.header("ratelimit"), Some(expected.as_str()));
        assert_eq!(allowed.header("x-upstream"), Some("echo"));
        assert_eq!(allowed.header("via"), Some("1.1 tollgate"));
        assert_eq!(allowed.header("keep-alive"), None);
    }
    let denied = client.post("/a", "hello").await;
    let detail = denied.problem(429);
    assert!(detail.contains("limit \"remote_address\""), "{detail}");
    assert_eq!(denied.header("retry-after"), Some("3600"));
    assert_eq!(denied.header("x-upstream"), None);
    let id = denied.header("x-request-id").unwrap();
    let path = format!("/v1/explain?request_id={id}");
    let explained = Client::to(house.admin()).await.get(&path).await.json();
    assert_eq!(explained["denial"]["deniedBy"], "remote_address");
    let seen = upstream.requests();
    assert_eq!(seen.len(), 2);
    assert_eq!(seen[0].target, "/a?b=c");
    assert_eq!(
        seen[0].fields,
        [
            "content-length: 5",
            "host: localhost",
            "via: 1.1 tollgate",
            "x-forwarded-for: 127.0.0.1",
            "x-forwarded-host: localhost",
            "x-forwarded-proto: http",
            "x-real-ip: 127.0.0.1",
        ]
    );
    assert_eq!(upstream.connections.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn what_a_client_says_about_itself_changes_nothing() {
    let upstream = Echo::start().await;
    let house = gateway(upstream.address, "").await;
    let mut statuses = Vec::new();
    for n in 0..3 {
        let mut client = Client::to(house.gateway()).await;
        let head = format!(
            "GET / HTTP/1.1\r\nhost: h\r\nx-forwarded-for: 10.0.0.{n}\r\nforwarded: for=10.0.0.{n}\
             \r\nx-real-ip: 10.0.0.{n}\r\nconnection: x-forwarded-for, x-real-ip\r\n\r\n"
        );
        client.send(head.as_bytes()).await;
        statuses.push(client.reply().await.unwrap().status);
    }
    assert_eq!(statuses, [200, 200, 429]);
    for seen in upstream.requests() {
        assert!(!seen.fields.iter().any(|field| field.contains("10.0.0.")));
        assert!(
            seen.fields
                .contains(&"x-forwarded-for: 127.0.0.1".to_owned())
        );
    }
}

/// All clients of a proxy that is missing in `trusted_proxies` share a limit: that has to be seen.
#[tokio::test]
async fn forwarded_requests_that_count_as_the_proxys_are_counted_and_logged_once() {
    let (journal, _guard) = Journal::begin();
    let upstream = Echo::start().await;
    for (addresses, line, logged) in [
        ("", "no_trusted_proxy\"} 2", 1),
        (
            "{source: x-forwarded-for, trusted_proxies: [192.0.2.0/24]}",
            "untrusted_peer\"} 3",
            1,
        ),
        (
            "{source: x-real-ip, trusted_proxies: [127.0.0.0/8]}",
            "absent\"} 3",
            0,
        ),
        (
            "{source: x-forwarded-for, trusted_proxies: [127.0.0.0/8]}",
            "absent\"} 1",
            0,
        ),
    ] {
        let addresses = match addresses {
            "" => String::new(),
            text => format!("client_address: {text}, "),
        };
        let more = FREE.replace("identity: {", &format!("identity: {{{addresses}"));
        let house = gateway(upstream.address, &more).await;
        let mut client = Client::to(house.gateway()).await;
        let already = journal.count("count as that proxy's");
        for forwarded in [
            "x-forwarded-for: 10.0.0.7\r\n",
            "x-forwarded-for: 10.0.0.8\r\n",
            "",
        ] {
            let head = format!("GET / HTTP/1.1\r\nhost: h\r\n{forwarded}\r\n");
            client.send(head.as_bytes()).await;
            assert_eq!(client.reply().await.unwrap().status, 200);
        }
        let metrics = Client::to(house.admin()).await.get("/metrics").await.body;
        let name = "tollgate_gateway_client_fallbacks_total{";
        let found: Vec<_> = metrics
            .lines()
            .filter(|text| text.starts_with(name))
            .collect();
        assert!(
            matches!(found[..], [only] if only.ends_with(line)),
            "{line}: {found:?}"
        );
        assert_eq!(
            journal.count("count as that proxy's") - already,
            logged,
            "{line}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_requests_at_once_exactly_as_many_as_the_limit_reach_the_upstream() {
    let upstream = Echo::start().await;
    let rules = RULES.replace("2/hour", "50/hour");
    let house = gateway_with(&rules, section(upstream.address, ""), |_| ()).await;
    let address = house.gateway();
    let mut clients = JoinSet::new();
    for _ in 0..200 {
        clients.spawn(async move { Client::to(address).await.get("/").await.status });
    }
    let statuses = clients.join_all().await;
    let allowed = statuses.iter().filter(|status| **status == 200).count();
    let denied = statuses.iter().filter(|status| **status == 429).count();
    assert_eq!((allowed, denied), (50, 150));
    assert_eq!(upstream.requests().len(), 50);
}

#[tokio::test]
async fn routes_choose_upstream_domain_and_identity() {
    let (shop, login) = (Echo::start().await, Echo::start().await);
    let mut settings = section(
        shop.address,
        "routes: [{name: login, match: {paths: [/login], methods: [POST]}, upstream: api, \
         identity: {descriptors: [{entries: [{key: account, from: {header: x-account}, \
         if_missing: deny}, {key: remote_address, from: client_address}]}]}}, {match: \
         {hosts: [localhost]},          upstream: api}]",
    );
    let mut other = settings.upstreams["api"].clone();
    other.addresses = vec![login.address.to_string()];
    settings.upstreams.insert("login".to_owned(), other);
    settings.routes[0].upstream = Some("login".to_owned());
    let rules = "{domain: api, descriptors: [{key: account, descriptors: [{key: remote_address, \
        rate_limit: 3/hour}]}]}";
    let house = gateway_with(rules, settings, |_| ()).await;
    let mut client = Client::to(house.gateway()).await;
    let mut log_in = async |account: &str| {
        let account = match account {
            "" => String::new(),
            name => format!("x-account: {name}\r\n"),
        };
        let head = "POST /%6cogin HTTP/1.1\r\nhost: localhost\r\n";
        let head = format!("{head}{account}content-length: 0\r\n\r\n");
        client.send(head.as_bytes()).await;
        client.reply().await.unwrap().status
    };
    for (account, status) in [
        ("ann", 200),
        ("ann", 200),
        ("ann", 200),
        ("ann", 429),
        ("bob", 200),
        ("", 403),
    ] {
        assert_eq!(log_in(account).await, status, "{account}");
    }
    assert_eq!(client.get("/login").await.status, 200);
    assert_eq!((login.requests().len(), shop.requests().len()), (4, 1));
    client.send(b"GET / HTTP/1.1\r\nhost: other\r\n\r\n").await;
    let detail = client.reply().await.unwrap().problem(404);
    assert_eq!(detail, "no route matches this request");
    let metrics = Client::to(house.admin()).await.get("/metrics").await.body;
    for expected in [
        r#"tollgate_gateway_requests_total{route="login",outcome="forwarded"} 4"#,
        r#"tollgate_gateway_requests_total{route="login",outcome="denied"} 1"#,
        r#"tollgate_gateway_requests_total{route="login",outcome="not_identified"} 1"#,
        r#"tollgate_gateway_requests_total{route="localhost",outcome="forwarded"} 1"#,
        r#"tollgate_gateway_requests_total{route="",outcome="no_route"} 1"#,
        r#"tollgate_gateway_upstream_seconds_count{upstream="login"} 4"#,
    ] {
        assert!(metrics.contains(expected), "{expected}\n{metrics}");
    }
}

#[tokio::test]
async fn a_request_that_reaches_no_upstream_costs_nothing() {
    let stage = Stage::open().await;
    let address = stage.address();
    drop(stage);
    let house = gateway(address, "").await;
    let mut client = Client::to(house.gateway()).await;
    for _ in 0..5 {
        let detail = client.get("/").await.problem(502);
        assert_eq!(
            detail,
            "the server behind the gateway accepts no connection"
        );
    }
    let metrics = Client::to(house.admin()).await.get("/metrics").await.body;
    for expected in [
        r#"tollgate_gateway_requests_total{route="default",outcome="unreachable"} 5"#,
        r#"tollgate_gateway_upstream_errors_total{upstream="api",kind="unreachable"} 5"#,
    ] {
        assert!(metrics.contains(expected), "{expected}\n{metrics}");
    }
}

#[tokio::test]
async fn a_request_of_a_leaky_bucket_waits_for_its_turn() {
    let upstream = Echo::start().await;
    let queue = FREE.replace("anything", "queue");
    let house = gateway(upstream.address, &queue).await;
    let mut client = Client::to(house.gateway()).await;
    assert_eq!(client.get("/1").await.status, 200);
    let address = house.gateway();
    let held = tokio::spawn(async move { Client::to(address).await.get("/2").await });
    eventually(async || allowed(&house).await >= 2).await;
    // Behind the held one. Its client goes away, and its turn is free again.
    let mut gone = Client::to(address).await;
    gone.send(b"GET /3 HTTP/1.1\r\nhost: h\r\n\r\n").await;
    eventually(async || allowed(&house).await >= 3).await;
    let peek = r#"{"domain": "api", "descriptors": [{"queue": "a"}], "peek": true}"#;
    let mut decisions = Client::to(house.http()).await;
    assert_eq!(decisions.post("/v1/check", peek).await.status, 429);
    drop(gone);
    eventually(async || decisions.post("/v1/check", peek).await.status != 429).await;
    // The limiter's clock stands still, so the request is held until it is moved.
    assert_eq!(upstream.requests().len(), 1);
    house.clock.advance(Span::from_secs(1));
    let reply = held.await.unwrap();
    assert_eq!(reply.status, 200);
    assert_eq!(reply.header("x-tollgate-delay-ms"), Some("100"));
    let targets: Vec<String> = upstream
        .requests()
        .into_iter()
        .map(|seen| seen.target)
        .collect();
    assert_eq!(targets, ["/1", "/2"]);
}

/// The limiter's clock moves by half a second at a time, and one request goes on each time.
#[tokio::test]
async fn of_twenty_requests_at_once_ten_are_answered_half_a_second_apart_and_ten_denied_at_once() {
    const HALF: Span = Span::from_millis(500);
    let upstream = Echo::start().await;
    let rules = "{domain: api, descriptors: [{key: queue, rate_limit: {requests_per_unit: 2, \
        unit: second, algorithm: leaky_bucket, queue: 10}}]}";
    let queue = FREE.replace("anything", "queue");
    let house = gateway_with(rules, section(upstream.address, &queue), |_| ()).await;
    let address = house.gateway();
    let mut clients = JoinSet::new();
    for _ in 0..20 {
        clients.spawn(async move { Client::to(address).await.get("/").await });
    }
    let mut next = async || clients.join_next().await.unwrap().unwrap();
    // At once: the clock stands still until eleven of them are answered.
    let (mut first, mut denied) = (0, 0);
    for _ in 0..11 {
        let reply = next().await;
        match reply.status {
            200 => {
                assert_eq!(reply.header("x-tollgate-delay-ms"), None);
                first += 1;
            }
            _ => {
                reply.problem(429);
                assert_eq!(reply.header("retry-after"), Some("1"));
                denied += 1;
            }
        }
    }
    assert_eq!((first, denied), (1, 10));
    for turn in 1..10_usize {
        assert_eq!(upstream.requests().len(), turn);
        house.clock.advance(HALF);
        let reply = next().await;
        assert_eq!(reply.status, 200, "{reply:?}");
        let delay = (500 * turn).to_string();
        assert_eq!(reply.header("x-tollgate-delay-ms"), Some(&*delay));
    }
    assert_eq!(upstream.requests().len(), 10);
    assert!(clients.is_empty());
}

/// Over Redis, whose clock goes on: turns are half an hour apart, so that none comes meanwhile.
#[tokio::test]
async fn of_twenty_requests_at_once_over_redis_one_is_answered_nine_are_held_and_ten_denied() {
    let (upstream, redis) = (Echo::start().await, Redis::start());
    let rules = "{domain: api, descriptors: [{key: queue, rate_limit: {requests_per_unit: 2, \
        unit: hour, algorithm: leaky_bucket, queue: 10}}]}";
    let queue = FREE.replace("anything", "queue");
    let settings = section(upstream.address, &queue);
    let house = gateway_with(rules, settings, |config| config.store = at(&redis)).await;
    let address = house.gateway();
    let mut clients = JoinSet::new();
    for _ in 0..20 {
        clients.spawn(async move { Client::to(address).await.get("/").await.status });
    }
    let mut statuses = Vec::new();
    for _ in 0..11 {
        statuses.push(clients.join_next().await.unwrap().unwrap());
    }
    statuses.sort_unstable();
    assert_eq!(statuses[0], 200);
    assert_eq!(statuses[1..], [429; 10]);
    // All the others have been allowed, and are held.
    eventually(async || allowed(&house).await >= 10).await;
    assert_eq!(upstream.requests().len(), 1);
    assert!(clients.try_join_next().is_none());
}

/// Over Redis, whose clock goes on: turns are twenty minutes apart.
#[tokio::test]
async fn a_held_request_whose_client_hangs_up_gives_its_turn_back_whatever_the_store() {
    let redis = Redis::start();
    for place in [Place::Memory, at(&redis)] {
        let upstream = Echo::start().await;
        let rules = "{domain: api, descriptors: [{key: queue, rate_limit: {requests_per_unit: 3, \
            unit: hour, algorithm: leaky_bucket, queue: 3}}]}";
        let queue = FREE.replace("anything", "queue");
        let settings = section(upstream.address, &queue);
        let house = gateway_with(rules, settings, |config| config.store = place).await;
        assert_eq!(
            Client::to(house.gateway()).await.get("/1").await.status,
            200
        );
        let mut held = Vec::new();
        for number in 2..=3 {
            let mut client = Client::to(house.gateway()).await;
            let request = format!("GET /{number} HTTP/1.1\r\nhost: h\r\n\r\n");
            client.send(request.as_bytes()).await;
            eventually(async || allowed(&house).await >= number).await;
            held.push(client);
        }
        let reply = Client::to(house.gateway()).await.get("/4").await;
        reply.problem(429);
        let peek = |cost: u32| {
            let descriptors = r#""descriptors": [{"queue": "a"}]"#;
            format!(r#"{{"domain": "api", {descriptors}, "peek": true, "cost": {cost}}}"#)
        };
        let mut decisions = Client::to(house.http()).await;
        // One turn is free again, and then two.
        for free in 1..=2 {
            assert_eq!(decisions.post("/v1/check", &peek(free)).await.status, 429);
            drop(held.pop());
            eventually(async || decisions.post("/v1/check", &peek(free)).await.status != 429).await;
            let more = decisions.post("/v1/check", &peek(free + 1)).await;
            assert_eq!(more.status, 429);
        }
        let seen = upstream.requests();
        assert_eq!(seen.len(), 1, "{seen:?}");
    }
}

/// How many decisions have allowed a request.
async fn allowed(house: &House) -> u64 {
    count_decisions(house.admin(), "allowed").await
}

/// How many decisions of the rule `queue` a service has made, with this outcome.
pub(super) async fn count_decisions(admin: SocketAddr, outcome: &str) -> u64 {
    let metrics = Client::to(admin).await.get("/metrics").await.body;
    let name =
        format!(r#"tollgate_decisions_total{{domain="api",rule="queue",outcome="{outcome}"}} "#);
    let count = metrics.lines().find_map(|line| line.strip_prefix(&*name));
    count.map_or(0, |count| count.parse().unwrap())
}

#[tokio::test]
async fn without_the_store_each_limit_does_what_it_says() {
    let upstream = Echo::start().await;
    let redis = Redis::start();
    redis.kill();
    for (choice, status) in [
        ("allow", 200),
        ("deny", 429),
        ("error", 503),
        ("local", 200),
    ] {
        let rules = format!(
            "{{domain: api, on_store_error: {choice}, descriptors: [{{key: remote_address, \
             rate_limit: 1/hour}}]}}"
        );
        let settings = section(upstream.address, "");
        let house = gateway_with(&rules, settings, |config| config.store = at(&redis)).await;
        let reply = Client::to(house.gateway()).await.get("/").await;
        assert_eq!(reply.status, status, "{choice}: {reply:?}");
    }
}

/// A cache in front that keeps responses with status 200 would serve an empty one to all clients.
#[tokio::test]
async fn only_a_post_is_denied_as_grpc_is_and_no_denial_may_be_stored() {
    let upstream = Echo::start().await;
    let house = gateway(upstream.address, "").await;
    let mut client = Client::to(house.gateway()).await;
    for _ in 0..2 {
        assert_eq!(client.get("/").await.status, 200);
    }
    for (method, status) in [("GET", 429), ("DELETE", 429), ("POST", 200)] {
        let head = format!("{method} / HTTP/1.1\r\nhost: h\r\ncontent-type: application/grpc\r\n");
        client
            .send((head + "content-length: 0\r\n\r\n").as_bytes())
            .await;
        let denied = client.reply().await.unwrap();
        assert_eq!(denied.status, status, "{method}: {denied:?}");
        assert_eq!(denied.header("cache-control"), Some("no-store"), "{method}");
        let is_grpc = denied.header("grpc-status") == Some("8");
        assert_eq!(is_grpc, method == "POST", "{denied:?}");
    }
    // Nor may what is answered before any limit: no route, and a path that has no normal form.
    for path in ["/%", "/a%2Fb/%zz"] {
        let failed = client.get(path).await;
        assert!(failed.status >= 400, "{failed:?}");
        assert_eq!(failed.header("cache-control"), Some("no-store"), "{path}");
    }
}

/// An upstream with limits of its own: the client must not believe that more is left than they say.
#[tokio::test]
async fn what_an_upstream_says_of_its_limits_stays() {
    let stage = Stage::open().await;
    let house = gateway(stage.address(), "").await;
    let mut client = Client::to(house.gateway()).await;
    client.send(b"GET / HTTP/1.1\r\nhost: h\r\n\r\n").await;
    let mut upstream = stage.accept().await;
    upstream.head().await;
    let response =
        "HTTP/1.1 200 OK\r\nratelimit: \"upstream\";r=0;t=9\r\ncontent-length: 0\r\n\r\n";
    upstream.send(response).await;
    let reply = client.reply().await.unwrap();
    for line in [
        r#"ratelimit: "upstream";r=0;t=9"#,
        r#"ratelimit: "remote_address";r=1;t=3600"#,
        r#"ratelimit-policy: "remote_address";q=2;w=3600"#,
    ] {
        let count = reply.head.lines().filter(|other| *other == line).count();
        assert_eq!(count, 1, "{line}: {reply:?}");
    }
}
