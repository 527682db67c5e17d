//! `/v1/auth`: what is answered to proxies about the requests of their clients.

use std::path::Path;

use tokio::task::JoinSet;
use tollgate_rules::Source;
use tollgate_server::{Auth, Config};
use tollgate_testbed::Redis;

use crate::house::House;
use crate::http_client::{Client, Reply};
use crate::over_redis::at;

const RULES: &str = "
domain: site
descriptors:
  - {key: remote_address, rate_limit: 2/hour}
  - {key: path, rate_limit: 1/hour}
  - {key: method, rate_limit: 1/hour}
  - {key: host, rate_limit: 1/hour}
  - {key: api_key, rate_limit: 1/hour}
  - {key: queue, rate_limit: {requests_per_unit: 1, unit: hour, algorithm: leaky_bucket, queue: 2}}
";

/// The section `auth` with an identity, and more.
fn auth(source: &str, identity: &str, more: &str) -> Auth {
    let text =
        format!("rules: r\nauth: {{domain: site, source: {source}, identity: {identity}{more}}}\n");
    let config = Config::parse(&Source::new("tollgate.yaml", text), Path::new("."));
    config.unwrap().auth.unwrap()
}

/// An identity with one descriptor of one entry.
fn one(entry: &str) -> String {
    format!("{{client_address: {{source: x-real-ip}}, descriptors: [{{entries: [{entry}]}}]}}")
}

async fn on(auth: Auth) -> (House, Client) {
    let house = House::with(RULES, |config| config.auth = Some(auth)).await;
    let client = Client::to(house.http()).await;
    (house, client)
}

/// A proxy's question with these lines of headers.
async fn ask(client: &mut Client, headers: &str) -> Reply {
    let head = format!("GET /v1/auth HTTP/1.1\r\nhost: shop.example\r\n{headers}\r\n");
    client.send(head.as_bytes()).await;
    client.reply().await.unwrap()
}

/// The headers that nginx sets.
fn original(method: &str, uri: &str) -> String {
    format!("x-original-method: {method}\r\nx-original-uri: {uri}\r\nx-real-ip: 192.0.2.1\r\n")
}

