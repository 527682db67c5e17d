#![allow(clippy::unwrap_used)]

use std::time::Duration;

use tollgate_backends::SharedConfig;
use tollgate_core::Span;
use tollgate_engine::Thresholds;
use tollgate_gateway::{AccessLogFormat, ByteSize, LoadSettings};
use tollgate_http::{
    AddressSource, ClientAddressSettings, IdentitySettings, IfMissing, OriginalSource,
    ResponseSettings, SourceSettings,
};

use super::*;

fn parse(text: &str) -> Result<Config, ConfigError> {
    Config::parse(
        &Source::new("tollgate.yaml", text),
        Path::new("/etc/tollgate"),
    )
}

fn invalid(text: &str) -> String {
    parse(text).unwrap_err().to_string()
}

#[test]
fn only_the_rules_must_be_named() {
    let config = parse("rules: [rules.yaml, /srv/rules]\n").unwrap();
    let rules = ["/etc/tollgate/rules.yaml", "/srv/rules"].map(PathBuf::from);
    assert_eq!(config, Config::new(rules.to_vec()));
}

#[test]
fn rules_may_follow_in_the_same_file() {
    let own = PathBuf::from("/etc/tollgate/tollgate.yaml");
    let rules = "---\ndomain: d\n";
    let config = parse(&format!("allow_refund: true\n{rules}")).unwrap();
    assert_eq!(config.rules, std::slice::from_ref(&own));
    let config = parse(&format!("rules: [rules.yaml]\n{rules}")).unwrap();
    assert_eq!(config.rules, ["/etc/tollgate/rules.yaml".into(), own]);
    let error = invalid("allow_refund: true\n---\n");
    assert!(error.contains("write the rules below `---`"), "{error}");
}

#[test]
fn every_setting_is_read() {
    let config = parse(
        "rules: r\nmerge_domains: true\nallow_refund: true\ndynamic_metadata: true\n\
         listen: {grpc: null, http: '[::1]:80', admin: '0.0.0.0:0'}\n\
         memory: {max_keys: 5000, max_bytes: 2 GiB}\n\
         limits: {connections: 9, connections_per_address: 8, admin_connections: 7, \
         connection_age: 2h, streams_per_connection: 6, streams: 50, header_bytes: 8KiB, \
         message_bytes: 2MiB, body_bytes: 1MiB, buffer_per_connection: 3MiB, buffer: 10MiB, \
         turn_bytes: 65536, control_frames: 40, header_timeout: 1s, body_timeout: 2s, \
         write_timeout: 3s, ping_interval: 4s, ping_timeout: 5s, stop_delay: 6s, \
         drain_timeout: 1m7s}\n\
         log: {level: debug, format: json}\n",
    )
    .unwrap();
    let secs = Duration::from_secs;
    let listen = |kind, address: &str| Listen {
        kind,
        address: address.parse().unwrap(),
        tls: None,
    };
    let expected = Config {
        merge_domains: true,
        listen: vec![
            listen(ListenerKind::Http, "[::1]:80"),
            listen(ListenerKind::Admin, "0.0.0.0:0"),
        ],
        memory: Memory {
            max_keys: Some(5000),
            max_bytes: Some(2 << 30),
        },
        limits: Limits {
            connections: 9,
            connections_per_address: 8,
            admin_connections: 7,
            connection_age: secs(7200),
            streams_per_connection: 6,
            streams: 50,
            header_bytes: 8 << 10,
            message_bytes: 2 << 20,
            body_bytes: 1 << 20,
            buffer_per_connection: 3 << 20,
            buffer: 10 << 20,
            turn_bytes: 65_536,
            control_frames: 40,
            header_timeout: secs(1),
            body_timeout: secs(2),
            write_timeout: secs(3),
            ping_interval: secs(4),
            ping_timeout: secs(5),
            stop_delay: secs(6),
            drain_timeout: secs(67),
        },
        log: Log {
            level: LogLevel::Debug,
            format: LogFormat::Json,
        },
        allow_refund: true,
        dynamic_metadata: true,
        // The others have tests of their own.
        ..Config::new(vec![PathBuf::from("/etc/tollgate/r")])
    };
    assert_eq!(config, expected);
}

