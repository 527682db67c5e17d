//! Any number of concurrent clients, by any protocol, get exactly the limit.

use crate::crowd::Crowd;
use crate::house::House;
use crate::http_client;
use tollgate_server::ListenerKind;

const CROWD: Crowd = Crowd {
    clients: 64,
    asked_by_each: 20,
};
const COUNT: usize = 1000;

const _: () = assert!(CROWD.clients * CROWD.asked_by_each > COUNT);

pub(crate) const ALGORITHMS: [&str; 6] = [
    "fixed_window",
    "fixed_window, anchor: first_request",
    "sliding_log",
    "sliding_window, segments: 6",
    "token_bucket",
    "leaky_bucket",
];

/// A rule of `COUNT` a day for each user, and one of `others` for each path.
fn rules(algorithm: &str, others: usize) -> String {
    let rule = |key: &str, count: usize| {
        format!(
            "- key: {key}\n  rate_limit: \
             {{window: 1d, requests_per_unit: {count}, algorithm: {algorithm}}}\n"
        )
    };
    let (user, path) = (rule("user", COUNT), rule("path", others));
    format!("domain: d\ndescriptors:\n{user}{path}")
}

const ONE: &str = r#"{"domain":"d","descriptors":[{"entries":[{"key":"user","value":"ann"}]}]}"#;
const TWO: &str = r#"{"domain":"d","descriptors":[
    {"entries":[{"key":"user","value":"ann"}]},{"entries":[{"key":"path","value":"/"}]}]}"#;
const PATH: &str = r#"{"domain":"d","descriptors":[{"entries":[{"key":"path","value":"/"}]}]}"#;

/// The remaining units for a request, by a peek.
async fn remaining(house: &House, question: &str) -> u64 {
    let mut client = http_client::Client::to(house.http()).await;
    let question = question.replacen('{', r#"{"peek":true,"#, 1);
    let reply = client.post("/v1/check", &question).await;
    reply.json()["limits"][0]["remaining"].as_u64().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_limit_over_grpc() {
    for algorithm in ALGORITHMS {
        let house = House::on(&rules(algorithm, 1)).await;
        assert_eq!(
            CROWD.allowed_by_grpc(&house, ONE).await,
            COUNT,
            "{algorithm}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_limit_over_http() {
    for algorithm in ALGORITHMS {
        let house = House::on(&rules(algorithm, 1)).await;
        let allowed = CROWD.allowed_by_http(&house, "/v1/check", ONE).await;
        assert_eq!(allowed, COUNT, "{algorithm}");
        let house = House::on(&rules(algorithm, 1)).await;
        let allowed = CROWD.allowed_by_http(&house, "/json", ONE).await;
        assert_eq!(allowed, COUNT, "{algorithm}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_limits_are_charged_both_or_not_at_all() {
    for algorithm in ALGORITHMS {
        let others = 600;
        let left = u64::try_from(COUNT - others).unwrap();
        let house = House::on(&rules(algorithm, others)).await;
        assert_eq!(
            CROWD.allowed_by_grpc(&house, TWO).await,
            others,
            "{algorithm}"
        );
        assert_eq!(remaining(&house, ONE).await, left, "{algorithm}");
        assert_eq!(remaining(&house, PATH).await, 0, "{algorithm}");
        let house = House::on(&rules(algorithm, others)).await;
        let allowed = CROWD.allowed_by_http(&house, "/v1/check", TWO).await;
        assert_eq!(allowed, others, "{algorithm}");
        assert_eq!(remaining(&house, ONE).await, left, "{algorithm}");
        assert_eq!(remaining(&house, PATH).await, 0, "{algorithm}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_listeners_at_once_share_one_limit() {
    let house = House::on(&rules("token_bucket", 1)).await;
    let (grpc, http) = tokio::join!(
        CROWD.allowed_by_grpc(&house, ONE),
        CROWD.allowed_by_http(&house, "/json", ONE)
    );
    assert_eq!(grpc + http, COUNT);
}

#[tokio::test]
async fn several_listeners_of_a_kind_share_one_limit() {
    let rules = "domain: d\ndescriptors: [{key: user, rate_limit: 2/day}]\n";
    let house = House::with(rules, |config| {
        config
            .listen
            .retain(|listen| listen.kind == ListenerKind::Http);
        config.listen.push(config.listen[0].clone());
    });
    let house = house.await;
    let addresses: Vec<_> = house.running.addresses().collect();
    assert_eq!(addresses.len(), 2);
    let mut statuses = Vec::new();
    for (kind, address) in addresses.iter().chain(&addresses) {
        assert_eq!(*kind, ListenerKind::Http);
        let mut client = http_client::Client::to(address.tcp().unwrap()).await;
        statuses.push(client.post("/json", ONE).await.status);
    }
    assert_eq!(statuses, [200, 200, 429, 429]);
    // No listener of another kind was opened.
    assert_eq!(house.running.address(ListenerKind::Grpc), None);
}