#[tokio::test]
async fn a_client_is_allowed_up_to_its_limit_and_then_gets_a_retry_time() {
    let entry = "{key: remote_address, from: client_address}";
    let (_house, mut client) = on(auth("x-original-uri", &one(entry), "")).await;
    for remaining in [1, 0] {
        let allowed = ask(&mut client, &original("GET", "/")).await;
        assert_eq!((allowed.status, allowed.body.as_str()), (200, ""));
        let expected = format!("\"remote_address\";r={remaining};t=3600");
        assert_eq!(allowed.header("ratelimit"), Some(expected.as_str()));
    }
    let denied = ask(&mut client, &original("GET", "/")).await;
    let detail = denied.problem(429);
    assert!(
        detail.contains("limit \"remote_address\" is exceeded"),
        "{detail}"
    );
    assert_eq!(denied.header("retry-after"), Some("3600"));
    // Another client, on the same connection of the proxy.
    let other = original("GET", "/").replace("192.0.2.1", "192.0.2.2");
    assert_eq!(ask(&mut client, &other).await.status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_questions_at_once_exactly_as_many_as_the_limit_are_allowed() {
    let identity = one("{key: remote_address, from: client_address}");
    let rules = RULES.replace(
        "remote_address, rate_limit: 2/",
        "remote_address, rate_limit: 500/",
    );
    let house = House::with(&rules, |config| {
        config.auth = Some(auth("x-original-uri", &identity, ""));
    })
    .await;
    let address = house.http();
    let mut proxies = JoinSet::new();
    for _ in 0..32 {
        proxies.spawn(async move {
            let mut client = Client::to(address).await;
            let mut statuses = Vec::new();
            for _ in 0..20 {
                statuses.push(ask(&mut client, &original("GET", "/")).await.status);
            }
            statuses
        });
    }
    let statuses = proxies.join_all().await.concat();
    let count = |expected| {
        statuses
            .iter()
            .filter(|status| **status == expected)
            .count()
    };
    assert_eq!((count(200), count(429)), (500, 140));
}

#[tokio::test]
async fn headers_that_are_not_configured_do_not_matter() {
    let entry = "{key: remote_address, from: client_address}";
    let (_house, mut client) = on(auth("x-original-uri", &one(entry), "")).await;
    let mut statuses = Vec::new();
    for n in 0..3 {
        let forged = format!(
            "x-forwarded-for: 10.0.0.{n}\r\nforwarded: for=10.0.0.{n}\r\ncf-connecting-ip: \
             10.0.0.{n}\r\nx-forwarded-uri: /{n}\r\nx-forwarded-method: PUT\r\n\
             x-http-method-override: PUT\r\n"
        );
        let asked = original("GET", "/") + &forged;
        statuses.push(ask(&mut client, &asked).await.status);
    }
    assert_eq!(statuses, [200, 200, 429]);
}

#[tokio::test]
async fn method_path_and_host_are_those_of_the_original_request() {
    let nginx = |uri: &str, method: &str, _: &str| original(method, uri);
    let traefik = |uri: &str, method: &str, host: &str| {
        format!(
            "x-forwarded-method: {method}\r\nx-forwarded-uri: {uri}\r\nx-forwarded-host: \
             {host}\r\nx-real-ip: 192.0.2.1\r\n"
        )
    };
    let cases: [(&str, &str, [String; 3]); 5] = [
        (
            "x-original-uri",
            "{key: path, from: path}",
            ["/a", "//%61?q", "/b"].map(|uri| nginx(uri, "GET", "")),
        ),
        (
            "x-original-uri",
            "{key: method, from: method}",
            ["PUT", "PUT", "GET"].map(|method| nginx("/", method, "")),
        ),
        (
            "x-forwarded-uri",
            "{key: path, from: path}",
            ["/a", "/a/", "/b"].map(|uri| traefik(uri, "GET", "h")),
        ),
        (
            "x-forwarded-uri",
            "{key: method, from: method}",
            ["PUT", "PUT", "GET"].map(|method| traefik("/", method, "h")),
        ),
        (
            "x-forwarded-uri",
            "{key: host, from: host, if_missing: deny}",
            ["a.example", "A.example:80", "b.example"].map(|host| traefik("/", "GET", host)),
        ),
    ];
    for (source, entry, asked) in cases {
        let (_house, mut client) = on(auth(source, &one(entry), "")).await;
        let mut statuses = Vec::new();
        for headers in asked {
            statuses.push(ask(&mut client, &headers).await.status);
        }
        assert_eq!(statuses, [200, 429, 200], "{source} {entry}");
    }
}

#[tokio::test]
async fn a_peer_that_is_no_trusted_proxy_gets_an_error() {
    let identity = "{client_address: {source: x-real-ip, trusted_proxies: [10.0.0.0/8]}}";
    let (house, mut client) = on(auth("x-original-uri", identity, "")).await;
    let detail = ask(&mut client, &original("GET", "/")).await.problem(403);
    assert!(
        detail.starts_with("127.0.0.1 is not a trusted proxy"),
        "{detail}"
    );
    let mut admin = Client::to(house.admin()).await;
    let metrics = admin.get("/metrics").await.body;
    let counted = r#"tollgate_request_errors_total{listener="http",kind="untrusted_proxy"} 1"#;
    assert!(metrics.contains(counted), "{metrics}");
}

/// All clients of a proxy that does not name them share a limit: that has to be seen.
#[tokio::test]
async fn a_proxy_that_does_not_name_its_clients_is_counted() {
    let entry = "{key: remote_address, from: client_address}";
    let (house, mut client) = on(auth("x-original-uri", &one(entry), "")).await;
    let mut statuses = Vec::new();
    for named in ["x-real-ip: 192.0.2.1\r\n", "", "x-real-ip: unknown\r\n", ""] {
        let asked = format!("x-original-uri: /\r\nx-original-method: GET\r\n{named}");
        statuses.push(ask(&mut client, &asked).await.status);
    }
    assert_eq!(statuses, [200, 200, 200, 429]);
    let mut admin = Client::to(house.admin()).await;
    let metrics = admin.get("/metrics").await.body;
    for (reason, count) in [("absent", 2), ("unreadable", 1)] {
        let counted =
            format!("tollgate_auth_client_fallbacks_total{{reason=\"{reason}\"}} {count}");
        assert!(metrics.contains(&counted), "{metrics}");
    }
}

/// Health checks of a proxy have no client, and where no limit is about clients they need none.
#[tokio::test]
async fn an_address_that_nothing_reads_is_not_counted() {
    let fallback = "{key: remote_address, from: client_address}";
    for (entry, count) in [
        ("{key: path, from: path}".to_owned(), None),
        (
            format!("{{key: api_key, from: {{header: x-key}}, if_missing: {{use: {fallback}}}}}"),
            Some("1"),
        ),
        (
            "{key: remote_address, from: {client_network: {ipv4_prefix: 8}}}".to_owned(),
            Some("1"),
        ),
    ] {
        let (house, mut client) = on(auth("x-original-uri", &one(&entry), "")).await;
        let asked = "x-original-uri: /\r\nx-original-method: GET\r\n";
        assert_eq!(ask(&mut client, asked).await.status, 200);
        let metrics = Client::to(house.admin()).await.get("/metrics").await.body;
        let name = "tollgate_auth_client_fallbacks_total{reason=\"absent\"} ";
        let found = metrics.lines().find_map(|line| line.strip_prefix(name));
        assert_eq!(found, count, "{entry}");
    }
}

/// Caddy's `forward_auth` replaces the path and leaves the query of the client.
#[tokio::test]
async fn a_query_that_a_proxy_leaves_changes_nothing() {
    let entry = "{key: path, from: path}";
    let (_house, mut client) = on(auth("x-original-uri", &one(entry), "")).await;
    let mut statuses = Vec::new();
    for (query, original_uri) in [("?a=b", "/one"), ("?peek=true", "/one?a=b"), ("?", "/two")] {
        let headers = original("GET", original_uri);
        let head = format!("GET /v1/auth{query} HTTP/1.1\r\nhost: h\r\n{headers}\r\n");
        client.send(head.as_bytes()).await;
        statuses.push(client.reply().await.unwrap().status);
    }
    assert_eq!(statuses, [200, 429, 200]);
}

#[tokio::test]
async fn a_question_that_names_no_request_is_an_error() {
    let entry = "{key: path, from: path}";
    let (_house, mut client) = on(auth("x-original-uri", &one(entry), "")).await;
    for (headers, status, expected) in [
        (String::new(), 400, "x-original-uri is missing"),
        (
            original("GET", "/") + "x-original-uri: /\r\n",
            400,
            "x-original-uri is there more than once",
        ),
        (
            "x-original-uri: /\r\n".to_owned(),
            400,
            "x-original-method is missing",
        ),
        (
            original("GET", "http://h/"),
            403,
            "x-original-uri names no request",
        ),
        (original("GET", "/%00"), 403, "cannot be limited by path"),
    ] {
        let detail = ask(&mut client, &headers).await.problem(status);
        assert!(detail.contains(expected), "{detail}");
    }
}

#[tokio::test]
async fn what_identity_denies_is_403_and_what_it_skips_is_allowed() {
    for (if_missing, status) in [("deny", 403), ("skip", 200)] {
        let entry = format!("{{key: api_key, from: {{header: x-key}}, if_missing: {if_missing}}}");
        let (_house, mut client) = on(auth("x-original-uri", &one(&entry), "")).await;
        let reply = ask(&mut client, &original("GET", "/")).await;
        assert_eq!(reply.status, status);
        assert_eq!(reply.header("ratelimit"), None);
    }
}

#[tokio::test]
async fn no_header_of_a_client_makes_a_denial_look_allowed() {
    let entry = "{key: path, from: path}";
    let responses = ", responses: {status: 401}";
    let (_house, mut client) = on(auth("x-original-uri", &one(entry), responses)).await;
    assert_eq!(ask(&mut client, &original("GET", "/")).await.status, 200);
    for more in [
        "",
        "content-type: application/grpc\r\n",
        "content-type: application/grpc+proto\r\nte: trailers\r\n",
        "content-encoding: gzip\r\n",
        "accept: */*\r\norigin: https://h\r\n",
    ] {
        let denied = ask(&mut client, &(original("GET", "/") + more)).await;
        assert_eq!(denied.status, 401, "{more}: {denied:?}");
        assert_eq!(denied.header("retry-after"), Some("3600"), "{more}");
    }
    // Nor do they break a request that is allowed.
    for (n, more) in [
        "content-type: application/grpc\r\n",
        "content-encoding: gzip\r\n",
    ]
    .into_iter()
    .enumerate()
    {
        let asked = original("GET", &format!("/{n}")) + more;
        assert_eq!(ask(&mut client, &asked).await.status, 200, "{more}");
    }
    // Elsewhere, an encoded body is still an error.
    client
        .send(
            b"POST /json HTTP/1.1\r\nhost: h\r\ncontent-encoding: gzip\r\n\
              content-length: 0\r\n\r\n",
        )
        .await;
    assert_eq!(client.reply().await.unwrap().status, 415);
}

#[tokio::test]
async fn any_method_asks_and_no_body_is_read() {
    let entry = "{key: path, from: path}";
    let (house, mut client) = on(auth("x-original-uri", &one(entry), "")).await;
    for method in ["GET", "POST", "DELETE", "PROPFIND"] {
        let headers = original("GET", &format!("/{method}"));
        let head = format!("{method} /v1/auth HTTP/1.1\r\nhost: h\r\n{headers}");
        let head = format!("{head}content-length: 4\r\n\r\nbody");
        client.send(head.as_bytes()).await;
        assert_eq!(client.reply().await.unwrap().status, 200, "{method}");
    }
    // The body never comes, and the answer does.
    let mut waiting = Client::to(house.http()).await;
    let headers = original("GET", "/never");
    let head = format!("POST /v1/auth HTTP/1.1\r\nhost: h\r\n{headers}content-length: 9\r\n\r\n");
    waiting.send(head.as_bytes()).await;
    assert_eq!(waiting.reply().await.unwrap().status, 200);
}

/// The proxy's own request is a GET, and it may pass on the body.
#[tokio::test]
async fn the_denial_of_a_head_has_its_body_for_the_proxy() {
    let entry = "{key: method, from: method}";
    let (_house, mut client) = on(auth("x-original-uri", &one(entry), "")).await;
    for status in [200, 429, 429] {
        let reply = ask(&mut client, &original("HEAD", "/")).await;
        assert_eq!(reply.status, status);
        assert_eq!(reply.body.is_empty(), status == 200, "{reply:?}");
    }
    // Over HTTP/1.1, a proxy's own HEAD has the length alone.
    let question = original("HEAD", "/");
    let head = format!("HEAD /v1/auth HTTP/1.1\r\nhost: h\r\n{question}\r\n");
    client.send(head.as_bytes()).await;
    let head = client.read_until("\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 429 "), "{head}");
    assert_eq!(ask(&mut client, &question).await.status, 429);
}

#[tokio::test]
async fn a_delay_is_in_a_header_and_not_waited_for() {
    let entry = "{key: queue, from: {constant: all}}";
    let (_house, mut client) = on(auth("x-original-uri", &one(entry), "")).await;
    let asked = original("GET", "/");
    assert_eq!(
        ask(&mut client, &asked).await.header("x-tollgate-delay-ms"),
        None
    );
    let delayed = ask(&mut client, &asked).await;
    assert_eq!(delayed.header("x-tollgate-delay-ms"), Some("3600000"));
    assert_eq!(ask(&mut client, &asked).await.status, 429);
}

#[tokio::test]
async fn without_settings_there_is_no_such_path() {
    let house = House::on(RULES).await;
    let mut client = Client::to(house.http()).await;
    let detail = client.get("/v1/auth").await.problem(404);
    assert!(detail.contains("needs `auth` in the settings"), "{detail}");
}

#[tokio::test]
async fn without_the_store_each_limit_does_what_it_says() {
    let redis = Redis::start();
    redis.kill();
    for (choice, status) in [("allow", 200), ("deny", 401), ("error", 503)] {
        let rules = format!(
            "{{domain: site, on_store_error: {choice}, descriptors: [{{key: path, \
             rate_limit: 1/hour}}]}}"
        );
        let entry = "{key: path, from: path}";
        let auth = auth("x-original-uri", &one(entry), ", responses: {status: 401}");
        let house = House::with(&rules, |config| {
            config.store = at(&redis);
            config.auth = Some(auth);
        });
        let house = house.await;
        let mut client = Client::to(house.http()).await;
        let reply = ask(&mut client, &original("GET", "/")).await;
        assert_eq!(reply.status, status, "{choice}: {reply:?}");
    }
}

#[tokio::test]
async fn settings_that_were_not_read_from_a_file_are_checked_as_well() {
    let mut auth = auth("x-original-uri", &one("{key: path, from: path}"), "");
    auth.responses.status = 200;
    let mut config = Config::new(vec!["rules.yaml".into()]);
    config.auth = Some(auth);
    let clock = tollgate_memory::ManualClock::at(tollgate_core::Moment::ZERO);
    let error = tollgate_server::start(&config, clock).await.unwrap_err();
    let expected = "auth.responses.status: 200 is not an error status; \
        write 429, or another from 400 to 599";
    assert_eq!(error.to_string(), expected);
}

/// One address stands for all clients of a proxy.
#[tokio::test]
async fn connections_of_a_trusted_proxy_are_bounded_in_all_only() {
    for (trust, expected) in [
        ("", [200, 200, 200, 503]),
        (", trusted_proxies: ['127.0.0.1']", [200, 200, 200, 503]),
        (", trusted_hops: 1", [200, 503, 503, 503]),
        (", trusted_proxies: [10.0.0.0/8]", [403, 503, 503, 503]),
    ] {
        let free = "descriptors: [{entries: [{key: free, from: {constant: a}}]}]";
        let identity = format!("{{client_address: {{source: x-real-ip{trust}}}, {free}}}");
        let house = House::with(RULES, |config| {
            config.auth = Some(auth("x-original-uri", &identity, ""));
            config.limits.connections = 3;
            config.limits.connections_per_address = 1;
        });
        let house = house.await;
        let mut proxy = Vec::new();
        let mut statuses = Vec::new();
        for _ in 0..4 {
            let mut client = Client::to(house.http()).await;
            statuses.push(ask(&mut client, &original("GET", "/")).await.status);
            proxy.push(client);
        }
        assert_eq!(statuses, expected, "{trust}");
    }
}