#[test]
fn errors_name_their_place_and_the_remedy() {
    let cases = [
        (
            "rules: r\nlimits: {buffer: 512KiB}\n",
            "`buffer` is smaller than the largest request, 8388608 bytes",
        ),
        (
            "rules: r\nlimits: {body_bytes: 3}\n",
            "is not between 4KiB and 1GiB",
        ),
        ("", "no rules file is named"),
        ("rules: []\n", "write `rules: [PATH]`"),
        (
            "domain: shop\ndescriptors: []\n",
            "this is a rules file, not a settings file",
        ),
        ("rule: r\n", "did you mean `rules`?"),
        (
            "rules: r\nlisten: {grcp: null}\n",
            "did you mean `listen.grpc`?",
        ),
        (
            "rules: r\nlisten: {http: 8080}\n",
            "`8080` is neither an IP address with a port nor `unix:` with a path",
        ),
        (
            "rules: r\nlisten: {redis: 'redis://:SECRET@h'}\n",
            "(not shown: it may be a password) is neither an IP address",
        ),
        (
            "rules: r\nlisten: {http: null, grpc: null}\n",
            "no request can arrive",
        ),
        (
            "rules: r\nmemory: {max_keys: 0}\n",
            "is not a number of keys",
        ),
        (
            "rules: r\nmemory: {max_bytes: 5 MB}\n",
            "is not a number of bytes",
        ),
        ("rules: r\nmemory: {max_bytes: 5}\n", "is less than 1MiB"),
        (
            "rules: r\nmemory: {max_bytes: 99999999999GiB}\n",
            "is not a number of bytes",
        ),
        (
            "rules: r\nlimits: {connections: 0}\n",
            "is outside 1 to 1000000",
        ),
        ("rules: r\nlimits: {body_timeout: 10}\n", "has no unit"),
        (
            "rules: r\nlimits: {body_timeout: 2h}\n",
            "is outside 1ms to 1h",
        ),
        (
            "rules: r\nlog: {format: xml}\n",
            "write `format: text` or `json`",
        ),
        ("rules: r\nmerge_domains: 1\n", "`merge_domains: true`"),
    ];
    for (text, expected) in cases {
        let found = invalid(text);
        assert!(found.contains(expected), "{text}: {found}");
        assert!(found.contains("tollgate.yaml:"), "{text}: {found}");
    }
    let both = invalid("rule: r\nlgo: {}\n");
    assert_eq!(both.matches("error[").count(), 3, "{both}");
}

#[test]
fn a_buffer_takes_the_largest_request() {
    for (buffer, expected) in [
        ("buffer: 2GB", "write `buffer: 64MiB`"),
        (
            "buffer_per_connection: 2GiB",
            "write `buffer_per_connection: 32MiB`",
        ),
        ("buffer: 2GiB", "is more than 1GiB"),
        (
            "buffer_per_connection: 0",
            "is smaller than the largest request, 8388608 bytes",
        ),
    ] {
        let found = invalid(&format!("rules: r\nlimits: {{{buffer}}}\n"));
        assert!(found.contains(expected), "{buffer}: {found}");
    }
}

#[test]
fn the_remedy_fits_the_setting() {
    for (text, expected) in [
        (
            "rules: r\nlimits: {header_bytes: 8191}\n",
            "is not between 8KiB and 1GiB",
        ),
        (
            "rules: r\nreservations: {lifetime: 3600 s}\n",
            "did you mean `lifetime: 3600s`?",
        ),
        (
            "rules: r\nreservations: {lifetime: a while}\n",
            "write `lifetime: 1h`",
        ),
        (
            "rules: r\nlisten: {http: null, grpc: null}\n",
            "`grpc`, `http` and `redis` are off",
        ),
    ] {
        let found = invalid(text);
        assert!(found.contains(expected), "{text}: {found}");
    }
}

