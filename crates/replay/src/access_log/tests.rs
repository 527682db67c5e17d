use super::*;

const COMMON: &str = r#"1.2.3.4 - ann [17/May/2015:10:05:03 +0000] "GET /a/b?c=d HTTP/1.1" 200 42"#;

fn request(request: &str) -> RequestLine<'_> {
    let line = LogLine {
        at: Moment::ZERO,
        client: b"",
        user: b"",
        request: request.as_bytes(),
        status: b"",
        bytes: b"",
        rest: b"",
    };
    RequestLine::parse(line.request)
}

fn parts<'a>(of: &RequestLine<'a>) -> [&'a str; 4] {
    [of.method, of.path, of.query, of.protocol].map(|part| std::str::from_utf8(part).unwrap())
}

#[test]
fn a_common_line_is_read_field_by_field() {
    let line = LogLine::parse(COMMON.as_bytes()).unwrap();
    assert_eq!(line.at, Moment::from_nanos(1_431_857_103_000_000_000));
    assert_eq!(line.client, b"1.2.3.4");
    assert_eq!(line.user, b"ann");
    assert_eq!(line.status, b"200");
    assert_eq!(line.bytes, b"42");
    assert_eq!(
        parts(&RequestLine::parse(line.request)),
        ["GET", "/a/b", "c=d", "HTTP/1.1"]
    );
    assert_eq!(line.referer_and_user_agent(), (&b""[..], &b""[..]));
}

