#![allow(clippy::unwrap_used)]

use http::{Request as HttpRequest, StatusCode};
use serde_json::{Value, json};

use super::*;
use crate::peer::Peer;

fn classifier(settings: Value) -> Result<Classifier, String> {
    let settings: IdentitySettings =
        serde_json::from_value(settings).map_err(|error| error.to_string())?;
    Classifier::new(&settings).map_err(|error| error.to_string())
}

fn entries(entries: Value) -> Result<Classifier, String> {
    classifier(json!({"descriptors": [{"entries": entries}]}))
}

/// The descriptors of a request, as `key=value` in brackets.
fn identify(classifier: &Classifier, request: http::request::Builder) -> Result<String, Rejection> {
    let (parts, ()) = request.body(()).unwrap().into_parts();
    let peer = Peer::from("203.0.113.5".parse::<std::net::IpAddr>().unwrap());
    let identity = classifier.identify(Head::of(&parts, peer))?;
    let mut text = String::new();
    for descriptor in &identity.descriptors {
        let entries = descriptor
            .entries
            .iter()
            .map(|entry| format!("{}={}", entry.key, tollgate_core::Escaped(&entry.value)));
        text += &format!("[{}]", entries.collect::<Vec<_>>().join(","));
    }
    Ok(text)
}

#[test]
fn the_default_is_the_address() {
    let default = classifier(json!({})).unwrap();
    let request = HttpRequest::get("/").header("x-forwarded-for", "6.6.6.6");
    assert_eq!(
        identify(&default, request).unwrap(),
        "[remote_address=203.0.113.5]"
    );
}

#[test]
fn a_request_becomes_descriptors() {
    let all = classifier(json!({
        "routes": ["/users/{id}"],
        "descriptors": [
            {"entries": [
                {"key": "route", "from": "route", "if_missing": {"use":
                    {"key": "path", "from": "path"}}},
                {"key": "method", "from": "method"},
            ]},
            {"entries": [{"key": "user", "from": {"header": "x-user"}, "fold_case": true,
                "if_missing": "skip"}]},
            {"entries": [{"key": "network", "from": {"client_network": {"ipv4_prefix": 24}}}]},
        ],
    }))
    .unwrap();
    assert_eq!(
        identify(
            &all,
            HttpRequest::get("/users//7?x=1").header("x-user", "ÉVE")
        )
        .unwrap(),
        "[route=/users/{id},method=GET][user=éve][network=203.0.113.0/24]"
    );
    assert_eq!(
        identify(&all, HttpRequest::post("/other/")).unwrap(),
        "[path=/other,method=POST][network=203.0.113.0/24]"
    );
}

#[test]
fn a_missing_value_skips_denies_or_falls_back() {
    let key = |if_missing: Value| {
        entries(json!([{"key": "k", "from": {"header": "x-key"}, "if_missing": if_missing}]))
            .unwrap()
    };
    let get = || HttpRequest::get("/").header("x-key", "");
    assert_eq!(identify(&key(json!("skip")), get()).unwrap(), "");
    let rejection = identify(&key(json!("deny")), get()).unwrap_err();
    assert_eq!(rejection.status(), StatusCode::FORBIDDEN);
    assert_eq!(
        rejection.problem().detail,
        "the request cannot be limited by k: the request does not have it"
    );
    let chain = json!({"use": {"key": "c", "from": {"cookie": "c"}, "if_missing":
        {"use": {"key": "a", "from": "client_address"}}}});
    assert_eq!(
        identify(&key(chain.clone()), get()).unwrap(),
        "[a=203.0.113.5]"
    );
    let with_cookie = get().header("cookie", "c=1");
    assert_eq!(identify(&key(chain), with_cookie).unwrap(), "[c=1]");
}

#[test]
fn an_ambiguous_value_is_denied_whatever_if_missing_says() {
    let skip = json!([{"key": "k", "from": {"header": "x-key"}, "if_missing": "skip"}]);
    let request = HttpRequest::get("/")
        .header("x-key", "a")
        .header("x-key", "b");
    let rejection = identify(&entries(skip).unwrap(), request).unwrap_err();
    assert_eq!(rejection.status(), StatusCode::BAD_REQUEST);
    assert_eq!(rejection.flaw, Flaw::Repeated);
}

#[test]
fn a_request_for_the_rules_has_a_descriptor() {
    let skip = json!([{"key": "k", "from": {"header": "x-key"}, "if_missing": "skip"}]);
    let skip = entries(skip).unwrap();
    let request = |classifier: &Classifier, key: &str| {
        let (parts, ()) = HttpRequest::get("/")
            .header("x-key", key)
            .body(())
            .unwrap()
            .into_parts();
        let identity = classifier
            .identify(Head::of(&parts, Peer::default()))
            .unwrap();
        let request = identity.request(b"api");
        request.map(|request| {
            assert_eq!(request.check_bounds(), Ok(()));
            request.descriptors[0].entries[0].value.to_vec()
        })
    };
    assert_eq!(request(&skip, "abc"), Some(b"abc".to_vec()));
    assert_eq!(request(&skip, ""), None);
}