/// A unit that others use is converted.
#[test]
fn the_remedy_for_a_size_or_a_time_is_what_was_meant() {
    let gateway = "gateway: {domain: d, upstreams: {u: {addresses: ['h:1']}}, ";
    for (text, expected) in [
        ("limits: {message_bytes: 8MB}", "`message_bytes: 8MiB`?"),
        ("limits: {buffer: 1GB}", "`buffer: 1GiB`?"),
        ("memory: {max_bytes: 2 gb}", "`max_bytes: 2GiB`?"),
        ("limits: {drain_timeout: 5 minutes}", "`drain_timeout: 5m`?"),
        ("limits: {header_timeout: 30sec}", "`header_timeout: 30s`?"),
        ("limits: {header_timeout: 30}", "`header_timeout: 30s`?"),
        (
            &format!("{gateway}body_bytes: 8MB}}"),
            "`body_bytes: 8MiB`?",
        ),
        (
            &format!("{gateway}timeouts: {{head: 30}}}}"),
            "`head: 30s`?",
        ),
        (
            &format!("{gateway}timeouts: {{head: 5 minutes}}}}"),
            "`head: 5m`?",
        ),
    ] {
        let found = invalid(&format!("rules: r\n{text}\n"));
        let expected = format!("did you mean {expected}");
        assert!(found.contains(&expected), "{text}: {found}");
    }
    // What is meant would be wrong, too.
    for (text, expected) in [
        (
            "limits: {message_bytes: 2kb}",
            "write `message_bytes: 64KiB`",
        ),
        (
            "limits: {header_timeout: 5 hours}",
            "write `header_timeout: 10s`",
        ),
    ] {
        let found = invalid(&format!("rules: r\n{text}\n"));
        assert!(found.contains(expected), "{text}: {found}");
    }
}

#[test]
fn a_rules_file_has_one_error() {
    let rules = "domain: shop\ndescriptors: []\n";
    let found = invalid(rules);
    assert!(
        found.contains("this is a rules file, not a settings file"),
        "{found}"
    );
    assert_eq!(found.matches("error[").count(), 1, "{found}");
    // With a setting, it is both, and the rules are in the wrong place.
    let found = invalid(&format!("merge_domains: true\n{rules}"));
    assert!(!found.contains("not a settings file"), "{found}");
    assert!(found.contains("no rules file is named"), "{found}");
    assert!(found.contains("put `---` on a line of its own"), "{found}");
}

#[test]
fn reservations_have_bounds() {
    let config = parse("rules: r\nreservations: {max: 12, lifetime: 90s}\n").unwrap();
    let expected = ReservationBounds {
        max: 12,
        lifetime: Span::from_secs(90),
    };
    assert_eq!(config.reservations, expected);
    for (setting, expected) in [
        ("max: 0", "is outside 1 to 10000000"),
        ("lifetime: 2d", "is outside 1s to 1d"),
    ] {
        let found = invalid(&format!("rules: r\nreservations: {{{setting}}}\n"));
        assert!(found.contains(expected), "{setting}: {found}");
    }
}

#[test]
fn a_missing_file_is_named() {
    let error = Config::read(Path::new("/nowhere/tollgate.yaml")).unwrap_err();
    assert_eq!(error.to_string(), "cannot read /nowhere/tollgate.yaml");
    assert!(matches!(
        Config::read(Path::new("/")),
        Err(ConfigError::Unreadable(_))
    ));
}

