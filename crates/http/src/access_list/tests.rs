#![allow(clippy::unwrap_used)]

use std::net::{Ipv4Addr, Ipv6Addr};

use tollgate_behaviour::{Random, check};

use super::*;

fn list(allow: &str, deny: &str) -> AccessList {
    let mut list = AccessList::default();
    list.add(Listing::Allow, allow.as_bytes()).unwrap();
    list.add(Listing::Deny, deny.as_bytes()).unwrap();
    list
}

fn find(list: &AccessList, address: &str) -> Option<Listing> {
    list.find_address(address.parse().unwrap())
}

#[test]
fn the_longest_prefix_counts_and_for_equal_ones_the_denial() {
    let allow = "10.1.0.0/16\n10.2.0.9\n2001:db8:1::/48\n192.0.2.7 # ours\n; nothing\n\n";
    let deny = "10.0.0.0/8\r\n10.1.2.3\n2001:db8::/32 ; a feed\n192.0.2.7\n";
    for list in [list(allow, deny), {
        let mut other = AccessList::default();
        other.add(Listing::Deny, deny.as_bytes()).unwrap();
        other.add(Listing::Allow, allow.as_bytes()).unwrap();
        other
    }] {
        for (address, expected) in [
            ("10.9.9.9", Some(Listing::Deny)),
            ("10.1.9.9", Some(Listing::Allow)),
            ("10.1.2.3", Some(Listing::Deny)),
            ("10.2.0.9", Some(Listing::Allow)),
            ("::ffff:10.1.9.9", Some(Listing::Allow)),
            ("11.0.0.1", None),
            ("2001:db8:2::1", Some(Listing::Deny)),
            ("2001:db8:1::1", Some(Listing::Allow)),
            ("2001:db9::1", None),
            ("192.0.2.7", Some(Listing::Deny)),
        ] {
            assert_eq!(find(&list, address), expected, "{address}");
        }
        let counts = [Listing::Allow, Listing::Deny].map(|listing| list.count(listing));
        assert_eq!(counts, [3, 4]);
    }
}

#[test]
fn networks_of_mapped_addresses_are_networks_of_ipv4() {
    let list = list("::ffff:192.0.2.0/120", "::ffff:198.51.100.7\n::/0");
    assert_eq!(find(&list, "192.0.2.9"), Some(Listing::Allow));
    assert_eq!(find(&list, "198.51.100.7"), Some(Listing::Deny));
    // All of IPv6 is none of IPv4, mapped or not.
    assert_eq!(find(&list, "::ffff:203.0.113.1"), None);
    assert_eq!(find(&list, "::1"), Some(Listing::Deny));
}

#[test]
fn entries_of_descriptors_are_bytes() {
    let mut list = list("user = alice\nkey=a=b\n", "");
    list.add(Listing::Deny, b"user=\xffx\nuser=mal # why\n")
        .unwrap();
    for (key, value, expected) in [
        ("user", &b"alice"[..], Some(Listing::Allow)),
        ("key", b"a=b", Some(Listing::Allow)),
        ("user", b"\xffx", Some(Listing::Deny)),
        ("user", b"mal", Some(Listing::Deny)),
        ("user", b"Alice", None),
        ("other", b"alice", None),
    ] {
        assert_eq!(
            list.find_entry(key.as_bytes(), value),
            expected,
            "{value:?}"
        );
    }
}

#[test]
fn errors_say_which_line_and_what_instead() {
    let long = format!("user={}", "x".repeat(LIST_LINE_BYTES_MAX));
    for (text, expected) in [
        (
            "10.0.0.0/8\nexample.com",
            "line 2: \"example.com\" is not an address, a network or KEY=VALUE; write an \
             address, a network such as 192.0.2.0/24, or KEY=VALUE",
        ),
        (
            "192.0.2.7/24",
            "line 1: 192.0.2.7/24 has bits beyond its prefix; write 192.0.2.0/24, or 192.0.2.7 \
             alone",
        ),
        ("10.0.0.0/33", "line 1: \"10.0.0.0/33\" is not an address"),
        ("010.0.0.1", "line 1: \"010.0.0.1\" is not an address"),
        ("10.0.0.1 10.0.0.2", "line 1: \"10.0.0.1 10.0.0.2\" is no"),
        ("=x", "line 1: a key or a value is missing"),
        ("user=", "write KEY=VALUE, as in user=alice"),
        (&long, "line 1: the line has more than 8192 bytes"),
    ] {
        let mut list = AccessList::default();
        let errors = list.add(Listing::Deny, text.as_bytes()).unwrap_err();
        let shown = errors[0].to_string();
        assert!(shown.contains(expected), "{shown}");
    }
    let mut list = AccessList::default();
    let many = list.add(Listing::Deny, "?\n".repeat(100).as_bytes());
    assert_eq!(many.unwrap_err().len(), LIST_ERRORS_MAX);
}

