use super::*;
use crate::format::LogKind;
use crate::input::LINE_BYTES_MAX;
use crate::layout::{FieldNames, Layout};
use crate::skipped::{EXCERPT_BYTES_MAX, SKIPPED_SHOWN_MAX};

const EXPECTED: &str = "not in common or combined format: expected `HOST IDENT USER [TIME]`";

fn log(descriptor: &str) -> Traffic {
    log_in(LogKind::Combined, descriptor)
}

fn log_in(kind: LogKind, descriptor: &str) -> Traffic {
    Traffic::new(Format::AccessLog {
        kind,
        domain: "d".to_owned(),
        descriptors: vec![descriptor.parse().unwrap()],
    })
}

fn line(client: &str, second: u32) -> String {
    format!("{client} - - [17/May/2015:10:05:{second:02} +0000] \"GET / HTTP/1.1\" 200 1\n")
}

#[test]
fn events_come_in_order_of_time_and_equal_times_in_order_of_input() {
    let mut traffic = log("c={client}");
    let first = [line("a", 2), line("b", 1)].concat();
    let second = [line("c", 1), line("a", 0)].concat();
    traffic.read("one", first.as_bytes()).unwrap();
    traffic.read("two", second.as_bytes()).unwrap();
    traffic.put_in_order();
    let events = traffic.kept_events();
    let client = |event: &Event| {
        traffic.request(event.request, |request| {
            request.descriptors[0].entries[0].value.to_vec()
        })
    };
    let order: Vec<_> = events
        .iter()
        .map(|event| (event.line, client(event)))
        .collect();
    let expected = [(3, b"a"), (1, b"b"), (2, b"c"), (0, b"a")];
    assert_eq!(
        order,
        expected.map(|(line, client)| (line, client.to_vec()))
    );
    assert_eq!(traffic.requests(), 3);
}

#[test]
fn a_line_is_found_in_its_own_input() {
    let mut traffic = log("c={client}");
    traffic.read("one", &b"x\ny\n"[..]).unwrap();
    assert_eq!(
        traffic.place(1),
        Place {
            input: None,
            line: 2
        }
    );
    traffic.read("empty", &b""[..]).unwrap();
    traffic.read("two", &b"z"[..]).unwrap();
    let place = |input, line| Place {
        input: Some(input),
        line,
    };
    assert_eq!(
        [0, 1, 2].map(|line| traffic.place(line)),
        [place("one", 1), place("one", 2), place("two", 1),]
    );
}

#[test]
fn lines_that_are_no_events_are_counted_and_the_first_are_shown() {
    let mut traffic = log("c={client}");
    let long = "y".repeat(EXCERPT_BYTES_MAX + 1);
    let input = [
        "\x1b[1m\tx\n",
        &line("a", 1),
        "\n",
        &long,
        &"\nz".repeat(20),
    ]
    .concat();
    traffic.read("log", input.as_bytes()).unwrap();
    assert_eq!(traffic.events(), 1);
    let skipped = traffic.skipped_lines();
    assert_eq!(
        (skipped.count, skipped.first.len()),
        (23, SKIPPED_SHOWN_MAX)
    );
    let shown: Vec<_> = skipped.first[..3]
        .iter()
        .map(|skipped| {
            (
                skipped.line,
                skipped.reason.as_str(),
                skipped.excerpt.clone(),
            )
        })
        .collect();
    assert_eq!(shown[0], (0, EXPECTED, r"\u{1b}[1m\tx".to_owned()));
    assert_eq!(shown[1], (2, "the line is blank", String::new()));
    assert_eq!(
        shown[2],
        (
            3,
            EXPECTED,
            ["y".repeat(EXCERPT_BYTES_MAX), "…".into()].concat()
        )
    );
}

#[test]
fn clients_are_kept_where_that_is_asked_for() {
    let input = [
        line("a", 2),
        "junk\n".to_owned(),
        line("b", 1),
        line("a", 0),
    ]
    .concat();
    let mut traffic = log("c=x").with_clients();
    traffic.read("one", input.as_bytes()).unwrap();
    traffic.read("two", line("c", 1).as_bytes()).unwrap();
    let clients = [0, 2, 3, 4].map(|line| traffic.client(line).unwrap().to_vec());
    assert_eq!(clients, [b"a", b"b", b"a", b"c"]);
    assert_eq!(traffic.requests(), 1);
    let mut without = log("c=x");
    without.read("one", input.as_bytes()).unwrap();
    assert_eq!(without.client(0), None);
}