#[test]
fn thresholds_of_headroom() {
    let config = parse(
        "rules: r\nheadroom: {interval: 500ms, hold: 2m, cpu: {low: 0%, high: 100%}, \
         memory: {high: 95%}, upstream: {latency: {low: 110%, high: 300%}, errors: {low: 2%}, \
         window: 5s, baseline: 1h, samples: 10}}\n",
    );
    let expected = HeadroomConfig {
        interval: Span::from_millis(500),
        hold: Span::from_secs(120),
        cpu: Thresholds { low: 0, high: 1000 },
        memory: Thresholds {
            low: 800,
            high: 950,
        },
        upstream: LoadSettings {
            latency: Thresholds {
                low: 1100,
                high: 3000,
            },
            errors: Thresholds { low: 20, high: 50 },
            window: Span::from_secs(5),
            baseline: Span::HOUR,
            samples: 10,
        },
        ..HeadroomConfig::default()
    };
    assert_eq!(config.unwrap().headroom, expected);
    for (text, problem) in [
        ("cpu: {low: 60}", "is not a percentage from 0% to 100%"),
        ("cpu: {low: 0.6}", "write `low: 60%`"),
        ("cpu: {low: 1%%}", "is not a percentage"),
        ("cpu: {low: -1%}", "is not a percentage"),
        ("cpu: {high: 101%}", "is not a percentage from 0% to 100%"),
        ("cpu: {low: 99999999999%}", "is not a percentage"),
        ("cpu: {low: 80%}", "`low` is 80% and `high` is 80%"),
        ("memory: {high: 10%}", "`low` is 80% and `high` is 10%"),
        ("cpu: {lo: 1%}", "lo"),
        ("interval: 99ms", "is outside 100ms to 1m"),
        ("hold: 999ms", "is outside 1s to 1h"),
        ("root: /tmp", "root"),
        (
            "upstream: {latency: {low: 99%}}",
            "is not a percentage from 100% to 10000%",
        ),
        (
            "upstream: {latency: {low: 200%}}",
            "`low` is 200% and `high` is 200%",
        ),
        (
            "upstream: {errors: {high: 101%}}",
            "is not a percentage from 0% to 100%",
        ),
        (
            "upstream: {errors: {high: 1%}}",
            "`low` is 1% and `high` is 1%",
        ),
        ("upstream: {window: 999ms}", "is outside 1s to 10m"),
        ("upstream: {baseline: 9s}", "is outside 10s to 1d"),
        ("upstream: {samples: 0}", "samples"),
        ("upstream: {quantile: 99%}", "quantile"),
    ] {
        let errors = invalid(&format!("rules: r\nheadroom: {{{text}}}\n"));
        assert!(errors.contains(problem), "{text}: {errors}");
    }
}

#[test]
fn the_example_has_the_defaults() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let file = examples.join("tollgate.yaml");
    let config = Config::read(&file).unwrap();
    let mut expected = Config::new(vec![examples.join("rules")]);
    expected.file = Some(file);
    expected.memory.max_keys = Some(1_000_000);
    assert_eq!(config, expected);
    let sources = read_paths(&config.rules).unwrap();
    let loaded = tollgate_rules::RuleSet::parse(&sources, &tollgate_rules::Options::default());
    assert_eq!(loaded.diagnostics, []);
}

