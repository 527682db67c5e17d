//! Examples of the specification, <https://www.w3.org/TR/trace-context/>, and hostile values.

use super::*;

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const SPAN: &str = "00f067aa0ba902b7";

fn headers(name: HeaderName, values: &[&[u8]]) -> HeaderMap {
    let values = values.iter().map(|value| {
        let value = HeaderValue::from_bytes(value).expect("a value of a header");
        (name.clone(), value)
    });
    values.collect()
}

fn read(value: &str) -> Option<TraceContext> {
    TraceContext::read(&headers(TRACEPARENT, &[value.as_bytes()]))
}

#[test]
fn valid_contexts_are_read() {
    for (value, is_sampled) in [
        (format!("00-{TRACE}-{SPAN}-01"), true),
        (format!("00-{TRACE}-{SPAN}-00"), false),
        // Unknown flags say nothing.
        (format!("00-{TRACE}-{SPAN}-ff"), true),
        (format!("00-{TRACE}-{SPAN}-fe"), false),
        // Later versions: the same fields, and perhaps more.
        (format!("cc-{TRACE}-{SPAN}-01"), true),
        (
            format!("cc-{TRACE}-{SPAN}-01-what-the-future-will-be-like"),
            true,
        ),
    ] {
        let context = read(&value).unwrap_or_else(|| panic!("{value}"));
        assert_eq!(context.trace.to_string(), TRACE);
        assert_eq!(context.span.to_string(), SPAN);
        assert_eq!(context.is_sampled(), is_sampled, "{value}");
    }
}

#[test]
fn a_span_is_written_as_version_00() {
    let caller = read(&format!("cc-{TRACE}-{SPAN}-ff-more")).expect("it is valid");
    let own = caller.child(SpanId(0xb7ad_6b71_6920_3331), true);
    assert_eq!(own.to_string(), format!("00-{TRACE}-b7ad6b7169203331-03"));
    let own = caller.child(SpanId(1), false);
    assert_eq!(own.to_string(), format!("00-{TRACE}-0000000000000001-02"));
    let root = TraceContext::root(TraceId(1), SpanId(2), true);
    let written = "00-00000000000000000000000000000001-0000000000000002-01";
    assert_eq!(root.to_string(), written);
    assert_eq!(read(written), Some(root));
}

#[test]
fn invalid_contexts_are_ignored() {
    let zeros = "0".repeat(32);
    for value in [
        String::new(),
        "-".repeat(55),
        format!("00-{TRACE}-{SPAN}"),
        format!("00-{TRACE}-{SPAN}-0"),
        format!("00-{TRACE}-{SPAN}-011"),
        format!("00-{TRACE}-{SPAN}-01-"),
        format!("00-{TRACE}-{SPAN}-01-what-the-future-will-be-like"),
        format!("cc-{TRACE}-{SPAN}-01.what-the-future-will-be-like"),
        format!("ff-{TRACE}-{SPAN}-01"),
        format!("0-0{TRACE}-{SPAN}-01"),
        format!(".0-{TRACE}-{SPAN}-01"),
        format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
        format!("00-{TRACE}-{}-01", SPAN.to_uppercase()),
        format!("00-{zeros}-{SPAN}-01"),
        format!("00-{TRACE}-{}-01", &zeros[..16]),
        format!("00-{}.-{SPAN}-01", &TRACE[..31]),
        format!("00-{TRACE}-{}+-01", &SPAN[..15]),
        format!("00-+{}-{SPAN}-01", &TRACE[..31]),
        format!("00-{TRACE}-{SPAN}-.0"),
        format!("00_{TRACE}_{SPAN}_01"),
        format!("00-{TRACE}-{SPAN}-01").repeat(1000),
    ] {
        assert_eq!(read(&value), None, "{value}");
    }
    let bytes = [0xff; TRACEPARENT_BYTES];
    let not_text = headers(TRACEPARENT, &[&bytes]);
    assert_eq!(TraceContext::read(&not_text), None);
    let value = format!("00-{TRACE}-{SPAN}-01");
    let twice = headers(TRACEPARENT, &[value.as_bytes(), value.as_bytes()]);
    assert_eq!(TraceContext::read(&twice), None);
    assert_eq!(TraceContext::read(&HeaderMap::new()), None);
}

