//! What is wrong with the section `gateway`, and where.

use std::path::Path;

use tollgate_rules::Source;
use tollgate_server::{Config, Listen, ListenerKind};

fn parse(text: &str) -> Result<Config, String> {
    let parsed = Config::parse(&Source::new("tollgate.yaml", text), Path::new("."));
    parsed.map_err(|error| error.to_string())
}

const UPSTREAM: &str = "upstreams: {api: {addresses: ['127.0.0.1:3000']}}";

#[test]
fn a_gateway_needs_a_domain_and_an_upstream() {
    let config = parse(&format!("rules: r\ngateway: {{domain: api, {UPSTREAM}}}\n")).unwrap();
    let settings = config.gateway.unwrap();
    assert_eq!(settings.timeouts.connect.to_string(), "2s");
    assert_eq!(settings.upstreams["api"].addresses, ["127.0.0.1:3000"]);
    let expected = Listen {
        kind: ListenerKind::Gateway,
        address: "127.0.0.1:8000".parse().unwrap(),
        tls: None,
    };
    assert!(config.listen.contains(&expected));
    let without = parse("rules: r\n").unwrap();
    assert!(
        !without
            .listen
            .iter()
            .any(|one| one.kind == ListenerKind::Gateway)
    );
    let log = format!("access_log: {{path: logs/a}}, {UPSTREAM}");
    let log = format!("rules: r\ngateway: {{domain: api, {log}}}\n");
    let source = Source::new("tollgate.yaml", log);
    let logging = Config::parse(&source, Path::new("/etc")).unwrap();
    let log = logging.gateway.unwrap().access_log.unwrap();
    assert_eq!(log.path, Path::new("/etc/logs/a"));
    // It is enough for a service.
    let alone = "rules: r\nlisten: {grpc: null, http: null}\n";
    assert!(parse(alone).is_err());
    parse(&format!("{alone}gateway: {{domain: api, {UPSTREAM}}}\n")).unwrap();
}

/// `expected` is a place, and a part of the message there.
fn check_error(section: &str, expected: &str) {
    let base = "\n  domain: api\n  upstreams: {api: {addresses: ['h:1']}}\n  ";
    let section = section.replace("BASE", base);
    let error = parse(&format!("rules: r\ngateway: {section}\n")).unwrap_err();
    let (place, message) = expected.split_once(" | ").unwrap();
    let place = format!(" --> tollgate.yaml:{place}\n");
    let has_both = error.contains(&place) && error.contains(message);
    assert!(has_both, "{section}\n{error}");
}

#[test]
fn errors_of_concurrency_limits_have_their_place() {
    for (section, expected) in [
        (
            "BASEin_flight: [{per: [user], requests: 1}]",
            "5:21 | `gateway.in_flight[0].per`: no descriptor of `identity` has the keys [user]",
        ),
        (
            "BASEin_flight: [{per: [remote_address], requests: 0}]",
            "5:49 | `gateway.in_flight[0].requests`: 0 requests in flight",
        ),
        (
            "BASEin_flight: [{per: [remote_address]}]",
            "5:15 | `requests` is missing",
        ),
        (
            "BASEin_flight: [{per: [remote_address], requests: 9}]\n  routes:\n    - identity: \
             {descriptors: [{entries: [{key: a, from: {constant: b}}]}]}",
            "7:7 | `gateway.routes[0].in_flight[0].per`: no descriptor",
        ),
    ] {
        check_error(section, expected);
    }
}

#[test]
fn every_error_has_its_place() {
    for (section, expected) in [
        ("{domain: api}", "2:10 | `gateway.upstreams`: 0 upstreams"),
        (
            "\n  domain: api\n  upstreams: {api: {addresses: ['127.0.0.1']}}",
            "4:33 | `gateway.upstreams.api.addresses[0]`: \"127.0.0.1\" is not an address with",
        ),
        (
            "BASEroutes:\n    - {upstream: apl}",
            "6:18 | `gateway.routes[0].upstream`: there is no upstream \"apl\"",
        ),
        (
            "BASEroutes:\n    - {}\n    - match: {paths: [/a]}",
            "7:14 | `gateway.routes[1].match`: no request reaches this route: routes[0] has all",
        ),
        (
            "\n  domain: api\n  upstreams: {api: {addresses: ['h:1'], protocol: h3}}",
            "4:51 | `h3` is not a valid `protocol`",
        ),
        (
            "BASEbody_bytes: much",
            "5:15 | \"much\" is not a number of bytes, KiB, MiB or GiB",
        ),
        (
            "BASEaccess_log: {path: ''}",
            "5:22 | `gateway.access_log.path`: it is empty",
        ),
        (
            "BASEaccess_log: {path: a, format: xml}",
            "5:33 | `xml` is not a valid `format`",
        ),
        ("BASEaccess_log: {format: json}", "5:15 | `path` is missing"),
        ("BASEtimeouts: {heads: 1s}", "5:14 | unknown key `heads`"),
        (
            "BASEtimeouts: {head: 0s}",
            "5:20 | `gateway.timeouts.head`: 0s is outside 1ms to 1d",
        ),
    ] {
        check_error(section, expected);
    }
    let off =
        format!("rules: r\nlisten: {{gateway: null}}\ngateway: {{domain: api, {UPSTREAM}}}\n");
    let error = parse(&off).unwrap_err();
    assert!(error.contains("`gateway` has no effect"), "{error}");
    let error = parse("rules: r\nlisten: {gateway: '127.0.0.1:1'}\n").unwrap_err();
    assert!(
        error.contains("nothing says what the gateway passes on"),
        "{error}"
    );
}

