use super::*;

fn behind(proxies: &[&str]) -> KeyShape {
    shape(&ClientAddressSettings {
        source: AddressSource::XForwardedFor,
        trusted_proxies: proxies.iter().map(|text| (*text).to_owned()).collect(),
        ..whole()
    })
}

fn whole() -> ClientAddressSettings {
    ClientAddressSettings {
        ipv6_prefix: 128,
        ..ClientAddressSettings::default()
    }
}

fn shape(settings: &ClientAddressSettings) -> KeyShape {
    KeyShape::default().with_clients(settings).unwrap()
}

fn client(shape: &KeyShape, client: &[u8], list: &[u8]) -> Vec<u8> {
    let mut line = Fields::default();
    line.set(Field::Client, client);
    line.set(Field::ForwardedFor, list);
    let mut shaped = ShapedLine::new(shape).unwrap();
    shaped.of(line).get(Field::Client).to_vec()
}

#[test]
fn the_client_is_the_last_address_that_no_trusted_proxy_has() {
    let shape = behind(&["10.0.0.0/8", "unix"]);
    let table: [(&[u8], &[u8], &str); 11] = [
        (b"10.0.0.1", b"6.6.6.6, 192.0.2.1", "192.0.2.1"),
        (b"10.0.0.1", b"192.0.2.1, 10.9.9.9", "192.0.2.1"),
        (b"10.0.0.1", b"10.0.0.2", "10.0.0.2"),
        (b"unix:", b"192.0.2.1:4242", "192.0.2.1"),
        (b"unix", b"192.0.2.1", "192.0.2.1"),
        // What a client writes itself has no effect.
        (b"192.0.2.9", b"192.0.2.1", "192.0.2.9"),
        // What cannot be read leads to the peer.
        (b"10.0.0.1", b"192.0.2.1, unknown", "10.0.0.1"),
        (b"10.0.0.1", b"192.0.2.1\x00", "10.0.0.1"),
        (b"10.0.0.1", b"", "10.0.0.1"),
        // No peer that a gateway could have.
        (b"crawler.example", b"192.0.2.1", "crawler.example"),
        (b"::ffff:10.0.0.1", b"2001:DB8::1", "2001:db8::1"),
    ];
    for (peer, list, expected) in table {
        let found = client(&shape, peer, list);
        assert_eq!(String::from_utf8_lossy(&found), expected, "{list:?}");
    }
    assert_eq!(client(&shape, b"\xff", b"192.0.2.1"), b"\xff");
    let entries = "10.0.0.1,".repeat(100_000);
    assert_eq!(client(&shape, b"10.0.0.7", entries.as_bytes()), b"10.0.0.7");
}

#[test]
fn hops_are_counted_from_the_right() {
    let hops = |count| {
        shape(&ClientAddressSettings {
            source: AddressSource::XForwardedFor,
            trusted_hops: Some(count),
            ..whole()
        })
    };
    let list = b"6.6.6.6, 192.0.2.1, 10.0.0.2";
    assert_eq!(client(&hops(1), b"10.0.0.1", list), b"10.0.0.2");
    assert_eq!(client(&hops(2), b"10.0.0.1", list), b"192.0.2.1");
    assert_eq!(client(&hops(4), b"10.0.0.1", list), b"10.0.0.1");
}

#[test]
fn an_address_is_cut_and_a_name_is_not() {
    let shape = shape(&ClientAddressSettings {
        ipv4_prefix: 24,
        ipv6_prefix: 48,
        ..ClientAddressSettings::default()
    });
    assert_eq!(client(&shape, b"192.0.2.7", b"6.6.6.6"), b"192.0.2.0/24");
    assert_eq!(client(&shape, b"2001:db8:1:2::3", b""), b"2001:db8:1::/48");
    assert_eq!(client(&shape, b"crawler.example", b""), b"crawler.example");
}

#[test]
fn nothing_of_one_line_is_left_for_the_next() {
    let shape = behind(&["10.0.0.0/8"]);
    let shape = shape.with_templates(&["/users/{id}".to_owned()]).unwrap();
    let mut shaped = ShapedLine::new(&shape).unwrap();
    let mut read = |list: &[u8], path: &[u8]| {
        let mut line = Fields::default();
        line.set(Field::Client, b"10.0.0.1");
        line.set(Field::ForwardedFor, list);
        line.set(Field::Path, path);
        let line = shaped.of(line);
        [Field::Client, Field::Path].map(|field| line.get(field).to_vec())
    };
    assert_eq!(
        read(b"192.0.2.1", b"/users/7"),
        [b"192.0.2.1".to_vec(), b"/users/{id}".to_vec()]
    );
    assert_eq!(read(b"", b"/x"), [b"10.0.0.1".to_vec(), b"/x".to_vec()]);
}

#[test]
fn a_path_becomes_its_template_after_it_is_normalised() {
    let templates = ["/users/{id}", "/users/me", "/files/{*rest}"].map(str::to_owned);
    let shape = KeyShape::default().with_templates(&templates).unwrap();
    let table: [(&[u8], &[u8]); 7] = [
        (b"/users/7", b"/users/{id}"),
        (b"/users/me", b"/users/me"),
        (b"//users/./7", b"/users/{id}"),
        (b"/files/a/b", b"/files/{*rest}"),
        (b"/users/7/orders", b"/users/7/orders"),
        (b"/users/\xff", b"/users/{id}"),
        (b"", b""),
    ];
    for (path, expected) in table {
        let mut line = Fields::default();
        line.set(Field::Path, path);
        let mut shaped = ShapedLine::new(&shape).unwrap();
        let found = shaped.of(line).get(Field::Path).to_vec();
        assert_eq!(found, expected, "{}", String::from_utf8_lossy(path));
    }
}

#[test]
fn a_source_that_no_log_has_is_an_error() {
    let settings = ClientAddressSettings {
        source: AddressSource::XRealIp,
        trusted_hops: Some(1),
        ..whole()
    };
    let error = KeyShape::default().with_clients(&settings).unwrap_err();
    assert!(error.to_string().starts_with("source: "), "{error}");
}