fn state(values: &[&str]) -> Option<String> {
    let values: Vec<&[u8]> = values.iter().map(|value| value.as_bytes()).collect();
    read_trace_state(&headers(TRACESTATE, &values))
}

#[test]
fn valid_states_are_joined() {
    for (values, expected) in [
        (&["rojo=00f067aa0ba902b7"][..], "rojo=00f067aa0ba902b7"),
        (&["rojo=1,congo=t61rcWkgMzE"], "rojo=1,congo=t61rcWkgMzE"),
        (&["rojo=1", "congo=2"], "rojo=1,congo=2"),
        (&["", "foo=1,,bar=2\t, baz=3"], "foo=1,,bar=2\t, baz=3"),
        (
            &["fw529a3039@dt=FfAAAAAA", "0@a=x"],
            "fw529a3039@dt=FfAAAAAA,0@a=x",
        ),
        (&["a-*/_0= v a~!"], "a-*/_0= v a~!"),
    ] {
        assert_eq!(state(values).as_deref(), Some(expected));
    }
    let full: Vec<String> = (0..MEMBERS_MAX)
        .map(|index| format!("k{index}=v"))
        .collect();
    assert!(state(&[&full.join(",")]).is_some());
}

#[test]
fn invalid_states_are_ignored() {
    let long = "x".repeat(MEMBER_TEXT_BYTES_MAX + 1);
    for value in [
        "",
        " ,\t",
        "foo",
        "foo=",
        "=1",
        "foo=1=2",
        "foo =1",
        "FOO=1",
        "0foo=1",
        "foo@=1",
        "@foo=1",
        "foo@@bar=1",
        "foo@0bar=1",
        "foo@bar@baz=1",
        "foo=1;bar=2",
        "foo=1,f\u{f6}o=2",
        "foo=\u{f6}",
        &format!("{long}=1"),
        &format!("foo={long}"),
        &format!("{}@a=1", "t".repeat(TENANT_BYTES_MAX + 1)),
        &format!("t@{}=1", "s".repeat(SYSTEM_BYTES_MAX + 1)),
    ] {
        assert_eq!(state(&[value]), None, "{value:?}");
    }
    let many: Vec<String> = (0..=MEMBERS_MAX)
        .map(|index| format!("k{index}=v"))
        .collect();
    assert_eq!(state(&[&many.join(",")]), None);
    let value = format!("a={}", "x".repeat(200));
    assert_eq!(
        state(&[&*value; 6]),
        None,
        "longer than {TRACESTATE_BYTES_MAX} bytes"
    );
    let longest = format!("{value},").repeat(5);
    let rest = format!("b={}", "x".repeat(TRACESTATE_BYTES_MAX - longest.len() - 2));
    let longest = longest + &rest;
    assert_eq!(state(&[&longest]), Some(longest.clone()));
    assert_eq!(state(&[&format!("{longest}x")]), None);
    let not_text = headers(TRACESTATE, &[b"a=\xff"]);
    assert_eq!(read_trace_state(&not_text), None);
}

#[test]
fn a_state_without_a_valid_parent_is_not_passed_on() {
    let own = TraceContext::root(TraceId(1), SpanId(2), true);
    for (state, has_valid_parent, stays) in [
        ("rojo=1", true, true),
        ("rojo=1", false, false),
        ("rojo", true, false),
    ] {
        let mut headers = headers(TRACESTATE, &[state.as_bytes(), b"congo=2"]);
        own.write(&mut headers, has_valid_parent);
        assert_eq!(headers.get_all(TRACESTATE).iter().count() == 2, stays);
        assert_eq!(headers[TRACEPARENT], *own.to_string());
    }
}
