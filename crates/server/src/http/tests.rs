#![allow(clippy::unwrap_used)]

use serde_json::Value;

use super::*;

#[test]
fn the_description_names_every_route_and_its_limits() {
    let document: Value = serde_json::from_str(OPENAPI).unwrap();
    let paths = document["paths"].as_object().unwrap();
    let named: Vec<&str> = paths.keys().map(String::as_str).collect();
    let served = [
        "/healthcheck",
        "/healthz",
        "/json",
        "/metrics",
        "/openapi.json",
        "/readyz",
        "/v1/auth",
        "/v1/check",
        "/v1/dashboard/events",
        "/v1/explain",
        "/v1/headroom",
        "/v1/rules",
        "/v1/settle",
    ];
    assert_eq!(named, served);
    // A router does not list its routes, so they are counted where they are written. Both listeners
    // have the two health checks.
    let written = [include_str!("../http.rs"), include_str!("../admin.rs")];
    let written = written.map(|text| text.matches(".route(").count());
    assert_eq!(written.iter().sum::<usize>(), served.len() + 2);
    let schemas = &document["components"]["schemas"];
    let check = &schemas["Check"]["properties"];
    assert_eq!(
        check["domain"]["maxLength"],
        tollgate_core::DOMAIN_BYTES_MAX
    );
    assert_eq!(
        check["descriptors"]["maxItems"],
        tollgate_core::DESCRIPTORS_MAX
    );
    assert_eq!(check["cost"]["maximum"], tollgate_core::COST_MAX);
    let settle = &schemas["Settle"]["properties"];
    assert_eq!(settle["cost"]["maximum"], tollgate_core::COST_MAX);
    let description = document["paths"]["/v1/check"]["post"]["responses"]["400"]["description"]
        .as_str()
        .unwrap();
    let most = format!("more than {} limits", tollgate_engine::RESERVED_LIMITS_MAX);
    assert!(description.contains(&most), "{description}");
    let entries = &schemas["Descriptor"]["oneOf"][0]["properties"]["entries"];
    assert_eq!(entries["maxItems"], tollgate_core::ENTRIES_MAX);
    let entry = &entries["items"]["properties"];
    assert_eq!(entry["key"]["minLength"], 1);
}

#[test]
fn parameters_belong_in_the_body() {
    for accepted in ["/v1/check", "/v1/check?"] {
        assert!(has_no_query(&Uri::from_static(accepted)).is_ok());
    }
    let failure = has_no_query(&Uri::from_static("/v1/check?peek=true")).unwrap_err();
    assert_eq!(failure.problem.status, StatusCode::BAD_REQUEST);
    assert_eq!(
        failure.problem.detail,
        "`?peek=true`, but /v1/check takes no parameters in the URL; write them into the body"
    );
}