#[test]
fn inputs_without_an_event_say_what_they_seem_to_be() {
    let mut traffic = log("c={client}");
    let long = "x".repeat(LINE_BYTES_MAX + 1);
    let long_then_csv = format!("{long}\nIP,Time,URL,Status\n");
    for (name, input) in [
        ("long", &*long),
        ("long-then-csv", &*long_then_csv),
        (
            "csv",
            "IP,Time,URL,Status\n10.0.0.1,[29/Nov/2017:06:58:55,GET / HTTP/1.1,200\n",
        ),
        ("json", "\n{\"remote_addr\": \"1.2.3.4\"}\n"),
        ("empty", ""),
        ("blank", "\n\n"),
        (
            "early",
            "a - - [17/May/1969:10:05:03 +0000] \"GET /\" 200 1\n",
        ),
    ] {
        traffic.read(name, input.as_bytes()).unwrap();
    }
    let message = traffic.check().unwrap_err().to_string();
    for expected in [
        "csv: it looks like CSV",
        "json: it looks like lines of JSON; add --format json",
        "empty: it is empty",
        "blank: its lines are blank or headings",
        "early: its lines are in the common or combined format, with times that cannot be read",
        "1 line: the time is before 1970",
        "long: its lines are too long; if it is one JSON document",
        "long-then-csv: it looks like CSV",
        "3 lines: the line is blank",
        "4 lines: not in common or combined format",
        "such as: IP,Time,URL,Status",
    ] {
        assert!(message.contains(expected), "{expected}: {message}");
    }
    traffic.read("log", line("a", 1).as_bytes()).unwrap();
    traffic.check().unwrap();
    assert_eq!(traffic.without_events().count(), 7);
    let mut trace = Traffic::new(Format::Trace);
    trace.read("log", line("a", 1).as_bytes()).unwrap();
    let message = trace.check().unwrap_err().to_string();
    assert!(
        message.contains("log: it looks like an access log"),
        "{message}"
    );
}

#[test]
fn inputs_in_the_format_that_is_named_are_not_advised_to_name_it() {
    let csv = Layout::csv(FieldNames::common(), None);
    let json = Layout::json(FieldNames::common());
    let template = Layout::log_format("%h %t").unwrap();
    for (layout, input) in [
        (csv, "client,time,path\n1.2.3.4,yesterday,/a\n"),
        (json, "{\"client\": \"1.2.3.4\"}\n"),
        (template, "1.2.3.4 yesterday\n"),
    ] {
        let mut traffic = log_in(LogKind::Layout(layout), "c={client}");
        traffic.read("log", input.as_bytes()).unwrap();
        let message = traffic.check().unwrap_err().to_string();
        let expected = "log: no line of it can be read in the format that is named";
        assert!(message.contains(expected), "{message}");
        assert!(!message.contains("--format"), "{message}");
    }
}

#[test]
fn archives_and_other_encodings_are_rejected_at_once() {
    let mut traffic = log("c={client}");
    for (head, expected) in [
        (&b"PK\x03\x04\x14\0\0\0"[..], "access.log is a zip archive"),
        (b"\xff\xfe1\x00.\x002\x00", "UTF-16"),
        (b"1\x00.\x002\x00.\x00", "UTF-16"),
        (b"\x001\x00.\x002\x00.", "UTF-16"),
        (b"\xff\xfe\x00\x001\x00\x00\x00", "UTF-32"),
        (b"\x00\x00\xfe\xff\x00\x00\x001", "UTF-32"),
        (b"1\x00\x00\x00.\x00\x00\x00", "UTF-32"),
        (b"\x00\x00\x001\x00\x00\x00.", "UTF-32"),
    ] {
        let error = traffic.read("access.log", head).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn a_compressed_input_that_is_cut_keeps_the_lines_before() {
    let mut log = log("c={client}");
    let line = b"1.2.3.4 - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 1\n";
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::none());
    std::io::Write::write_all(&mut encoder, &line.repeat(1000)).unwrap();
    let packed = encoder.finish().unwrap();
    let half = packed.len() / 2;
    log.read("access.log.gz", &packed[..half]).unwrap();
    // Not compressed at all, so that every byte before the cut is there.
    let lines = (half - packed.len() % line.len()) / line.len();
    assert_eq!(log.events(), lines);
    assert_eq!(
        log.skipped_lines().reasons,
        [("the compressed data end within the line".to_owned(), 1)]
    );
    let cuts: Vec<_> = log.cuts().collect();
    let [("access.log.gz", cut_in, cut)] = cuts[..] else {
        panic!("{cuts:?}");
    };
    assert_eq!(usize::try_from(cut_in).unwrap(), lines + 1);
    assert!(cut.is_short);

    // No line at all is an error, which says so.
    log = self::log("c={client}");
    log.read("access.log.gz", &packed[..20]).unwrap();
    let why = log.check().unwrap_err().to_string();
    assert!(
        why.contains("cut or damaged before the first line ends"),
        "{why}"
    );
}

#[test]
fn what_follows_compressed_data_is_ignored_with_a_warning_unless_it_is_zeros() {
    let line = b"1.2.3.4 - - [17/May/2015:10:05:03 +0000] \"GET / HTTP/1.1\" 200 1\n";
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut encoder, &line.repeat(3)).unwrap();
    let packed = encoder.finish().unwrap();
    for (trailing, warns) in [(&[0; 1000][..], false), (b"garbage", true)] {
        let mut log = log("c={client}");
        log.read("a.gz", &*[&packed, trailing].concat()).unwrap();
        assert_eq!((log.events(), log.skipped_lines().count), (3, 0));
        assert_eq!(log.cuts().count(), 0);
        let rules = tollgate_rules::RuleSet::default();
        let go_on = &mut |_| std::ops::ControlFlow::Continue(());
        let report = crate::replay(&mut log, &rules, Default::default(), None, go_on).unwrap();
        let studied = crate::Study::of(&mut log).to_json()["warnings"][0].clone();
        let warning = report.warnings[0].to_json();
        assert_eq!(
            (warning["code"] == "trailing", studied == warning),
            (warns, warns)
        );
        let said = "a.gz is read to the end of its gzip data; what follows it is not gzip data";
        let message = warning["message"].as_str().unwrap();
        assert_eq!(message.starts_with(said), warns, "{message}");
    }
}

