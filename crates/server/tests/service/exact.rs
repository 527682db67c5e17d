//! Whoever asks, and however many at once: exactly what the limit says.

use tokio::task::JoinSet;
use tollgate_rls::rate_limit_response::Code;

use crate::grpc_client;
use crate::house::House;
use crate::http_client;

const TASKS: usize = 64;
const ASKED_BY_EACH: usize = 20;
const COUNT: usize = 1000;

const _: () = assert!(TASKS * ASKED_BY_EACH > COUNT);

const ALGORITHMS: [&str; 6] = [
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

async fn admitted_by_grpc(house: &House, question: &'static str) -> usize {
    let client = grpc_client::Client::to(house.grpc()).await;
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let client = client.clone();
        tasks.spawn(async move {
            let mut admitted = 0;
            for _ in 0..ASKED_BY_EACH {
                let response = client.ask(question).await.unwrap();
                admitted += usize::from(response.overall_code() == Code::Ok);
            }
            admitted
        });
    }
    tasks.join_all().await.into_iter().sum()
}

async fn admitted_by_http(house: &House, path: &'static str, question: &'static str) -> usize {
    let address = house.http();
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        tasks.spawn(async move {
            let mut client = http_client::Client::to(address).await;
            let mut admitted = 0;
            for _ in 0..ASKED_BY_EACH {
                match client.post(path, question).await.status {
                    200 => admitted += 1,
                    429 => {}
                    other => panic!("{other}"),
                }
            }
            admitted
        });
    }
    tasks.join_all().await.into_iter().sum()
}

/// What remains for a question, without asking for more.
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
        assert_eq!(admitted_by_grpc(&house, ONE).await, COUNT, "{algorithm}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_limit_over_http() {
    for algorithm in ALGORITHMS {
        let house = House::on(&rules(algorithm, 1)).await;
        let admitted = admitted_by_http(&house, "/v1/check", ONE).await;
        assert_eq!(admitted, COUNT, "{algorithm}");
        let house = House::on(&rules(algorithm, 1)).await;
        let admitted = admitted_by_http(&house, "/json", ONE).await;
        assert_eq!(admitted, COUNT, "{algorithm}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_limits_are_charged_both_or_not_at_all() {
    for algorithm in ALGORITHMS {
        let others = 600;
        let left = u64::try_from(COUNT - others).unwrap();
        let house = House::on(&rules(algorithm, others)).await;
        assert_eq!(admitted_by_grpc(&house, TWO).await, others, "{algorithm}");
        assert_eq!(remaining(&house, ONE).await, left, "{algorithm}");
        assert_eq!(remaining(&house, PATH).await, 0, "{algorithm}");
        let house = House::on(&rules(algorithm, others)).await;
        let admitted = admitted_by_http(&house, "/v1/check", TWO).await;
        assert_eq!(admitted, others, "{algorithm}");
        assert_eq!(remaining(&house, ONE).await, left, "{algorithm}");
        assert_eq!(remaining(&house, PATH).await, 0, "{algorithm}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_doors_at_once_share_one_limit() {
    let house = House::on(&rules("token_bucket", 1)).await;
    let (grpc, http) = tokio::join!(
        admitted_by_grpc(&house, ONE),
        admitted_by_http(&house, "/json", ONE)
    );
    assert_eq!(grpc + http, COUNT);
}
