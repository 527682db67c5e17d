//! Envoy's configuration.

use serde_json::{Value, json};

/// Request headers that Envoy sends to Tollgate, each as a descriptor of its own.
const HEADERS: [&str; 14] = [
    "user",
    "tenant",
    "trial",
    "window",
    "log",
    "bucket",
    "queue",
    "bulk",
    "plan",
    "any",
    "pause",
    "pause-window",
    "pause-log",
    "pause-bucket",
];
/// The cost that Envoy sends for a request with the header `bulk`.
const BULK: u32 = 3;
/// The limit that Envoy sends along for a request with the header `plan`.
pub(crate) const PLAN: u32 = 4;
/// How many headers there are whose values are large.
const LARGE: usize = 20;
/// Headers, each repeated in so many descriptors: some, and the most that are decided.
pub(crate) const WIDE: [(&str, usize); 2] = [("wide", 18), ("widest", 128)];
/// The header of a request that uses tokens, and of one that only asks how many are left.
pub(crate) const SPEND: &str = "spend";
pub(crate) const LOOK: &str = "look";
/// The header of a response that says how many tokens it used, and how many that is.
pub(crate) const TOKENS_HEADER: &str = "x-tokens";
pub(crate) const TOKENS: u32 = 600;

/// Envoy's whole configuration.
pub(crate) fn configuration(listener: u16, grpc: u16, upstream: u16) -> Value {
    let manager = json!({
        "@type": "type.googleapis.com/envoy.extensions.filters.network.\
            http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "edge",
        "route_config": {"virtual_hosts": [{
            "name": "all",
            "domains": ["*"],
            "routes": [{
                "match": {"prefix": "/"},
                "route": {"cluster": "upstream"},
                "typed_per_filter_config": {"rate limit": {
                    "@type": "type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.\
                        RateLimitPerRoute",
                    "rate_limits": rate_limits(),
                }},
            }],
        }]},
        "http_filters": [metadata_filter(), tokens_filter(), rate_limit_filter(), {
            "name": "router",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router",
            },
        }],
    });
    json!({"static_resources": {
        "listeners": [{
            "name": "edge",
            "address": address(listener),
            "filter_chains": [{"filters": [{"name": "manager", "typed_config": manager}]}],
        }],
        "clusters": [cluster("upstream", upstream, &json!({})), cluster("tollgate", grpc, &json!({
            "envoy.extensions.upstreams.http.v3.HttpProtocolOptions": {
                "@type": "type.googleapis.com/envoy.extensions.upstreams.http.v3.\
                    HttpProtocolOptions",
                "explicit_http_config": {"http2_protocol_options": {}},
            },
        }))],
    }})
}

/// Every descriptor that a request can have.
fn rate_limits() -> Vec<Value> {
    let large = large_headers().map(|header| json!({"actions": [value_of(&header, "large")]}));
    let wide = WIDE.into_iter().flat_map(|(header, copies)| {
        (0..copies).map(move |copy| {
            let copy = json!({"descriptor_key": "copy", "descriptor_value": copy.to_string()});
            json!({"actions": [value_of(header, "wide"), {"generic_key": copy}]})
        })
    });
    let each = HEADERS.into_iter().map(descriptor);
    each.chain(large).chain(wide).chain(tokens()).collect()
}

fn value_of(header: &str, key: &str) -> Value {
    json!({"request_headers": {"header_name": header, "descriptor_key": key}})
}

/// The headers whose values are large, each a descriptor.
pub(crate) fn large_headers() -> impl Iterator<Item = String> {
    (0..LARGE).map(|number| format!("large-{number}"))
}

/// A budget of tokens. Before the request, a peek checks whether any are left; after it, the tokens
/// that the response reports are charged. With [`LOOK`] in place of [`SPEND`], nothing is charged.
fn tokens() -> [Value; 3] {
    let look =
        |header| json!({"actions": [value_of(header, "tokens")], "hits_addend": {"number": 0}});
    let used = json!({"format": "%DYNAMIC_METADATA(tokens:used)%"});
    let spend = json!({
        "actions": [value_of(SPEND, "tokens")],
        "hits_addend": used,
        "apply_on_stream_done": true,
    });
    [look(LOOK), look(SPEND), spend]
}

/// Reads from the response how many tokens it used.
fn tokens_filter() -> Value {
    let used = json!({"metadata_namespace": "tokens", "key": "used", "type": "NUMBER"});
    json!({"name": "tokens", "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.header_to_metadata.v3.Config",
        "response_rules": [{"header": TOKENS_HEADER, "on_header_present": used}],
    }})
}

/// One descriptor, if the request has the header.
fn descriptor(header: &str) -> Value {
    let mut limit = json!({"actions": [value_of(header, header)]});
    if header == "bulk" {
        limit["hits_addend"] = json!({"number": BULK});
    }
    if header == "plan" {
        let key = json!({"key": "plans", "path": [{"key": "gold"}]});
        limit["limit"] = json!({"dynamic_metadata": {"metadata_key": key}});
    }
    limit
}

/// The metadata in which Envoy finds the limit that it sends along.
fn metadata_filter() -> Value {
    let gold = json!({"requests_per_unit": PLAN, "unit": "YEAR"});
    json!({"name": "metadata", "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.set_metadata.v3.Config",
        "metadata": [{"metadata_namespace": "plans", "value": {"gold": gold}}],
    }})
}

fn rate_limit_filter() -> Value {
    json!({"name": "rate limit", "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit",
        "domain": "edge",
        // By default Envoy allows requests without an answer in 20 ms, which would hide a failure.
        "timeout": "20s",
        "failure_mode_deny": true,
        "enable_x_ratelimit_headers": "DRAFT_VERSION_03",
        "enable_retry_after_header": true,
        "rate_limit_service": {
            "transport_api_version": "V3",
            "grpc_service": {"envoy_grpc": {"cluster_name": "tollgate"}},
        },
    }})
}

fn cluster(name: &str, port: u16, options: &Value) -> Value {
    json!({
        "name": name,
        "type": "STATIC",
        "connect_timeout": "5s",
        "typed_extension_protocol_options": options,
        "load_assignment": {
            "cluster_name": name,
            "endpoints": [{"lb_endpoints": [{"endpoint": {"address": address(port)}}]}],
        },
    })
}

fn address(port: u16) -> Value {
    json!({"socket_address": {"address": "127.0.0.1", "port_value": port}})
}
