//! The configuration files of the contenders and of the server behind them.

/// What the server behind the contenders answers: 64 bytes.
pub(crate) const BODY: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

/// A limit larger than any load.
const LARGE: u32 = 4_000_000_000;

/// How much each contender allows to one address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Allowance {
    /// One request, to see that the limit works.
    One,
    /// All of the load.
    All,
}

/// The server that answers what is passed on.
pub(crate) fn server(folder: &str, port: u16) -> String {
    let answer = format!("default_type text/plain; return 200 \"{BODY}\";");
    nginx(folder, "", port, &answer)
}

/// nginx with `limit_req`.
pub(crate) fn nginx_limit_req(
    folder: &str,
    port: u16,
    server: u16,
    allowance: Allowance,
) -> String {
    let (rate, burst) = match allowance {
        Allowance::One => ("1r/m", ""),
        Allowance::All => ("1000000r/s", "burst=1000000 nodelay"),
    };
    let before = format!(
        "limit_req_zone $binary_remote_addr zone=limit:10m rate={rate}; limit_req_status 429;
         upstream api {{
             server 127.0.0.1:{server}; keepalive 128; keepalive_requests 1000000000;
         }}"
    );
    let location = format!(
        "limit_req zone=limit {burst};
         proxy_http_version 1.1; proxy_set_header Connection \"\"; proxy_set_header Host $host;
         proxy_set_header X-Real-IP $remote_addr; proxy_set_header X-Forwarded-Proto $scheme;
         proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
         proxy_pass http://api;"
    );
    nginx(folder, &before, port, &location)
}

fn nginx(folder: &str, before: &str, port: u16, location: &str) -> String {
    format!(
        "daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log;
         events {{ worker_connections 4096; }}
         http {{
             access_log off; keepalive_requests 1000000000; {before}
             server {{ listen 127.0.0.1:{port}; location / {{ {location} }} }}
         }}"
    )
}

/// Envoy with its local rate limit.
pub(crate) fn envoy(port: u16, server: u16, allowance: Allowance) -> String {
    let (tokens, interval) = match allowance {
        Allowance::One => (1, "60s"),
        Allowance::All => (LARGE, "1s"),
    };
    let manager = "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3\
                   .HttpConnectionManager";
    let limit = "type.googleapis.com/envoy.extensions.filters.http.local_ratelimit.v3\
                 .LocalRateLimit";
    let router = "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router";
    let address = |port| format!("{{socket_address: {{address: 127.0.0.1, port_value: {port}}}}}");
    let (front, behind) = (address(port), address(server));
    let always = "{default_value: {numerator: 100, denominator: HUNDRED}}";
    format!(
        "static_resources:
  listeners:
  - address: {front}
    filter_chains:
    - filters:
      - name: envoy.filters.network.http_connection_manager
        typed_config:
          '@type': {manager}
          stat_prefix: gateway
          use_remote_address: true
          route_config:
            virtual_hosts:
            - name: all
              domains: ['*']
              routes: [{{match: {{prefix: /}}, route: {{cluster: api}}}}]
          http_filters:
          - name: envoy.filters.http.local_ratelimit
            typed_config:
              '@type': {limit}
              stat_prefix: limit
              token_bucket: {{max_tokens: {tokens}, tokens_per_fill: {tokens},
                             fill_interval: {interval}}}
              filter_enabled: {always}
              filter_enforced: {always}
          - name: envoy.filters.http.router
            typed_config: {{'@type': {router}}}
  clusters:
  - name: api
    load_assignment:
      cluster_name: api
      endpoints: [{{lb_endpoints: [{{endpoint: {{address: {behind}}}}}]}}]
"
    )
}

/// The settings of `tollgate serve`, for a request with so many limits.
pub(crate) fn tollgate(port: u16, server: u16, limits: usize) -> String {
    let descriptor =
        |index| format!("      - entries: [{{key: address_{index}, from: client_address}}]\n");
    // Without a limit, a request has a descriptor for which there is no rule.
    let descriptors: String = (0..limits.max(1)).map(descriptor).collect();
    format!(
        "rules: [rules.yaml]
listen: {{gateway: '127.0.0.1:{port}', grpc: null, http: null, admin: null}}
gateway:
  domain: api
  upstreams: {{api: {{addresses: ['127.0.0.1:{server}']}}}}
  identity:
    descriptors:
{descriptors}"
    )
}

/// The rules of `tollgate serve`.
pub(crate) fn tollgate_rules(limits: usize, allowance: Allowance) -> String {
    let limit = match allowance {
        Allowance::One => "1/minute".to_owned(),
        Allowance::All => format!("{LARGE}/day"),
    };
    let rule = |index| format!("  - {{key: address_{index}, rate_limit: {limit}}}\n");
    let rules: String = (0..limits).map(rule).collect();
    match limits {
        0 => format!("domain: api\ndescriptors:\n  - {{key: other, rate_limit: {limit}}}\n"),
        _ => format!("domain: api\ndescriptors:\n{rules}"),
    }
}
