#![allow(clippy::unwrap_used)]

use serde_json::Value;

use super::*;

#[test]
fn the_description_names_every_route_and_its_limits() {
    let document: Value = serde_json::from_str(OPENAPI).unwrap();
    let paths = document["paths"].as_object().unwrap();
    let named: Vec<&str> = paths.keys().map(String::as_str).collect();
    let served = [
        "/healthz",
        "/json",
        "/openapi.json",
        "/readyz",
        "/v1/auth",
        "/v1/check",
        "/v1/dashboard/events",
        "/v1/explain",
        "/v1/headroom",
        "/v1/settle",
    ];
    assert_eq!(named, served);
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
fn json_by_any_of_its_usual_media_types_is_accepted() {
    let judge = |media_type: &'static str| {
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
        is_json(&headers).map_err(|failure| failure.problem.status)
    };
    assert!(is_json(&HeaderMap::new()).is_ok());
    for taken in [
        "application/json",
        "Application/JSON; charset=utf-8",
        "application/problem+json",
        "application/x-www-form-urlencoded",
    ] {
        assert!(judge(taken).is_ok(), "{taken}");
    }
    for rejected in ["application/xml", "application/grpc", "multipart/form-data"] {
        let expected = Err(StatusCode::UNSUPPORTED_MEDIA_TYPE);
        assert_eq!(judge(rejected), expected, "{rejected}");
    }
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