/// The example, with the settings that are commented out.
fn example_of_redis(directory: &Path) -> Config {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let text = std::fs::read_to_string(examples.join("tollgate.yaml")).unwrap();
    let mut uncommented = String::new();
    for line in text.lines().filter(|line| *line != "store: memory") {
        // A comment has one space after its `#`; a setting that is commented out has none or more.
        let setting = line
            .strip_prefix('#')
            .filter(|rest| rest.starts_with("  ") || rest.starts_with(char::is_alphabetic));
        uncommented.push_str(setting.unwrap_or(line));
        uncommented.push('\n');
    }
    let certificates = tollgate_testbed::Certificates::new();
    std::fs::copy(certificates.authority(), directory.join("redis-ca.pem")).unwrap();
    for name in ["redis-password", "clients-password", "admin-password"] {
        std::fs::write(directory.join(name), "secret of 16 bytes\n").unwrap();
    }
    std::fs::write(directory.join("admin-tokens"), "0123456789abcdef\n").unwrap();
    let source = Source::new("tollgate.yaml", uncommented);
    match Config::parse(&source, directory) {
        Ok(config) => config,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn settings_that_the_example_comments_out_are_valid_and_have_the_defaults() {
    let directory = tempfile::TempDir::new().unwrap();
    let config = example_of_redis(directory.path());
    let default = tollgate_redis::Config::single("localhost:6379");
    assert_eq!(config.store, Place::Shared(SharedConfig::new(default)));
    let expected = Sharing {
        instances: std::num::NonZeroU32::new(3),
        ..Sharing::default()
    };
    assert_eq!(config.sharing, expected);
    let named: Vec<(&str, &[String], bool)> = config
        .stores
        .iter()
        .map(|store| {
            let is_memory = store.place == Place::Memory;
            (&*store.name, &store.domains[..], is_memory)
        })
        .collect();
    let domains =
        |names: &[&str]| -> Vec<String> { names.iter().map(|name| (*name).to_owned()).collect() };
    let [payments, sessions, local] = [
        domains(&["payments", "invoices"]),
        domains(&["sessions"]),
        domains(&["health"]),
    ];
    let expected = [
        ("payments", &payments[..], false),
        ("sessions", &sessions[..], false),
        ("local", &local[..], true),
    ];
    assert_eq!(named, expected);
    let keys = config.redis_protocol.throttle_keys;
    assert_eq!(keys, RedisProtocol::default().throttle_keys);
    let mut gateway = config.gateway.unwrap();
    let default = GatewaySettings::default();
    let descriptor = &mut gateway.identity.descriptors[0];
    assert!(descriptor.count_when.take().is_some() && descriptor.cost.take().is_some());
    assert_eq!(gateway.timeouts, default.timeouts);
    assert_eq!(gateway.body_bytes, default.body_bytes);
    assert_eq!(gateway.body_rate, Some(ByteSize(240)));
    assert_eq!(gateway.identity, default.identity);
    assert_eq!(gateway.responses, default.responses);
    assert_eq!(gateway.access_log.unwrap().format, AccessLogFormat::Json);
}

const AUTH: &str = "rules: r\nauth:\n  domain: site\n  source: x-original-uri\n  identity:\n    \
    client_address: {source: x-real-ip}\n";

#[test]
fn auth_has_the_sections_of_identity_and_responses() {
    let auth = parse(AUTH).unwrap().auth.unwrap();
    let address = ClientAddressSettings {
        source: AddressSource::XRealIp,
        ..ClientAddressSettings::default()
    };
    let expected = Auth {
        domain: "site".to_owned(),
        source: OriginalSource::XOriginalUri,
        identity: IdentitySettings {
            client_address: address,
            ..IdentitySettings::default()
        },
        responses: ResponseSettings::default(),
    };
    assert_eq!(auth, expected);
    assert!(auth.classifier().is_ok());

    let text = "rules: r\nauth: {domain: a, source: x-forwarded-uri, responses: {status: 403}, \
        identity: {client_address: {source: x-forwarded-for, trusted_hops: 2}, \
        routes: [/login], descriptors: [{entries: [{key: k, from: {header: x-key}, \
        if_missing: {use: {key: r, from: route, if_missing: skip}}}]}]}}\n";
    let auth = parse(text).unwrap().auth.unwrap();
    assert_eq!(auth.source, OriginalSource::XForwardedUri);
    assert_eq!(auth.responses.status, 403);
    assert_eq!(auth.identity.client_address.trusted_hops, Some(2));
    let entry = &auth.identity.descriptors[0].entries[0];
    assert_eq!(entry.from, SourceSettings::Header("x-key".to_owned()));
    assert!(matches!(entry.if_missing, Some(IfMissing::Use(_))));
    let changed = parse(text).unwrap().differences(&parse(AUTH).unwrap());
    assert_eq!(changed, ["auth"]);
}

/// What of [`AUTH`] is replaced by what, and where the error is reported with which remedy.
const AUTH_ERRORS: &[(&str, &str, &str)] = &[
    (
        "domain: site",
        "domian: site",
        "3:3|did you mean `auth.domain`?",
    ),
    (
        "domain: site",
        "domain: ''",
        "3:11|has 0 bytes, and can have 1 to 1024",
    ),
    (
        "source: x-o",
        "source: X-O",
        "4:11|did you mean `x-original-uri`?",
    ),
    (
        "  source: x-original-uri\n",
        "",
        "3:3|write `source: x-original-uri` for nginx",
    ),
    (
        "source: x-real-ip",
        "source: peer",
        "6:30|so the peer is not the client",
    ),
    (
        "source: x-real-ip",
        "source: proxy-protocol",
        "6:30|reads no PROXY protocol",
    ),
    (
        "source: x-real-ip",
        "sources: x-real-ip",
        "6:22|did you mean `source`?",
    ),
    (
        "source: x-real-ip",
        "source: x-real",
        "6:30|did you mean `x-real-ip`?",
    ),
    (
        "x-real-ip}",
        "x-real-ip, trusted_hops: 0}",
        "6:55|write 1, or remove it",
    ),
    (
        "x-real-ip}",
        "x-real-ip, ipv6_prefix: 300}",
        "6:54|is outside 0 to 255",
    ),
    (
        "x-real-ip}",
        "x-real-ip, trusted_proxies: [10.0.0.0/8, x]}",
        "6:71|write one such as 10.0.0.0/8",
    ),
    (
        "x-real-ip}",
        "x-real-ip}\n    routes: /a",
        "7:13|write `routes: [...]`",
    ),
    (
        "x-real-ip}",
        "x-real-ip}\n    descriptors: [{}]",
        "7:19|`entries` is missing",
    ),
    (
        "x-real-ip}",
        "x-real-ip}\n    descriptors: [{entries: [{key: k, from: header}]}]",
        "7:45|write `from: { header: VALUE }`",
    ),
    (
        "x-real-ip}",
        "x-real-ip}\n    descriptors: [{entries: [{key: k, from: {path: x}}]}]",
        "7:52|write `path` alone",
    ),
    (
        "x-real-ip}",
        "x-real-ip}\n    descriptors: [{entries: [{key: k, from: host}]}]",
        "7:30|write `deny`, `skip`",
    ),
    (
        "x-real-ip}",
        "x-real-ip}\n    descriptors: [{entries: [{key: k, from: {cookie: ''}}]}]",
        "7:54|write its name",
    ),
    (
        "x-real-ip}\n",
        "x-real-ip}\n  responses: {status: 200}\n",
        "7:23|write 429",
    ),
    (
        "x-real-ip}\n",
        "x-real-ip}\n  responses: []\n",
        "7:14|is a map",
    ),
    (
        "rules: r\n",
        "rules: r\nlisten: {http: null}\n",
        "4:3|`listen.http` is off",
    ),
];

#[test]
fn errors_in_auth_name_their_place_and_the_remedy() {
    for (from, to, expected) in AUTH_ERRORS {
        let found = invalid(&AUTH.replacen(from, to, 1));
        let (place, help) = expected.split_once('|').unwrap();
        let place = format!("tollgate.yaml:{place}\n");
        assert!(found.contains(&place), "{to}: {found}");
        assert!(found.contains(help), "{to}: {found}");
    }
    let all = invalid("rules: r\nauth: {identity: {path: 7}, responses: {status: x}}\n");
    assert_eq!(all.matches("error[").count(), 4, "{all}");
}

/// First all that is not a setting at all, and without that all settings that cannot be used.
#[test]
fn every_error_of_the_gateway_is_reported_with_its_line() {
    let unreadable = "rules: r\n\
        listen: {gateway: '127.0.0.1:0'}\n\
        gateway:\n\
        \x20 domian: d\n\
        \x20 upstreams:\n\
        \x20   api: {addresses: ['127.0.0.1:1'], tls: {caa: x}, requests: many}\n\
        \x20   www: {protocol: http3}\n\
        \x20 routes:\n\
        \x20   - {upstream: api, match: {path: [/a]}}\n\
        \x20   - {upstream: api, body_rate: fast}\n\
        \x20 timeouts: {head: 5}\n";
    let unusable = "rules: r\n\
        listen: {gateway: '127.0.0.1:0'}\n\
        gateway:\n\
        \x20 domain: d\n\
        \x20 upstreams:\n\
        \x20   api: {addresses: ['127.0.0.1:1'], requests: 0}\n\
        \x20   www: {addresses: []}\n\
        \x20 routes:\n\
        \x20   - {upstream: api, match: {paths: [a]}}\n\
        \x20   - {upstream: web}\n\
        \x20 timeouts: {head: 2d}\n\
        \x20 access_log: {path: ''}\n";
    for (text, lines) in [
        (unreadable, &[4, 6, 6, 7, 7, 9, 10, 11][..]),
        (unusable, &[6, 7, 9, 10, 11, 12]),
    ] {
        let found = invalid(text);
        assert_eq!(found.matches("error[").count(), lines.len(), "{found}");
        for line in lines {
            let place = format!("tollgate.yaml:{line}:");
            assert!(found.contains(&place), "{place} {found}");
        }
    }
}

/// The settings `at` that errors name, each at the beginning of its message.
fn places(errors: &str) -> Vec<&str> {
    let messages = errors.lines().filter(|line| line.starts_with("error["));
    let messages = messages.filter_map(|line| line.split_once("]: `"));
    let places = messages.filter_map(|(_, rest)| rest.split_once("`: "));
    places.map(|(at, _)| at).collect()
}

const IDENTITY: &str = "{\
    client_address: {source: x-forwarded-for, trusted_proxies: [a, 10.0.0.1/8], ipv4_prefix: 0, \
        ipv6_prefix: 129, nat64_prefixes: [b]}, \
    routes: [users, '/{a}', '/{b}', '/a{b}'], \
    descriptors: [{entries: []}, {entries: [{key: '', from: {header: host}}, \
        {key: k, from: {cookie: ''}}, {key: k, from: host}, \
        {key: k, from: {user_agent_match: [{regex: '(', value: ''}]}, if_missing: deny}, \
        {key: k, from: {claim: sub}, \
        if_missing: {use: {key: f, from: {query: ''}, if_missing: skip}}}], \
        cost: {from: {header: ' '}, estimate: 2}}, \
        {entries: [{key: k, from: method}], cost: {from: {constant: 1}, estimate: 2}}], \
    token: {from: {cookie: ''}, verify: unverified, issuers: [a], audiences: [b], \
        leeway_secs: 9999}}";

const IDENTITY_PLACES: [&str; 24] = [
    "client_address.trusted_proxies[0]",
    "client_address.trusted_proxies[1]",
    "client_address.ipv4_prefix",
    "client_address.ipv6_prefix",
    "client_address.nat64_prefixes[0]",
    "routes[0]",
    "routes[2]",
    "routes[3]",
    "descriptors[0].entries",
    "descriptors[1].entries[0].key",
    "descriptors[1].entries[0].from.header",
    "descriptors[1].entries[0].if_missing",
    "descriptors[1].entries[1].from.cookie",
    "descriptors[1].entries[1].if_missing",
    "descriptors[1].entries[2].if_missing",
    "descriptors[1].entries[3].from.user_agent_match[0].regex",
    "descriptors[1].entries[3].from.user_agent_match[0].value",
    "descriptors[1].entries[4].if_missing.use.from.query",
    "descriptors[1].cost.from.header",
    "descriptors[2].cost.estimate",
    "token.issuers",
    "token.audiences",
    "token.from.cookie",
    "token.leeway_secs",
];

const RESPONSES: &str = "{status: 200, headers: [x_ratelimit_seconds, x_ratelimit_epoch, \
    x_ratelimit_epoch], bodies: [{media_type: html, text: a}, {media_type: '*/*', text: b}], \
    cors: {allow_origins: ['*', a, b], allow_credentials: true}}";

const RESPONSES_PLACES: [&str; 8] = [
    "status",
    "headers[1]",
    "headers[2]",
    "bodies[0].media_type",
    "bodies[1].media_type",
    "cors.allow_credentials",
    "cors.allow_origins[1]",
    "cors.allow_origins[2]",
];

#[test]
fn every_error_of_identity_and_responses_is_reported() {
    let sections = format!("identity: {IDENTITY}, responses: {RESPONSES}");
    let auth = format!("rules: r\nauth: {{domain: d, source: x-original-uri, {sections}}}\n");
    let upstreams = "upstreams: {api: {addresses: ['127.0.0.1:1']}}";
    let gateway = format!("rules: r\ngateway: {{domain: d, {upstreams}, {sections}}}\n");
    for (text, section) in [(auth, "auth"), (gateway, "gateway")] {
        let found = invalid(&text);
        let expected = IDENTITY_PLACES
            .iter()
            .map(|place| format!("{section}.identity.{place}"));
        let responses = RESPONSES_PLACES
            .iter()
            .map(|place| format!("{section}.responses.{place}"));
        let mut expected: Vec<String> = expected.chain(responses).collect();
        let mut places = places(&found);
        expected.sort_unstable();
        places.sort_unstable();
        assert_eq!(places, expected, "{found}");
    }
}

#[test]
fn every_error_of_an_upstream_is_reported() {
    let found = invalid(
        "rules: r\ngateway:\n\
        \x20 domain: d\n\
        \x20 upstreams:\n\
        \x20   api: {addresses: ['127.0.0.1:1'], protocol: h2, \
        tls: {ca: /none, cert: /none, server_name: '!'},\n\
        \x20     health_check: {path: a, host: '?', interval: 0s, timeout: 0s, healthy: 0, \
        unhealthy: 0, statuses: [100, 200, 600]},\n\
        \x20     retries: {attempts: 0, percent: 101, per_second: 10001}}\n\
        \x20 upgrades: [h2c, 'a b']\n\
        \x20 in_flight: [{per: [], requests: 0}, {per: [a], requests: 0}]\n",
    );
    let mut places = places(&found);
    places.sort_unstable();
    let in_upstream = [
        "health_check.healthy",
        "health_check.host",
        "health_check.interval",
        "health_check.path",
        "health_check.statuses[0]",
        "health_check.statuses[2]",
        "health_check.timeout",
        "health_check.unhealthy",
        "retries.attempts",
        "retries.per_second",
        "retries.percent",
        "tls.ca",
        "tls.cert",
        "tls.server_name",
    ];
    let of_gateway = [
        "in_flight[0].per",
        "in_flight[0].requests",
        "in_flight[1].requests",
    ];
    let upgrades = ["upgrades[0]", "upgrades[1]"];
    let in_upstream = in_upstream.map(|place| format!("upstreams.api.{place}"));
    let expected = of_gateway.into_iter().chain(upgrades).map(str::to_owned);
    let expected = expected.chain(in_upstream);
    let expected: Vec<String> = expected.map(|place| format!("gateway.{place}")).collect();
    assert_eq!(places, expected, "{found}");
}

#[test]
fn a_key_of_an_upstream_elsewhere_says_where_it_belongs() {
    let upstreams = "upstreams: {u: {addresses: ['h:1']}}";
    for (text, key) in [
        (format!("{upstreams}, retries: {{}}"), "retries"),
        (
            format!("{upstreams}, routes: [{{health_check: a}}]"),
            "health_check",
        ),
        (
            "upstreams: {u: {tls: {addresses: ['h:1']}}}".to_owned(),
            "addresses",
        ),
    ] {
        let found = invalid(&format!("rules: r\ngateway: {{domain: d, {text}}}\n"));
        let help = format!("= help: `{key}` belongs below `upstreams.NAME`\n");
        assert!(found.contains(&help), "{text}: {found}");
    }
}

#[test]
fn a_value_in_place_of_a_map_is_answered_with_its_keys() {
    let upstream = "gateway: {domain: d, upstreams: {u: {addresses: ['h:1'], ";
    for (text, expected) in [
        (
            "memory: 512MiB",
            "write `memory: {max_keys: VALUE}`; its other keys are `max_bytes`",
        ),
        (
            "log: debug",
            "write `log: {level: VALUE}`; its other keys are `format`",
        ),
        (
            &format!("{upstream}health_check: /healthz}}}}}}"),
            "write `health_check: {path: VALUE}`",
        ),
        (&format!("{upstream}retries: 3}}}}}}"), "write `retries: {"),
        (
            &format!("{upstream}}}}}, responses: 503}}"),
            "write `responses: {status: VALUE}`",
        ),
    ] {
        let found = invalid(&format!("rules: r\n{text}\n"));
        assert!(found.contains(expected), "{text}: {found}");
    }
}

mod no_value;
