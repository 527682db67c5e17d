//! `reserved`: a share of a limit for requests with priority, whichever listener they come to.

use std::path::Path;

use serde_json::{Value, json};
use tollgate_rls::decisions::Descriptor;
use tollgate_rules::Source;
use tollgate_server::{Auth, Config, GatewaySettings, Listen, ListenerKind, Outcome, Place};
use tollgate_testbed::Redis;

use super::upstream::Echo;
use super::{gateway_with, section};
use crate::decisions::{answers, check_in, entry};
use crate::house::House;
use crate::http_client::Client;
use crate::over_redis::at;
use crate::{grpc_client, http_client};

/// Ten a day, of which two are kept.
const RULES: &str = "
domain: api
descriptors:
  - key: user
    rate_limit:
      name: users
      requests_per_unit: 10
      window: 1d
      algorithm: fixed_window
      anchor: first_request
      reserved: {share: 20%, for: [critical]}
";

/// Both values come from headers that a trusted proxy sets.
const IDENTITY: &str = "descriptors: [\
    {entries: [{key: priority, from: {header: x-priority}, if_missing: skip}]}, \
    {entries: [{key: user, from: {header: x-user}, if_missing: deny}]}]";

/// How a request gets to the service.
#[derive(Clone, Copy, Debug)]
enum Way {
    Json,
    Grpc,
    /// The stream of decisions.
    Stream,
    Check,
    /// A list with one check.
    List,
    Auth,
    Gateway,
}

const WAYS: [Way; 7] = [
    Way::Json,
    Way::Grpc,
    Way::Stream,
    Way::Check,
    Way::List,
    Way::Auth,
    Way::Gateway,
];

fn sections(upstream: &Echo) -> (Auth, GatewaySettings) {
    let address = upstream.address;
    let text = format!(
        "rules: r\n\
         auth: {{domain: api, source: x-forwarded-uri, \
         identity: {{client_address: {{source: x-real-ip}}, {IDENTITY}}}}}\n\
         gateway: {{domain: api, upstreams: {{api: {{addresses: ['{address}']}}}}, \
         identity: {{{IDENTITY}}}}}\n"
    );
    let config = Config::parse(&Source::new("tollgate.yaml", text), Path::new("."));
    let config = config.unwrap_or_else(|error| panic!("{error}"));
    (config.auth.unwrap(), config.gateway.unwrap())
}

async fn on(upstream: &Echo, store: Option<Place>) -> House {
    let (auth, gateway) = sections(upstream);
    House::with(RULES, |config| {
        config.auth = Some(auth);
        config.gateway = Some(gateway);
        config.listen.push(Listen {
            kind: ListenerKind::Gateway,
            address: "127.0.0.1:0".parse().unwrap(),
            tls: None,
        });
        config.store = store.unwrap_or(Place::Memory);
    })
    .await
}

/// Whether a request of `user` is allowed.
async fn is_allowed(house: &House, way: Way, user: &str, priority: Option<&str>) -> bool {
    let entries = |key: &str, value: &str| json!({"entries": [{"key": key, "value": value}]});
    let mut descriptors = vec![entries("user", user)];
    descriptors.extend(priority.map(|priority| entries("priority", priority)));
    let envoy = json!({"domain": "api", "descriptors": descriptors}).to_string();
    let head = |target: &str| {
        let priority = priority.map_or(String::new(), |text| format!("x-priority: {text}\r\n"));
        format!(
            "GET {target} HTTP/1.1\r\nhost: h\r\nx-forwarded-uri: /\r\nx-forwarded-method: GET\r\n\
             x-real-ip: 192.0.2.1\r\nx-user: {user}\r\n{priority}\r\n"
        )
    };
    let status = match way {
        Way::Grpc => {
            let client = grpc_client::Client::to(house.grpc()).await;
            let response = client.ask(&envoy).await.unwrap();
            // Two descriptors, two statuses: the one of the priority has no limit.
            assert_eq!(response.statuses.len(), descriptors.len());
            return response.overall_code == 1;
        }
        Way::Json => post(house, "/json", &envoy).await.status,
        Way::Stream => {
            let mut request = check_in("api", entry("user", user.as_bytes()));
            request
                .descriptors
                .extend(priority.map(|priority| Descriptor {
                    entries: vec![entry("priority", priority.as_bytes())],
                    any_order: false,
                }));
            let answer = answers(house, vec![request]).await.remove(0);
            return answer.allowed;
        }
        Way::Check => {
            post(house, "/v1/check", &check(user, priority).to_string())
                .await
                .status
        }
        Way::List => {
            let list = json!([check(user, priority)]).to_string();
            let answered = post(house, "/v1/check", &list).await.json();
            u16::try_from(answered[0]["status"].as_u64().unwrap()).unwrap()
        }
        Way::Auth => ask(house.http(), &head("/v1/auth")).await,
        Way::Gateway => ask(house.gateway(), &head("/")).await,
    };
    assert!(status == 200 || status == 429, "{status} by {way:?}");
    status == 200
}

/// A check of `/v1/check`.
fn check(user: &str, priority: Option<&str>) -> Value {
    let mut descriptors = vec![json!({"user": user})];
    descriptors.extend(priority.map(|priority| json!({"priority": priority})));
    json!({"domain": "api", "descriptors": descriptors})
}