#[test]
fn referer_and_user_agent_are_read_where_they_are_whole() {
    let cases: [(&str, &str, &str); 9] = [
        (r#" "http://r/" "agent 1.0""#, "http://r/", "agent 1.0"),
        (r#" "-" "-""#, "-", "-"),
        (r#" "" "a\"b\\" 0.001"#, "", r#"a\"b\\"#),
        (r#" "r" "cut"#, "r", ""),
        (r#" "r" "broken"inside""#, "r", ""),
        (r#" "r"#, "", ""),
        (r#" "r""#, "r", ""),
        (" extra", "", ""),
        (" ", "", ""),
    ];
    for (rest, referer, user_agent) in cases {
        let line = [COMMON, rest].concat();
        let line = LogLine::parse(line.as_bytes()).unwrap();
        let (read, agent) = line.referer_and_user_agent();
        assert_eq!(
            (read, agent),
            (referer.as_bytes(), user_agent.as_bytes()),
            "{rest}"
        );
    }
}

#[test]
fn odd_requests_are_requests() {
    assert_eq!(parts(&request("")), ["", "", "", ""]);
    assert_eq!(parts(&request("-")), ["-", "", "", ""]);
    assert_eq!(parts(&request("GET")), ["GET", "", "", ""]);
    assert_eq!(parts(&request("GET /a")), ["GET", "/a", "", ""]);
    assert_eq!(parts(&request("GET /a?")), ["GET", "/a", "", ""]);
    assert_eq!(
        parts(&request("GET /a?b?c HTTP/2")),
        ["GET", "/a", "b?c", "HTTP/2"]
    );
    assert_eq!(
        parts(&request("GET /a b HTTP/1.0")),
        ["GET", "/a b", "", "HTTP/1.0"]
    );
    assert_eq!(parts(&request("GET /a b/c")), ["GET", "/a b/c", "", ""]);
    assert_eq!(parts(&request("GET HTTP/1.0")), ["GET", "HTTP/1.0", "", ""]);
    assert_eq!(
        parts(&request(r"\x16\x03\x01")),
        [r"\x16\x03\x01", "", "", ""]
    );
}

#[test]
fn odd_lines_are_lines() {
    let requests = [
        (r#"::1 - - [17/May/2015:10:05:03 +0000] "" 000 -"#, ""),
        (
            r#"h - - [17/May/2015:10:05:03 +0000] "GET /\"x\" HTTP/1.1" 200 1"#,
            r#"GET /\"x\" HTTP/1.1"#,
        ),
        (
            r#"h - - [17/May/2015:10:05:03 +0000] "GET /"x" HTTP/1.1" 200 1"#,
            r#"GET /"x" HTTP/1.1"#,
        ),
        (
            r#"h - - [17/May/2015:10:05:03 +0000] "GET /x\" 200 1"#,
            r"GET /x\",
        ),
        (
            r#"h - - [17/May/2015:10:05:03 +0000] "GET /x\\" 200 1"#,
            r"GET /x\\",
        ),
        (
            r#"h - [a] [17/May/2015:10:05:03 +0000] "-" 408 - "-" "-""#,
            "-",
        ),
    ];
    for (line, request) in requests {
        let read = LogLine::parse(line.as_bytes()).unwrap_or_else(|bad| panic!("{line}: {bad}"));
        assert_eq!(read.request, request.as_bytes(), "{line}");
    }
    let named = requests[5].0;
    assert_eq!(LogLine::parse(named.as_bytes()).unwrap().user, b"[a]");
}

#[test]
fn a_line_says_what_cannot_be_read() {
    let cases: [(&str, BadLine); 18] = [
        ("", BadLine::Blank),
        (" \t ", BadLine::Blank),
        (" h - -", BadLine::Format),
        ("h", BadLine::Format),
        (
            "h - - [error] 31#31: no time",
            BadLine::Time(BadMoment::Form),
        ),
        (
            "2015/05/17 10:05:03 up [error] 31#31",
            BadLine::Time(BadMoment::Form),
        ),
        ("a b c d [error]", BadLine::Format),
        (
            "h - [17/May/2015:10:05:03 +0000] \"\" 200 1",
            BadLine::Fields(2),
        ),
        (
            "h - - [17/May/2015:10:05:03 +0000",
            BadLine::Time(BadMoment::Form),
        ),
        (
            "h - - [31/Feb/2015:10:05:03 +0000] \"\" 200 1",
            BadLine::Time(BadMoment::Calendar),
        ),
        ("h - - [17/May/2015:10:05:03 +0000]", BadLine::Request),
        (
            "h - - [17/May/2015:10:05:03 +0000] “GET / HTTP/1.0” 200 1",
            BadLine::Request,
        ),
        (
            "h - - [17/May/2015:10:05:03 +0000] \"GET /",
            BadLine::Request,
        ),
        (
            "h - - [17/May/2015:10:05:03 +0000] \"GET /\"",
            BadLine::Status,
        ),
        (
            "h - - [17/May/2015:10:05:03 +0000] \"GET /\" 20",
            BadLine::Status,
        ),
        (
            "h - - [17/May/2015:10:05:03 +0000] \"GET /\" 2000 1",
            BadLine::Status,
        ),
        (
            "h - - [17/May/2015:10:05:03 +0000] \"GET /\" 200",
            BadLine::Size,
        ),
        (
            "h - - [17/May/2015:10:05:03 +0000] \"GET /\" 200 1x",
            BadLine::Size,
        ),
    ];
    for (line, why) in cases {
        assert_eq!(LogLine::parse(line.as_bytes()), Err(why), "{line}");
    }
}

const REST: &str = r#"[17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 42"#;

#[test]
fn known_prefixes_are_taken_off() {
    for prefix in [
        "",
        "example.com:443 ",
        "[::1]:443 ",
        "<4>May 17 10:05:03 web1 nginx: ",
        "example.com ",
        "2015-05-17T10:05:03.123456789Z ",
        "2015-05-17T10:05:03.123456789+02:00 stdout F ",
        "2015-05-17T10:05:03Z stderr P example.com:443 ",
        "May 17 10:05:03 web1 nginx: ",
        "May  7 10:05:03 web1 nginx[123]: ",
        "<134>May 17 10:05:03 web1 nginx[123]: ",
        "<134>1 2015-05-17T10:05:03.25Z web1 nginx 123 ID47 - ",
        "<134>1 2015-05-17T10:05:03.25Z - nginx 123 - [x y=\"1\"] ",
        "1 2015-05-17T10:05:03Z web1 nginx 123 - [x y=\"[a\\\\\\\"]\"][z] ",
        "2015-05-17T10:05:03.25+02:00 web1 nginx[123]: ",
        "2015-05-17T10:05:03.25+02:00 nginx[123]: ",
        "May 17 10:05:03 nginx: ",
        "<190>May 17 10:05:03 nginx: ",
        "<134>May  7 10:05:03 haproxy[14389]: ",
        "web-1  | ",
        "web-1  | 2015-05-17T10:05:03Z ",
        "[pod/web-7d4/nginx] ",
        "May 17 10:05:03 web1 apache: example.com:80 ",
    ] {
        for client in ["1.2.3.4", "2001:db8::1"] {
            let line = format!("{prefix}{client} - ann {REST}");
            let read = LogLine::parse(line.as_bytes());
            let read = read.map(|line| (line.client, line.user));
            assert_eq!(read, Ok((client.as_bytes(), &b"ann"[..])), "{line}");
        }
    }
}

#[test]
fn a_line_in_quotes_is_the_line_without_them() {
    let combined = [COMMON, r#" "http://r/" "agent""#].concat();
    for line in [COMMON, &combined] {
        let quoted = format!("\"{line}\"");
        assert_eq!(
            LogLine::parse(quoted.as_bytes()),
            LogLine::parse(line.as_bytes())
        );
    }
}

/// The last quote is that of the agent.
#[test]
fn a_quote_before_a_combined_line_takes_nothing_from_its_end() {
    let line = ["\"", COMMON, r#" "http://r/" "agent""#].concat();
    assert_eq!(LogLine::parse(line.as_bytes()), Err(BadLine::Client));
}

/// It would be another key than the address alone, and no prefix length would apply to it.
#[test]
fn an_address_with_something_glued_to_it_is_no_client() {
    for client in [
        "\"1.2.3.4",
        "'1.2.3.4",
        "(1.2.3.4)",
        "<1.2.3.4>",
        ">1.2.3.4",
        "client=1.2.3.4",
        "1.2.3.4,",
        "{1.2.3.4}",
    ] {
        let line = format!("{client} - - {REST}");
        let read = LogLine::parse(line.as_bytes());
        assert_eq!(read, Err(BadLine::Client), "{line}");
    }
    let expected = "not in common or combined format: expected `HOST IDENT USER [TIME]`, found a \
        HOST with other characters than a host's";
    assert_eq!(BadLine::Client.to_string(), expected);
    // What it is glued to is a known prefix.
    let line = format!("<134>1.2.3.4 - - {REST}");
    assert_eq!(LogLine::parse(line.as_bytes()).unwrap().client, b"1.2.3.4");
}

/// Otherwise a line of a mebibyte, of brackets alone, would take minutes.
#[test]
fn the_time_is_looked_for_in_the_first_brackets() {
    // No line has more brackets before its time.
    let prefix = "[pod/w/n] <134>1 2015-05-17T10:05:03Z [h [a [1 [m [s] [::1]:443 ";
    let line = format!("{prefix}[c [i [u {REST}");
    let read = LogLine::parse(line.as_bytes()).unwrap();
    assert_eq!((read.client, read.user), (&b"[c"[..], &b"[u"[..]));
    for (brackets, why) in [
        (0, BadLine::Fields(4)),
        (BRACKETS_MAX - 1, BadLine::Fields(4 + BRACKETS_MAX - 1)),
        (BRACKETS_MAX, BadLine::Format),
    ] {
        // Those inside a word are not tried.
        let line = format!("a b[[[[[[[[[[[[[[[[ c d{} {REST}", " [".repeat(brackets));
        assert_eq!(LogLine::parse(line.as_bytes()), Err(why), "{brackets}");
    }
}

#[test]
fn whatever_else_stands_before_the_time_makes_no_client() {
    for (head, count) in [
        ("1.2.3.4 - ann smith", 4),
        ("1.2.3.4:5678 - ann smith", 4),
        ("::1 - ann smith", 4),
        ("1.2.3.4 5.6.7.8 - -", 4),
        ("1.2.3.4, 5.6.7.8 - -", 4),
        ("unknown, 5.6.7.8 - -", 4),
        ("[nginx]: 5.6.7.8 - -", 4),
        ("ann smith jones -", 4),
        ("INFO web1 1.2.3.4 - -", 5),
        ("May 17 10:05:03 1.2.3.4: 5.6.7.8 - -", 7),
        ("May 17 10:05:03 ::1: 5.6.7.8 - -", 7),
        ("May 17 10:05:03 nginx[a]: 5.6.7.8 - -", 7),
        ("1 2015-05-17T10:05:03Z h nginx 1 - [x 1.2.3.4 - -", 10),
        ("1 2015-05-17T10:05:03Z h nginx 1 - [x]1.2.3.4 - -", 9),
        ("2015-05-17 10:05:03 1.2.3.4 - -", 5),
        ("2015-05-17T10:05:03Z INFO 1.2.3.4 - - -", 6),
        ("1.2.3.4 -", 2),
        ("1.2.3.4  - -", 3),
    ] {
        let line = format!("{head} {REST}");
        let read = LogLine::parse(line.as_bytes());
        assert_eq!(read, Err(BadLine::Fields(count)), "{line}");
    }
    let shown = BadLine::Fields(4).to_string();
    let expected = "not in common or combined format: expected `HOST IDENT USER [TIME]`, found 4 \
        fields before the time";
    assert_eq!(shown, expected);
}
