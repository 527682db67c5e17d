use super::*;

fn log(descriptor: &str) -> Traffic {
    Traffic::new(Format::AccessLog {
        kind: LogKind::Combined,
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
    let (events, requests) = (traffic.in_order(), traffic.requests());
    let client = |event: &Event| {
        let request = &requests[usize::try_from(event.request).unwrap()];
        request.descriptors[0].entries[0].value.clone()
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
    assert_eq!(requests.len(), 3);
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
    let skipped = traffic.skipped();
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
    assert_eq!(
        shown[0],
        (0, "there is no host", r"\u{1b}[1m\tx".to_owned())
    );
    assert_eq!(shown[1], (2, "the line is blank", String::new()));
    assert_eq!(
        shown[2],
        (
            3,
            "there is no host",
            ["y".repeat(EXCERPT_BYTES_MAX), "…".into()].concat()
        )
    );
}

#[test]
fn requests_that_the_service_would_refuse_are_skipped_with_its_reason() {
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
        .skipped()
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