async fn post(house: &House, path: &str, body: &str) -> http_client::Reply {
    Client::to(house.http()).await.post(path, body).await
}

async fn ask(address: std::net::SocketAddr, head: &str) -> u16 {
    let mut client = Client::to(address).await;
    client.send(head.as_bytes()).await;
    client.reply().await.unwrap().status
}

/// How many of twelve requests are allowed.
async fn spend(house: &House, way: Way, user: &str, priority: Option<&str>) -> usize {
    let mut allowed = 0;
    for _ in 0..12 {
        allowed += usize::from(is_allowed(house, way, user, priority).await);
    }
    allowed
}

async fn keeps_the_share(store: Option<Place>) {
    let upstream = Echo::start().await;
    let house = on(&upstream, store).await;
    for way in WAYS {
        let user = format!("{way:?}");
        assert_eq!(spend(&house, way, &user, None).await, 8, "{way:?}");
        assert_eq!(spend(&house, way, &user, Some("low")).await, 0, "{way:?}");
        assert_eq!(
            spend(&house, way, &user, Some("critical")).await,
            2,
            "{way:?}"
        );
        assert_eq!(
            spend(&house, way, &user, Some("critical")).await,
            0,
            "{way:?}"
        );
    }
    // Those that the gateway denied did not reach the upstream.
    assert_eq!(upstream.requests().len(), 10);
}

#[tokio::test]
async fn every_listener_keeps_the_share_in_memory() {
    keeps_the_share(None).await;
}

#[tokio::test]
async fn every_listener_keeps_the_share_over_redis() {
    let redis = Redis::start();
    keeps_the_share(Some(at(&redis))).await;
}

/// An instance reserves with priority, another one settles: for more than the other requests have.
#[tokio::test]
async fn a_reservation_is_settled_with_the_priority_that_made_it() {
    let (upstream, redis) = (Echo::start().await, Redis::start());
    for store in [None, Some(redis)] {
        let place = || store.as_ref().map(at);
        let house = on(&upstream, place()).await;
        let other = match store {
            Some(_) => Some(on(&upstream, place()).await),
            None => None,
        };
        let settling = other.as_ref().unwrap_or(&house);
        let settle = async |user: &str, priority: Option<&str>| {
            let mut descriptors = vec![json!({"user": user})];
            descriptors.extend(priority.map(|priority| json!({"priority": priority})));
            let body = json!({
                "domain": "api", "descriptors": descriptors, "cost": 3, "reserve": true,
            });
            let reply = post(&house, "/v1/check", &body.to_string()).await.json();
            let id: Value = reply["reservation"]["id"].clone();
            let body = json!({"reservation": id, "cost": 50}).to_string();
            let settled = post(settling, "/v1/settle", &body).await.json();
            let limit = &settled["limits"][0];
            (limit["charged"].clone(), limit["remaining"].clone())
        };
        assert_eq!(settle("ann", None).await, (json!(8), json!(0)));
        assert!(is_allowed(&house, Way::Check, "ann", Some("critical")).await);
        assert_eq!(settle("bob", Some("critical")).await, (json!(10), json!(0)));
        assert!(!is_allowed(&house, Way::Check, "bob", Some("critical")).await);
    }
}

/// A reload that adds the share keeps what was used.
#[tokio::test]
async fn a_reload_adds_and_removes_the_share() {
    let upstream = Echo::start().await;
    let house = on(&upstream, None).await;
    let without = RULES.replace("      reserved: {share: 20%, for: [critical]}\n", "");
    let reload = async |rules: &str| {
        std::fs::write(house.path("rules.yaml"), rules).unwrap();
        assert_eq!(house.running.reload().await, Outcome::InEffect);
    };
    assert_eq!(spend(&house, Way::Check, "ann", None).await, 8);
    reload(&without).await;
    assert!(is_allowed(&house, Way::Check, "ann", None).await);
    reload(RULES).await;
    assert!(!is_allowed(&house, Way::Check, "ann", None).await);
    assert!(is_allowed(&house, Way::Check, "ann", Some("critical")).await);
    assert!(!is_allowed(&house, Way::Check, "ann", Some("critical")).await);
}

/// A route says which requests have priority; their clients cannot.
#[tokio::test]
async fn a_client_that_names_itself_critical_has_no_priority() {
    let upstream = Echo::start().await;
    let address = upstream.address;
    let user = "{entries: [{key: user, from: {header: x-user}, if_missing: deny}]}";
    let constant = "{entries: [{key: priority, from: {constant: critical}}]}";
    let more = format!(
        "routes: [{{match: {{paths: [/checkout]}}, \
         identity: {{descriptors: [{user}, {constant}]}}}}, \
         {{identity: {{descriptors: [{user}]}}}}]"
    );
    let house = gateway_with(RULES, section(address, &more), |_| ()).await;
    let spend = async |path: &str| {
        let mut allowed = 0;
        for _ in 0..12 {
            let head = format!(
                "GET {path} HTTP/1.1\r\nhost: h\r\nx-user: ann\r\nx-priority: critical\r\n\
                 priority: critical\r\n\r\n"
            );
            allowed += usize::from(ask(house.gateway(), &head).await == 200);
        }
        allowed
    };
    assert_eq!(spend("/?priority=critical").await, 8);
    assert_eq!(spend("/checkout").await, 2);
    assert_eq!(spend("/checkout/").await, 0);
}
