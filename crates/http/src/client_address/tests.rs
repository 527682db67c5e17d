#![allow(clippy::unwrap_used)]

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};
use tollgate_behaviour::{Random, check};

use super::*;

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn settings(settings: Value) -> Result<ClientAddress, String> {
    let settings: ClientAddressSettings =
        serde_json::from_value(settings).map_err(|error| error.to_string())?;
    ClientAddress::new(&settings).map_err(|error| error.to_string())
}

fn headers(lines: &[(&'static str, &[u8])]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for (name, value) in lines {
        let name = HeaderName::from_static(name);
        headers.append(name, HeaderValue::from_bytes(value).unwrap());
    }
    headers
}

fn resolve(from: &ClientAddress, peer: &str, lines: &[(&'static str, &str)]) -> (String, Origin) {
    let lines: Vec<_> = lines
        .iter()
        .map(|(name, value)| (*name, value.as_bytes()))
        .collect();
    let client = from.resolve(Peer::from(address(peer)), &headers(&lines));
    (client.address.unwrap().to_string(), client.origin)
}

const PROXY: &str = "10.0.0.1";

#[test]
fn networks_skip_our_proxies_from_the_right() {
    let from = settings(json!({
        "source": "x-forwarded-for",
        "trusted_proxies": ["10.0.0.0/8", "::ffff:172.16.0.0/108", "2001:db8::/32", "192.0.2.9"],
    }))
    .unwrap();
    let fallback = |unusable| (PROXY.to_owned(), Origin::Fallback(unusable));
    let proxy = |text: &str| (text.to_owned(), Origin::Proxy);
    let table = [
        ("203.0.113.5", proxy("203.0.113.5")),
        ("6.6.6.6, 203.0.113.5, 10.1.1.1", proxy("203.0.113.5")),
        (
            "203.0.113.5,172.31.0.1,[2001:db8::7]:80, 192.0.2.9",
            proxy("203.0.113.5"),
        ),
        ("10.0.0.3, 10.0.0.2", proxy("10.0.0.3")),
        (
            "203.0.113.5, garbage, 10.0.0.2",
            fallback(Unusable::Unreadable),
        ),
        ("203.0.113.5, , 10.0.0.2", fallback(Unusable::Unreadable)),
        ("203.0.113.5,", fallback(Unusable::Unreadable)),
        ("", fallback(Unusable::Unreadable)),
        // 6to4 and NAT64 forms of a trusted IPv4 address are not that address.
        ("6.6.6.6, 2002:a00:1::1", proxy("2002:a00:1::1")),
        ("6.6.6.6, 192.0.2.8", proxy("192.0.2.8")),
    ];
    for (line, expected) in table {
        assert_eq!(
            resolve(&from, PROXY, &[("x-forwarded-for", line)]),
            expected,
            "{line}"
        );
    }
    assert_eq!(resolve(&from, PROXY, &[]), fallback(Unusable::Absent));
    let untrusted = resolve(
        &from,
        "::ffff:203.0.113.9",
        &[("x-forwarded-for", "6.6.6.6")],
    );
    assert_eq!(
        untrusted,
        (
            "203.0.113.9".to_owned(),
            Origin::Fallback(Unusable::UntrustedPeer)
        )
    );
    let deep = vec!["10.0.0.2"; HOPS_MAX + 1].join(",");
    let deep = resolve(&from, PROXY, &[("x-forwarded-for", &deep)]);
    assert_eq!(deep, fallback(Unusable::ManyHops));
}

#[test]
fn a_single_address_must_be_single() {
    for source in ["x-real-ip", "cf-connecting-ip"] {
        let from = settings(json!({"source": source, "trusted_hops": 1})).unwrap();
        let name = from.source.header().unwrap();
        let name = if name == "x-real-ip" {
            "x-real-ip"
        } else {
            "cf-connecting-ip"
        };
        let one = resolve(&from, PROXY, &[(name, "203.0.113.5")]);
        assert_eq!(one, ("203.0.113.5".to_owned(), Origin::Proxy));
        let two = resolve(&from, PROXY, &[(name, "6.6.6.6"), (name, "203.0.113.5")]);
        assert_eq!(
            two,
            (PROXY.to_owned(), Origin::Fallback(Unusable::Repeated))
        );
        let list = resolve(&from, PROXY, &[(name, "6.6.6.6, 203.0.113.5")]);
        assert_eq!(
            list,
            (PROXY.to_owned(), Origin::Fallback(Unusable::Unreadable))
        );
    }
}

#[test]
fn a_listed_proxy_is_one_whose_address_the_settings_name() {
    let lists = |trust: Value, proxy: &str| {
        let mut all = json!({"source": "x-real-ip"});
        let trust = trust.as_object().unwrap().clone();
        all.as_object_mut().unwrap().extend(trust);
        settings(all).unwrap().lists_proxy(address(proxy))
    };
    let networks = json!({"trusted_proxies": ["10.0.0.0/8", "2001:db8::1", "unix"]});
    for (proxy, is_listed) in [
        ("10.1.2.3", true),
        ("::ffff:10.1.2.3", true),
        ("2001:db8::1", true),
        ("2001:db8::2", false),
        ("11.0.0.1", false),
    ] {
        assert_eq!(lists(networks.clone(), proxy), is_listed, "{proxy}");
    }
    assert!(!lists(json!({"trusted_hops": 1}), "10.1.2.3"));
    let nobody = settings(json!({})).unwrap();
    assert!(!nobody.lists_proxy(address("10.1.2.3")));
}

#[test]
fn the_proxy_protocol_and_unix_sockets() {
    let from = settings(json!({
        "source": "proxy-protocol",
        "trusted_proxies": ["unix", "10.0.0.1"],
    }))
    .unwrap();
    let client = |socket: Option<&str>, proxied: Option<&str>| {
        let peer = Peer {
            socket: socket.map(address),
            proxied: proxied.map(address),
        };
        let forged = headers(&[("x-forwarded-for", b"6.6.6.6")]);
        from.resolve(peer, &forged)
    };
    let named = client(None, Some("::ffff:203.0.113.5"));
    assert_eq!(named.address, Some(address("203.0.113.5")));
    assert_eq!(named.origin, Origin::Proxy);
    let named = client(Some(PROXY), Some("203.0.113.5"));
    assert_eq!(named.address, Some(address("203.0.113.5")));
    let unnamed = client(None, None);
    assert_eq!(unnamed.address, None);
    assert_eq!(unnamed.origin, Origin::Fallback(Unusable::Absent));
    let forged = client(Some("203.0.113.9"), Some("6.6.6.6"));
    assert_eq!(forged.address, Some(address("203.0.113.9")));
}

#[test]
fn settings_say_what_is_wrong_and_what_to_write() {
    let wrong = |value: Value| settings(value).unwrap_err();
    let xff = "x-forwarded-for";
    let table = [
        (
            json!({"source": xff}),
            "trusted_proxies: nothing says whose word is taken",
        ),
        (json!({"trusted_hops": 1}), "source: proxies are trusted"),
        (
            json!({"source": xff, "trusted_hops": 1, "trusted_proxies": ["10.0.0.1"]}),
            "trusted_hops: `trusted_proxies` is set as well",
        ),
        (
            json!({"source": xff, "trusted_hops": 33}),
            "trusted_hops: 33 hops; 32 is the most",
        ),
        (json!({"source": "x-real-ip", "trusted_hops": 2}), "write 1"),
        (
            json!({"source": xff, "trusted_proxies": ["10.1.2.3/8"]}),
            "trusted_proxies[0]: 10.1.2.3/8 has bits behind its prefix; \
             write 10.0.0.0/8, or 10.1.2.3 alone",
        ),
        (
            json!({"source": xff, "trusted_proxies": ["0.0.0.0/0"]}),
            "trusts every client",
        ),
        (
            json!({"source": xff, "trusted_proxies": ["::ffff:0.0.0.0/96"]}),
            "trusts every",
        ),
        (
            json!({"source": xff, "trusted_proxies": ["proxy"]}),
            "\"proxy\" is not a valid network",
        ),
        (
            json!({"source": xff, "trusted_proxies": ["0.0.0.0/1", "128.0.0.0/1"]}),
            "trusted_proxies: together, the networks trust every client",
        ),
        (
            json!({"source": "x-client-ip"}),
            "unknown variant `x-client-ip`",
        ),
        (json!({"trusted_hop": 1}), "unknown field `trusted_hop`"),
        (
            json!({"ipv6_prefix": 0}),
            "ipv6_prefix: a prefix of 0 bits; write 1 to 128",
        ),
    ];
    for (value, expected) in table {
        let error = wrong(value);
        assert!(error.contains(expected), "{error}");
    }
}

/// Bytes that a client may send in a header: any but control characters.
fn forged(random: &mut Random) -> Vec<u8> {
    const PIECES: [&[u8]; 12] = [
        b"6.6.6.6",
        b",",
        b"\"",
        b"\\",
        b";",
        b"for=",
        b" ",
        b"[2001:db8::666]",
        b"\xff",
        b"10.0.0.2",
        b"=",
        b"a",
    ];
    let count = random.between(0, 12);
    let pieces = (0..count).map(|_| {
        let index = usize::try_from(random.between(0, 11)).unwrap();
        PIECES[index]
    });
    pieces.collect::<Vec<_>>().concat()
}

/// What clients write, in any number of lines and in every other header, changes nothing of what
/// our proxies append.
#[test]
fn the_address_never_comes_from_an_untrusted_hop() {
    let from: Vec<ClientAddress> = [
        json!({"source": "x-forwarded-for", "trusted_hops": 2}),
        json!({"source": "x-forwarded-for", "trusted_proxies": ["10.0.0.0/8"]}),
        json!({"source": "forwarded", "trusted_hops": 2}),
        json!({"source": "forwarded", "trusted_proxies": ["10.0.0.0/8"]}),
    ]
    .map(|value| settings(value).unwrap())
    .into();
    check("untrusted_hop", 5_000, |random| {
        let index = usize::try_from(random.between(0, 3)).unwrap();
        let (name, other, ours) = match index {
            0 | 1 => ("x-forwarded-for", "forwarded", "203.0.113.5, 10.0.0.2"),
            _ => (
                "forwarded",
                "x-forwarded-for",
                "for=\"203.0.113.5:1\", for=10.0.0.2;by=a",
            ),
        };
        let (first, second, third) = (forged(random), forged(random), forged(random));
        let appended = [&second, b", ".as_slice(), ours.as_bytes()].concat();
        let lines: [(&'static str, &[u8]); 5] = [
            (other, &third),
            (name, &first),
            (name, &appended),
            ("x-real-ip", b"6.6.6.6"),
            ("cf-connecting-ip", b"6.6.6.6"),
        ];
        let client = from[index].resolve(Peer::from(address(PROXY)), &headers(&lines));
        assert_eq!(client.address, Some(address("203.0.113.5")), "{lines:?}");
    });
}

/// Without our proxies, nothing that a client writes makes a key of its own.
#[test]
fn any_bytes_from_an_untrusted_peer_lead_to_the_peer() {
    let from = settings(json!({
        "source": "forwarded",
        "trusted_proxies": ["10.0.0.0/8"],
    }))
    .unwrap();
    check("untrusted_peer", 5_000, |random| {
        let bytes = forged(random);
        let headers = headers(&[("forwarded", &bytes), ("x-forwarded-for", &bytes)]);
        for from in [&from, &ClientAddress::default()] {
            let client = from.resolve(Peer::from(address("203.0.113.9")), &headers);
            assert_eq!(client.address, Some(address("203.0.113.9")));
        }
    });
}