#[test]
fn errors_lead_to_the_entry() {
    let address = json!({"key": "a", "from": "client_address"});
    let deep = (0..=FALLBACKS_MAX).fold(address.clone(), |entry, depth| {
        json!({"key": format!("k{depth}"), "from": {"header": "h"}, "if_missing": {"use": entry}})
    });
    let table = [
        (
            json!([{"key": "k", "from": {"header": "h"}}]),
            "descriptors[0].entries[0].if_missing: nothing says what becomes of requests without",
        ),
        (
            json!([address, {"key": "m", "from": "method", "if_missing": "skip"}]),
            "descriptors[0].entries[1].if_missing: the value is never missing; remove it",
        ),
        (
            json!([{"key": "a", "from": {"header": "h"}, "if_missing": {"use": address}}]),
            "the fallback has the same key",
        ),
        (
            json!([{"key": "a", "from": {"header": "h"}, "if_missing": {"use":
                {"key": "b", "from": {"cookie": "c"}, "if_missing": {"use": address}}}}]),
            "[0].if_missing.use.if_missing: the fallback has the same key",
        ),
        (json!([deep]), "too many fallbacks; 4 is the most"),
        (
            json!([{"key": "", "from": "path"}]),
            "descriptors[0].entries[0].key: an empty key",
        ),
        (
            json!([{"key": "k", "from": {"cookie": ""}, "if_missing": "deny"}]),
            "[0].from.cookie:",
        ),
        (
            json!([]),
            "descriptors[0].entries: 0 of them; write 1 to 32",
        ),
        (
            json!([{"key": "k", "from": "path", "when": 1}]),
            "unknown field `when`",
        ),
    ];
    for (value, expected) in table {
        let error = entries(value).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
    let error = classifier(json!({"client_address": {"trusted_hops": 1}})).unwrap_err();
    assert!(error.starts_with("client_address.source: "), "{error}");
    let error = classifier(json!({"descriptors": []})).unwrap_err();
    assert!(error.starts_with("descriptors: 0 of them"), "{error}");
}

#[test]
fn the_keys_of_its_descriptors_are_known() {
    let fallback = json!({"use": {"key": "address", "from": "client_address"}});
    let user = json!({"key": "user", "from": {"header": "x-user"}, "if_missing": fallback});
    let entries = json!({"entries": [{"key": "method", "from": "method"}, user]});
    let descriptor: DescriptorSettings = serde_json::from_value(entries).unwrap();
    let describes = |keys: &[&str]| descriptor.may_have_keys(keys);
    assert!(describes(&["method", "user"]));
    assert!(describes(&["method", "address"]));
    for keys in [
        &["method"][..],
        &["user", "method"],
        &["method", "user", "address"],
        &["method", "other"],
        &[],
    ] {
        assert!(!describes(keys), "{keys:?}");
    }
}

#[test]
fn a_descriptor_knows_its_settings_and_what_counts_is_for_who_sees_responses() {
    let settings = json!({"descriptors": [
        {"entries": [{"key": "user", "from": {"header": "x-user"}, "if_missing": "skip"}]},
        {"entries": [{"key": "path", "from": "path"}], "count_when": {"status": [401]}},
    ]});
    let error = classifier(settings.clone()).unwrap_err();
    assert!(
        error.starts_with("descriptors[1]: only the gateway sees responses"),
        "{error}"
    );
    let mut settings: IdentitySettings = serde_json::from_value(settings).unwrap();
    let classifier = Classifier::with_responses(&settings).unwrap();
    let (parts, ()) = HttpRequest::get("/a").body(()).unwrap().into_parts();
    let identity = classifier.identify(Head::of(&parts, Peer::default()));
    let indices: Vec<usize> = identity
        .unwrap()
        .descriptors
        .iter()
        .map(|descriptor| descriptor.index)
        .collect();
    assert_eq!(indices, [1]);
    settings.descriptors[1].count_when = Some(CountWhenSettings { status: Vec::new() });
    let error = Classifier::with_responses(&settings).unwrap_err();
    let error = error.to_string();
    assert!(
        error.starts_with("descriptors[1].count_when.status: "),
        "{error}"
    );
}

#[test]
fn a_cost_that_the_request_has_is_charged_and_one_that_its_response_has_is_for_the_gateway() {
    let of = |from: Value| {
        json!({"descriptors": [
            {"entries": [{"key": "path", "from": "path"}]},
            {"entries": [{"key": "host", "from": "host", "if_missing": "deny"}],
             "cost": {"from": from}},
        ]})
    };
    let classifier_of = |from: Value| classifier(of(from));
    let (parts, ()) = HttpRequest::get("/a")
        .header("host", "h")
        .header("x-cost", "7")
        .body(())
        .unwrap()
        .into_parts();
    for (from, cost) in [
        (json!({"constant": 5}), Some(Cost::Take(5))),
        (json!({"constant": 1}), None),
        (json!({"header": "x-cost"}), Some(Cost::Take(7))),
        (json!({"header": "x-missing"}), None),
    ] {
        let classifier = classifier_of(from).unwrap();
        let identity = classifier.identify(Head::of(&parts, Peer::default()));
        let identity = identity.unwrap();
        let request = identity.request(b"d").unwrap();
        let costs: Vec<_> = request.descriptors.iter().map(|one| one.cost).collect();
        assert_eq!(costs, [None, cost]);
    }
    for from in [
        json!("request_bytes"),
        json!("response_bytes"),
        json!({"response_header": "x"}),
        json!({"json": "/n"}),
        json!({"trailer": "x"}),
    ] {
        let error = classifier_of(from.clone()).unwrap_err();
        assert!(
            error.starts_with("descriptors[1]: only the gateway"),
            "{error}"
        );
        let settings = serde_json::from_value(of(from)).unwrap();
        Classifier::with_responses(&settings).unwrap();
    }
    let error = classifier_of(json!({"json": "n"})).unwrap_err();
    assert!(error.starts_with("descriptors[1]: only"), "{error}");
    let settings = serde_json::from_value(of(json!({"json": "n"}))).unwrap();
    let error = Classifier::with_responses(&settings).unwrap_err();
    let error = error.to_string();
    assert!(
        error.starts_with("descriptors[1].cost.from.json: "),
        "{error}"
    );
}