#[test]
fn the_number_of_entries_is_bounded() {
    let mut text = String::new();
    for number in 0..=LIST_ENTRIES_MAX {
        let address = Ipv4Addr::from_bits(u32::try_from(number).unwrap());
        text.push_str(&format!("{address}\n"));
    }
    let mut list = AccessList::default();
    let errors = list.add(Listing::Deny, text.as_bytes()).unwrap_err();
    let expected = format!("line {}: the lists have more than", LIST_ENTRIES_MAX + 1);
    assert!(errors[0].to_string().starts_with(&expected), "{errors:?}");
    assert_eq!(list.count(Listing::Deny), LIST_ENTRIES_MAX);
}

/// Networks of a few addresses, so that many contain each other.
fn networks(random: &mut Random) -> Vec<(IpNet, Listing)> {
    let count = random.between(0, 40);
    let network = |random: &mut Random| {
        let low = random.between(0, 63);
        let bits = random.small(0, 8);
        let length = |most: u32| u8::try_from(most - bits).unwrap();
        let address = match random.chance(50) {
            true => {
                let address = Ipv4Addr::from_bits(0x0a00_0000 + u32::try_from(low).unwrap());
                IpNet::new_assert(address.into(), length(32))
            }
            false => {
                let address = Ipv6Addr::from_bits((0x2001_0db8 << 96) + u128::from(low));
                IpNet::new_assert(address.into(), length(128))
            }
        };
        let listing = match random.chance(50) {
            true => Listing::Allow,
            false => Listing::Deny,
        };
        (address.trunc(), listing)
    };
    (0..count).map(|_| network(random)).collect()
}

#[test]
fn lists_agree_with_a_search_of_all_entries() {
    check("access list", 1000, |random| {
        let networks = networks(random);
        let mut list = AccessList::default();
        for (network, listing) in &networks {
            list.add(*listing, network.to_string().as_bytes()).unwrap();
        }
        for low in 0..70 {
            for address in [
                IpAddr::from(Ipv4Addr::from_bits(0x0a00_0000 + low)),
                IpAddr::from(Ipv6Addr::from_bits((0x2001_0db8 << 96) + u128::from(low))),
            ] {
                let all = networks
                    .iter()
                    .filter(|(network, _)| network.contains(&address));
                let longest = all.clone().map(|(network, _)| network.prefix_len()).max();
                let mut best = all.filter(|(network, _)| Some(network.prefix_len()) == longest);
                let denied = best.clone().any(|(_, listing)| *listing == Listing::Deny);
                let expected = match denied {
                    true => Some(Listing::Deny),
                    false => best.next().map(|(_, listing)| *listing),
                };
                assert_eq!(list.find_address(address), expected, "{address}");
            }
        }
    });
}

#[test]
fn entries_and_errors_have_their_places() {
    let text = b"10.0.0.1\n\tuser=ann # why\n  =x\n#a=b\nkey = v=w";
    let found: Vec<_> = listed_descriptors(text)
        .map(|one| (one.line, one.column, one.key, one.value))
        .collect();
    let expected: [(_, _, &[u8], &[u8]); 2] = [(2, 2, b"user", b"ann"), (5, 1, b"key", b"v=w")];
    assert_eq!(found, expected);
    let errors = AccessList::default().add(Listing::Deny, text).unwrap_err();
    let places: Vec<_> = errors.iter().map(|one| (one.line, one.column)).collect();
    assert_eq!(places, [(3, 3)]);
}
