#![allow(clippy::unwrap_used)]

use tollgate_http::{IdentityDescriptor, IdentitySettings};

use super::*;
use crate::permit_table::KEYS_MAX;

fn limit(per: &[&str], requests: u32) -> InFlightSettings {
    InFlightSettings {
        name: None,
        per: per.iter().map(|key| (*key).to_owned()).collect(),
        requests,
    }
}

fn table() -> Arc<PermitTable> {
    PermitTable::new(KEYS_MAX)
}

/// Limits that are not compared with descriptors.
fn limits(settings: &[InFlightSettings]) -> ConcurrencyLimits {
    let metrics = Metrics::new();
    let mut reader = ConcurrencyLimitReader::new(&table(), &metrics);
    reader.read(None, settings).unwrap()
}

fn identity(descriptors: &[&[(&'static str, &'static str)]]) -> Identity<'static> {
    let descriptors = descriptors.iter().enumerate().map(|(index, entries)| {
        let entries = entries.iter().map(|(key, value)| IdentityEntry {
            key,
            value: value.as_bytes().into(),
        });
        IdentityDescriptor {
            index,
            entries: entries.collect(),
            units: 1,
        }
    });
    Identity {
        client: None,
        descriptors: descriptors.collect(),
    }
}

fn reached(name: &str, most: u32) -> Exceeded {
    let name = name.to_owned();
    Exceeded::Limit { name, most }
}

#[test]
fn values_of_a_descriptor_have_a_count_of_their_own() {
    let limits = limits(&[limit(&["user", "route"], 1)]);
    let of = |user, route| identity(&[&[("user", user), ("route", route)]]);
    let _first = limits.acquire(&of("ab", "c")).unwrap();
    assert_eq!(
        limits.acquire(&of("ab", "c")).unwrap_err(),
        reached("user.route", 1)
    );
    // Their concatenation is the same.
    let _second = limits.acquire(&of("a", "bc")).unwrap();
    // Descriptors with other keys, or with more or fewer, are not counted.
    let other = identity(&[&[("user", "ab")], &[("route", "c"), ("user", "ab")]]);
    let _none = limits.acquire(&other).unwrap();
    assert_eq!(limits.table.keys(), 2);
}

#[test]
fn several_limits_are_all_or_nothing_and_equal_descriptors_count_once() {
    let limits = limits(&[limit(&["user"], 2), limit(&["all"], 1)]);
    let request = identity(&[&[("user", "a")], &[("all", "x")], &[("user", "a")]]);
    let first = limits.acquire(&request).unwrap();
    assert_eq!(first.0.len(), 2);
    assert_eq!(limits.acquire(&request).unwrap_err(), reached("all", 1));
    // The denied one holds nothing of `user`.
    let _second = limits.acquire(&identity(&[&[("user", "a")]])).unwrap();
    drop(first);
    let _third = limits.acquire(&request).unwrap();
    let metrics = (limits.limits[0].gauge.get(), limits.limits[1].denied.get());
    assert_eq!(metrics, (2, 1));
}

#[test]
fn released_permits_are_free_before_their_owner_is_dropped() {
    let limits = limits(&[limit(&["user"], 1)]);
    let request = identity(&[&[("user", "a")]]);
    let mut first = limits.acquire(&request).unwrap();
    first.release();
    let _second = limits.acquire(&request).unwrap();
    drop(first);
    assert_eq!(limits.acquire(&request).unwrap_err(), reached("user", 1));
}

#[test]
fn limits_of_the_gateway_are_shared_by_routes_and_those_of_a_route_are_not() {
    let metrics = Metrics::new();
    let shared = [limit(&["remote_address"], 1)];
    let settings_of_route = IdentitySettings::default();
    let mut reader = ConcurrencyLimitReader::new(&table(), &metrics);
    reader.read_gateway(&shared).unwrap();
    let mut of_route =
        |own: Option<&[InFlightSettings]>| reader.of_route("route", own, &settings_of_route);
    let (a, b) = (of_route(None).unwrap(), of_route(None).unwrap());
    let own = of_route(Some(&shared)).unwrap();
    let none = of_route(Some(&[])).unwrap();
    let request = identity(&[&[("remote_address", "192.0.2.1")]]);
    let _held = a.acquire(&request).unwrap();
    assert_eq!(
        b.acquire(&request).unwrap_err(),
        reached("remote_address", 1)
    );
    let _other = own.acquire(&request).unwrap();
    let _free = none.acquire(&request).unwrap();
}

#[test]
fn errors_say_where_and_what_instead() {
    let metrics = Metrics::new();
    let settings_of_route = IdentitySettings::default();
    let wrong = |settings: &[InFlightSettings]| {
        let mut reader = ConcurrencyLimitReader::new(&table(), &metrics);
        let read = reader.read_gateway(settings);
        let made = read.and_then(|()| reader.of_route("route", None, &settings_of_route));
        made.map(drop).unwrap_err().to_string()
    };
    let ok = limit(&["remote_address"], 1);
    assert_eq!(
        wrong(&[ok.clone(), limit(&["remote_address"], 0)]),
        "in_flight[1].requests: 0 requests in flight; write 1 to 65536"
    );
    assert_eq!(
        wrong(&[limit(&[], 1)]),
        "in_flight[0].per: it has no keys; write the keys of a descriptor, such as \
         `[remote_address]`"
    );
    let unused = wrong(&[ok.clone(), limit(&["remote_addres"], 1)]);
    let expected = "in_flight[1].per: no descriptor of `identity` has the keys [remote_addres]";
    assert!(unused.starts_with(expected), "{unused}");
    let many = wrong(&vec![ok; IN_FLIGHT_LIMITS_MAX + 1]);
    assert!(many.contains("16 is the most"), "{many}");
}
