//! No value that a client can choose switches a limit off.

use std::thread;

use crate::configuration::{WIDE, large_headers};
use crate::mesh::Mesh;

/// The statuses of five requests under a limit of 3.
const THREE: [u16; 5] = [200, 200, 200, 429, 429];
/// Nearly the largest headers that Envoy accepts.
const WIDE_BYTES: usize = 60_000;
/// Twenty of these are nearly as large in total.
const LARGE_BYTES: usize = 2_900;

#[test]
fn bytes_that_are_not_utf8_are_limited_like_any_others() {
    let mesh = Mesh::start();
    for value in [
        &b"a\xff"[..],
        b"\x80",
        b"\xed\xa0\x80",
        b"a",
        "\u{e4}".as_bytes(),
    ] {
        assert_eq!(mesh.statuses("any", value, 5), THREE, "{value:?}");
    }
}

#[test]
fn many_large_headers_are_limited_like_any_others() {
    let mesh = Mesh::start();
    let names: Vec<String> = large_headers().collect();
    let values = names
        .iter()
        .map(|name| name.repeat(LARGE_BYTES / name.len()));
    let headers: Vec<(&str, String)> = names.iter().map(String::as_str).zip(values).collect();
    assert_eq!([(); 5].map(|()| mesh.ask(&headers).unwrap().status), THREE);
}

#[test]
fn a_large_header_in_many_descriptors_is_limited_like_any_other() {
    let mesh = Mesh::start();
    for (header, copies) in WIDE {
        // Each descriptor has a key of its own, of the value and the number of its copy.
        let value = header.repeat(WIDE_BYTES / header.len());
        assert_eq!(mesh.statuses(header, &value, 5), THREE, "{copies} copies");
    }
}

/// Together they are several times as large as what Tollgate buffers for Envoy's one connection.
#[test]
fn large_headers_of_many_requests_at_once_are_limited_like_any_others() {
    let mesh = Mesh::start();
    for (header, requests) in [("wide", 60), ("widest", 40)] {
        let value = header.repeat(WIDE_BYTES / header.len());
        let mut statuses = thread::scope(|scope| {
            let ask = |_| scope.spawn(|| mesh.ask(&[(header, &value)]).unwrap().status);
            let asking: Vec<_> = (0..requests).map(ask).collect();
            let answered = asking.into_iter().map(|one| one.join().unwrap());
            answered.collect::<Vec<u16>>()
        });
        statuses.sort_unstable();
        let expected = [vec![200; 3], vec![429; requests - 3]].concat();
        assert_eq!(statuses, expected, "{header}");
    }
}
