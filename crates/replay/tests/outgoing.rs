//! The requests of a log as a service takes them.
#![allow(clippy::unwrap_used, missing_docs)]

use serde_json::{Value, json};
use tollgate_replay::{Format, LogKind, Traffic};

fn traffic(format: Format, input: &[u8]) -> Traffic {
    let mut traffic = Traffic::new(format);
    traffic.read("input", input).unwrap();
    traffic
}

fn log(input: &[u8]) -> Traffic {
    let descriptors = ["client={client}", "path={path},agent={user_agent}"];
    let descriptors = descriptors.map(|text| text.parse().unwrap()).to_vec();
    let format = Format::AccessLog {
        kind: LogKind::Combined,
        domain: "web".to_owned(),
        descriptors,
    };
    traffic(format, input)
}

/// The milliseconds after the first second, and the bodies.
fn sent(traffic: &mut Traffic) -> (Vec<u64>, Vec<Value>) {
    let outgoing = traffic.outgoing_requests();
    let first = outgoing.bounds().unwrap().0.as_nanos();
    let requests: Vec<_> = outgoing.iter().collect();
    assert_eq!(outgoing.count(), requests.len());
    let last = requests.last().unwrap().at;
    assert_eq!(outgoing.bounds().unwrap().1, last);
    let times = requests.iter().map(|request| request.at.as_nanos());
    let bodies = requests.iter().map(|request| outgoing.body(*request));
    (
        times.map(|at| (at - first) / 1_000_000).collect(),
        bodies
            .map(|body| serde_json::from_slice(&body).unwrap())
            .collect(),
    )
}

#[test]
fn requests_of_a_second_are_spread_over_it_and_keep_their_order() {
    let line = |second: u32, path: &str| {
        format!("192.0.2.1 - - [17/May/2015:10:05:0{second} +0000] \"GET {path} HTTP/1.1\" 200 1\n")
    };
    let input = [line(2, "/c"), line(1, "/a"), line(1, "/b"), line(2, "/d")];
    let more = [line(2, "/e"), line(2, "/f")];
    let mut traffic = log((input.concat() + &more.concat()).as_bytes());
    let (times, bodies) = sent(&mut traffic);
    assert_eq!(times, [0, 500, 1000, 1250, 1500, 1750]);
    let paths = bodies.iter().map(|body| {
        body["descriptors"][1]["entries"][0]["value"]
            .as_str()
            .unwrap()
    });
    let paths: String = paths.collect();
    assert_eq!(paths, "/a/b/c/d/e/f");
    assert_eq!(traffic.outgoing_requests().path(), "/v1/check");
}

#[test]
fn what_has_fractions_of_a_second_is_not_spread() {
    let trace = br#"{"at": 1, "domain": "d", "descriptors": [{"entries": [{"key": "k"}]}]}
{"at": 1, "domain": "d", "descriptors": [{"entries": [{"key": "k"}]}], "hitsAddend": 3}"#;
    let mut traffic = traffic(Format::Trace, trace);
    let (times, bodies) = sent(&mut traffic);
    assert_eq!(times, [0, 0]);
    let entries = json!([{"entries": [{"key": "k"}]}]);
    assert_eq!(bodies[0], json!({"domain": "d", "descriptors": entries}));
    assert_eq!(
        bodies[1],
        json!({"domain": "d", "descriptors": entries, "hitsAddend": 3})
    );
    assert_eq!(traffic.outgoing_requests().path(), "/json");
}

#[test]
fn bytes_that_are_no_text_and_quotes_are_escaped() {
    let input =
        b"a\xff - - [17/May/2015:10:05:03 +0000] \"GET /\x01 HTTP/1.1\" 200 1 \"-\" \"}<\\\\\"\n";
    let (_, bodies) = sent(&mut log(input));
    assert_eq!(
        bodies[0]["descriptors"][0],
        json!({"entries": [{"key": "client", "value": "a\\xff"}]})
    );
    assert_eq!(bodies[0]["descriptors"][1]["entries"][0]["value"], "/\u{1}");
    assert_eq!(bodies[0]["domain"], "web");
}
