use super::*;
use crate::access_log::LogLine;
use crate::field::Agent;

const LINE: &[u8] = b"1.2.3.4 - ann [17/May/2015:10:05:03 +0000] \"GET /a?b=c HTTP/1.1\" 200 42 \
    \"http://r/\" \"agent/1.0\"";

fn rendered(pattern: &str, line: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
    let pattern: Pattern = pattern.parse().unwrap();
    let mut values = Values::default();
    pattern.render(
        &Fields::of(LogLine::parse(line).unwrap(), Agent::Read),
        &mut values,
    );
    let descriptor = pattern.descriptor(&mut crate::values::values(values.as_bytes()));
    let entries = descriptor.entries.into_iter();
    let entries = entries.map(|entry| (entry.key.to_vec(), entry.value.to_vec()));
    entries.collect()
}

#[test]
fn fields_stand_in_values_next_to_text() {
    let pairs = [
        ("c={client}", vec![("c", "1.2.3.4")]),
        ("a={user}, b = {method} ", vec![("a", "ann"), ("b", "GET")]),
        ("x=v1", vec![("x", "v1")]),
        ("x=a{path}=b{query}c", vec![("x", "a/a=bb=cc")]),
        (
            "x={ protocol }{status}{bytes}",
            vec![("x", "HTTP/1.120042")],
        ),
        (
            "x={referer},y={user_agent}",
            vec![("x", "http://r/"), ("y", "agent/1.0")],
        ),
    ];
    for (pattern, expected) in pairs {
        let rendered = rendered(pattern, LINE);
        let rendered: Vec<_> = rendered
            .iter()
            .map(|(k, v)| (str::from_utf8(k).unwrap(), str::from_utf8(v).unwrap()))
            .collect();
        assert_eq!(rendered, expected, "{pattern}");
    }
}

#[test]
fn bytes_that_are_no_text_stay_apart() {
    let line = |client: &[u8]| [client, b" - - [17/May/2015:10:05:03 +0000] \"\" 200 42"].concat();
    let values: Vec<_> = [&b"\xe9"[..], b"\xe8", "é".as_bytes()]
        .map(|client| rendered("c={client}", &line(client)).remove(0).1)
        .to_vec();
    assert_eq!(values, [&b"\xe9"[..], b"\xe8", "é".as_bytes()]);
}

#[test]
fn a_error_says_what_to_write_instead() {
    let errors = [
        (
            "c={cleint}",
            "there is no field `cleint`; did you mean `client`? fields: client, user, \
            method, path, query, protocol, status, bytes, referer, user_agent, host, forwarded_for",
        ),
        (
            "c={ip}",
            "there is no field `ip`; did you mean `client`? fields: client, user, \
            method, path, query, protocol, status, bytes, referer, user_agent, host, forwarded_for",
        ),
        (
            "c={x}",
            "there is no field `x`; fields: client, user, method, path, query, protocol, status, \
            bytes, referer, user_agent, host, forwarded_for",
        ),
        (
            "c={client",
            "a brace of `{client` has no partner; a field is written `{client}`",
        ),
        (
            "c=client}",
            "a brace of `client}` has no partner; a field is written `{client}`",
        ),
        (
            "client",
            "`client` has no value; write `key={field}` or `key=text`",
        ),
        ("c=", "`c=` has no value; write `key={field}` or `key=text`"),
        ("c=x,", "`` has no value; write `key={field}` or `key=text`"),
        (
            "={client}",
            "`={client}` has no key; write `key={field}` or `key=text`",
        ),
    ];
    for (pattern, message) in errors {
        let error = pattern.parse::<Pattern>().unwrap_err();
        assert_eq!(error.to_string(), message);
    }
    let many = vec!["k=v"; ENTRIES_MAX + 1].join(",");
    assert_eq!(
        many.parse::<Pattern>(),
        Err(InvalidPattern::ManyEntries { count: 33 })
    );
}

#[test]
fn values_that_only_look_alike_glued_together_differ() {
    let pattern: Pattern = "a={user},b={method}".parse().unwrap();
    let identity = |user: &str, request: &str| {
        let line = format!("h - {user} [17/May/2015:10:05:03 +0000] \"{request}\" 200 1");
        let line = LogLine::parse(line.as_bytes()).unwrap();
        let mut values = Values::default();
        pattern.render(&Fields::of(line, Agent::Read), &mut values);
        values.as_bytes().to_vec()
    };
    assert_ne!(identity("ab", "c"), identity("a", "bc"));
    assert_eq!(identity("ab", "c"), identity("ab", "c"));
}
