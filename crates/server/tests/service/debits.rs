//! Budgets that are asked about before, and charged when the cost is known.

use tollgate_rls::rate_limit_response::Code;

use crate::grpc_client;
use crate::house::House;
use crate::http_client::Client;

fn rules(charge_denied: &str) -> String {
    format!(
        "domain: d\ndescriptors:\n- key: k\n  rate_limit: \
         {{unit: day, requests_per_unit: 1000{charge_denied}}}\n"
    )
}

/// As an Envoy for language models asks: `hits_addend` 0 before the request, its tokens afterwards.
fn ask(addend: u32) -> String {
    format!(
        r#"{{"domain":"d","descriptors":[{{"entries":[{{"key":"k","value":"v"}}],
            "hitsAddend":{addend}}}]}}"#
    )
}

/// How many of six requests that use 600 tokens each may begin.
async fn begun_over_grpc(charge_denied: &str) -> usize {
    let house = House::on(&rules(charge_denied)).await;
    let client = grpc_client::Client::to(house.grpc()).await;
    let mut begun = 0;
    for _ in 0..6 {
        let before = client.ask(&ask(0)).await.unwrap();
        if before.overall_code() == Code::Ok {
            begun += 1;
            let _reply_is_ignored = client.ask(&ask(600)).await.unwrap();
        }
    }
    begun
}

#[tokio::test]
async fn a_token_budget_ends_in_envoy_s_protocol() {
    for (charge_denied, begun) in [
        ("", 2),
        (", charge_denied: excess", 2),
        (", charge_denied: true", 2),
        // The tokens of the second answer do not fit, so nobody ever pays for them.
        (", charge_denied: never", 6),
    ] {
        assert_eq!(
            begun_over_grpc(charge_denied).await,
            begun,
            "{charge_denied}"
        );
    }
    let house = House::on(&rules("")).await;
    let mut client = Client::to(house.http()).await;
    for (addend, status) in [(0, 200), (600, 200), (0, 200), (600, 429), (0, 429)] {
        let reply = client.post("/json", &ask(addend)).await;
        assert_eq!(reply.status, status, "{addend}: {reply:?}");
    }
}

#[tokio::test]
async fn other_protocols_charge_a_denied_request_if_the_rules_say_so() {
    for (charge_denied, last) in [("", 200), (", charge_denied: excess", 429)] {
        let house = House::on(&rules(charge_denied)).await;
        let mut client = Client::to(house.http()).await;
        let question =
            |cost: u32| format!(r#"{{"domain":"d","descriptors":[{{"k":"v"}}],"cost":{cost}}}"#);
        for (cost, status) in [(600, 200), (600, 429), (400, last)] {
            let reply = client.post("/v1/check", &question(cost)).await;
            assert_eq!(reply.status, status, "{charge_denied} {cost}: {reply:?}");
        }
    }
}