/// The section with two descriptors, of which the second counts by its response, over `store`.
fn counting(store: &str, count_when: &str) -> Result<Config, String> {
    let descriptors = format!(
        "[{{entries: [{{key: a, from: client_address}}]}}, {{entries: [{{key: b, from: path}}], \
         count_when: {count_when}}}]"
    );
    let identity = format!("identity: {{descriptors: {descriptors}}}");
    let gateway = format!("gateway: {{domain: api, {UPSTREAM}, {identity}}}");
    parse(&format!("rules: r\n{store}\n{gateway}\n"))
}

#[test]
fn what_counts_by_its_response_needs_a_store_that_can_reserve_it() {
    let statuses = "{status: [401, 403, 5xx, 420-429]}";
    for store in [
        "",
        "store: redis://h:1",
        "store: {redis: {sentinel: {master: m, addresses: ['h:1']}}}",
    ] {
        counting(store, statuses).unwrap_or_else(|error| panic!("{store}\n{error}"));
    }
    let cluster = "store: {redis: {cluster: ['h:1']}}";
    let error = counting(cluster, statuses).unwrap_err();
    for words in [
        "`identity` is charged by its responses (`count_when`, `cost`), and the store `default` of",
        "the limits of its 2 descriptors may be in several slots of a Redis Cluster",
        "a route of their own",
        " --> tollgate.yaml:3:",
    ] {
        assert!(error.contains(words), "{words}\n{error}");
    }
    // Another store serves the domain; and a request with one descriptor has one slot.
    let other = format!("{cluster}\nstores: {{own: {{memory: true, domains: [api]}}}}");
    counting(&other, statuses).unwrap();
    let alone = "identity: {descriptors: [{entries: [{key: b, from: path}], count_when: {status: \
        [401]}}]}";
    let routes = format!("routes: [{{match: {{paths: [/login]}}, {alone}}}, {{}}]");
    let section = format!("gateway: {{domain: api, {UPSTREAM}, {routes}}}");
    parse(&format!("rules: r\n{cluster}\n{section}\n")).unwrap();

    for (count_when, words) in [
        (
            "{status: []}",
            "no response counts, so nothing would be limited",
        ),
        (
            "{status: [600]}",
            "\"600\" is not a valid status: write one from 100 to 599",
        ),
        ("{status: [4x]}", "\"4x\" is not a valid status"),
        ("{statuses: [401]}", "unknown key `statuses`"),
        ("{}", "`status` is missing below `count_when`"),
        ("[401]", "`count_when` is a map"),
    ] {
        let error = counting("", count_when).unwrap_err();
        assert!(error.contains(words), "{count_when}\n{error}");
    }
}

#[test]
fn what_costs_by_its_response_needs_a_store_that_can_reserve_it() {
    let cluster = "store: {redis: {cluster: ['h:1']}}";
    let bytes = "gateway: {domain: api, UPSTREAM, identity: {descriptors: [{entries: [{key: a, \
        from: path}]}, {entries: [{key: b, from: path}], cost: {from: COST}}]}}";
    let bytes = bytes.replace("UPSTREAM", UPSTREAM);
    let cost = |from: &str| {
        parse(&format!(
            "rules: r\n{cluster}\n{}\n",
            bytes.replace("COST", from)
        ))
    };
    cost("{constant: 5}").unwrap();
    cost("{header: x-cost}").unwrap();
    let error = cost("response_bytes").unwrap_err();
    assert!(error.contains("slots of a Redis Cluster"), "{error}");
    for (from, words) in [
        (
            "{json: usage}",
            "`gateway.identity.descriptors[1].cost.from.json`: \"usage\" does not begin with",
        ),
        ("{constant: x}", "`x` is not a number"),
        ("bytes", "`bytes` is not a valid `from`"),
    ] {
        let error = cost(from).unwrap_err();
        assert!(error.contains(words), "{from}\n{error}");
    }
    let auth = "auth: {domain: api, source: x-original-uri, identity: {client_address: {source: \
        x-real-ip}, descriptors: [{entries: [{key: b, from: path}], count_when: {status: \
        [401]}}]}}";
    let error = parse(&format!("rules: r\n{auth}\n")).unwrap_err();
    assert!(error.contains("only the gateway sees responses"), "{error}");
}