#[test]
fn numbers_of_requests_that_are_no_event_are_no_reason_to_describe_another_format() {
    let bound = format!("larger than {}, the most", crate::EVENTS_PER_SECOND_MAX);
    let unreadable = "no line of it can be read in the format that is named";
    for (input, expected) in [
        ("1000000001\n", &*bound),
        ("0\n0\n", "no second of it has a request"),
        ("3.0\n", unreadable),
        ("1e3\n", unreadable),
        ("time,count\n", unreadable),
    ] {
        let mut counts = Traffic::new(Format::Counts {
            domain: "d".to_owned(),
            descriptors: vec!["k={client}".parse().unwrap()],
            keys: std::num::NonZeroU32::MIN,
            start: Moment::ZERO,
        });
        counts.read("counts", input.as_bytes()).unwrap();
        let why = counts.check().unwrap_err().to_string();
        assert!(why.contains(expected), "{input}: {why}");
        assert!(!why.contains("--"), "{why}");
    }
}

#[test]
fn requests_that_the_service_would_reject_are_skipped_with_its_reason() {
    let mut traffic = Traffic::new(Format::Trace);
    let input = r#"{"at":1,"domain":"","descriptors":[{"entries":[{"key":"k"}]}]}
{"at":1,"domain":"d"}
{"at":1,"domain":"d","descriptors":[{"entries":[{"key":"k","value":"v"}],"hitsAddend":"0"}]}
{"at":1,"domain":"d","descriptors":[{"entries":[{"key":"k","value":"v"}],"hits_addend":0}]}
{"at":1,"domain":"d","descriptors":[{"entries":[{"key":"k"}],"limit":{"unit":"SOON"}}]}
{"at":1,"domain":"d","nonsense":1}
{"at":1,"domain":"d","hitsAddend":"many"}"#;
    traffic.read("trace", input.as_bytes()).unwrap();
    assert_eq!(traffic.events(), 2);
    let reasons: Vec<_> = traffic
        .skipped_lines()
        .first
        .iter()
        .map(|line| (line.line, &line.reason))
        .collect();
    assert_eq!(
        reasons[0],
        (0, &"rate limit domain must not be empty".to_owned())
    );
    assert_eq!(
        reasons[1],
        (
            1,
            &"rate limit descriptor list must not be empty".to_owned()
        )
    );
    assert_eq!(
        reasons.iter().map(|(line, _)| *line).collect::<Vec<_>>(),
        [0, 1, 4, 5, 6]
    );
    assert!(reasons[2].1.contains("SOON"), "{}", reasons[2].1);
    assert!(reasons[3].1.contains("nonsense"), "{}", reasons[3].1);
    let numbers = "hitsAddend and requestsPerUnit are whole numbers from 0 to 4294967295";
    assert_eq!(reasons[4].1, numbers);
}
