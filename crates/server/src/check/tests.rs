#![allow(clippy::unwrap_used)]

use super::*;

fn entries(json: &str) -> Vec<(String, String)> {
    let check = Check::read(json.as_bytes()).unwrap();
    check
        .descriptors
        .into_iter()
        .flat_map(|one| one.pairs)
        .map(|(key, value)| (key.into_owned(), value.into_owned()))
        .collect()
}

fn cost(rest: &str) -> Result<Cost, String> {
    let json = format!(r#"{{"domain":"d","descriptors":[{{"k":"v"}}]{rest}}}"#);
    let check = Check::read(json.as_bytes()).map_err(|failure| failure.problem.detail)?;
    let request = check.request().map_err(|failure| failure.problem.detail)?;
    Ok(request.cost)
}

#[test]
fn both_forms_of_a_descriptor_keep_their_order() {
    let long =
        r#"{"domain":"d","descriptors":[{"entries":[{"key":"z","value":"1"},{"key":"a"}]}]}"#;
    let short = r#"{"domain":"d","descriptors":[{"z":1,"a":""}]}"#;
    let expected = [("z", "1"), ("a", "")].map(|(k, v)| (k.to_owned(), v.to_owned()));
    assert_eq!(entries(long), expected);
    assert_eq!(entries(short), expected);
    // A key may have any name in the long form, and nearly any in the short one.
    let named = r#"{"domain":"d","descriptors":[{"key":"x","flag":true}]}"#;
    let expected = [("key", "x"), ("flag", "true")];
    assert_eq!(
        entries(named),
        expected.map(|(k, v)| (k.to_owned(), v.to_owned()))
    );
}

#[test]
fn duplicate_members_are_errors() {
    for (json, name) in [
        (r#"{"user":"a","user":"a"}"#, "user"),
        (r#"{"user":"a","path":"/","user":"b"}"#, "user"),
        (r#"{"entries":[{"key":"k","key":"x"}]}"#, "key"),
        (
            r#"{"entries":[{"key":"k","value":"v","value":"w"}]}"#,
            "value",
        ),
        (r#"{"entries":[],"entries":[]}"#, "entries"),
    ] {
        let json = format!(r#"{{"domain":"d","descriptors":[{json}]}}"#);
        let check = Check::read(json.as_bytes());
        let invalid = check.and_then(|check| check.request().map(drop));
        let detail = invalid.unwrap_err().problem.detail;
        let words = ["duplicate", "beside", "descriptors[0] has two entries"];
        let is_reported = words.iter().any(|word| detail.contains(word));
        assert!(is_reported && detail.contains(name), "{json}: {detail}");
    }
    let twice = r#"{"domain":"d","domain":"d","descriptors":[{"k":"v"}]}"#;
    let detail = Check::read(twice.as_bytes()).unwrap_err().problem.detail;
    assert!(detail.contains("duplicate field `domain`"), "{detail}");
}

#[test]
fn more_members_than_a_descriptor_may_have_are_only_counted() {
    let mut members: Vec<String> = (0..32).map(|number| format!(r#""k{number}":1"#)).collect();
    let detail = |members: &[String]| {
        let descriptor = members.join(",");
        let json = format!(r#"{{"domain":"d","descriptors":[{{{descriptor}}}]}}"#);
        let check = Check::read(json.as_bytes()).map_err(|failure| failure.problem.detail)?;
        let request = check.request();
        request.map(drop).map_err(|failure| failure.problem.detail)
    };
    assert_eq!(detail(&members), Ok(()));
    members[31] = members[30].clone();
    let twice = detail(&members).unwrap_err();
    assert!(twice.contains("two entries with the key `k30`"), "{twice}");
    // Not compared with each other: thousands of them would take seconds.
    members.push(members[31].clone());
    assert!(detail(&members).unwrap_err().contains("33 entries"));
}

/// Numbers that are read as one number would share a key.
#[test]
fn a_number_has_one_key_or_is_an_error() {
    let value = |number: &str| {
        let json = format!(r#"{{"domain":"d","descriptors":[{{"user":{number}}}]}}"#);
        let check = Check::read(json.as_bytes()).map_err(|failure| failure.problem.detail)?;
        let request = check.request().map_err(|failure| failure.problem.detail)?;
        let value = request.descriptors[0].entries[0].value.to_vec();
        Ok::<_, String>(String::from_utf8(value).unwrap())
    };
    for (numbers, expected) in [
        (&["1", "1.0", "1e0", "10e-1"][..], "1"),
        (&["-100", "-1e2", "-100.00"], "-100"),
        (&["0", "-0", "0.0", "-0.0"], "0"),
        (&["0.5", "5e-1"], "0.5"),
        (&["18446744073709551615"], "18446744073709551615"),
        (&["1125899906842623.0"], "1125899906842623"),
    ] {
        for number in numbers {
            assert_eq!(value(number).as_deref(), Ok(expected), "{number}");
        }
    }
    for number in [
        "18446744073709551616",
        "1e300",
        "9007199254740993.0",
        "-1e19",
    ] {
        let detail = value(number).unwrap_err();
        assert!(detail.contains("write it as text"), "{number}: {detail}");
    }
}

#[test]
fn only_the_short_form_has_no_order() {
    let is_unordered = |descriptor: &str| {
        let json = format!(r#"{{"domain":"d","descriptors":[{descriptor}]}}"#);
        let check = Check::read(json.as_bytes()).unwrap();
        check.request().unwrap().descriptors[0].is_unordered
    };
    assert!(is_unordered(r#"{"b":"1","a":"2"}"#));
    assert!(!is_unordered(r#"{"entries":[{"key":"b"},{"key":"a"}]}"#));
}

#[test]
fn a_cost_is_taken_refunded_or_peeked_at() {
    assert_eq!(cost(""), Ok(Cost::ONE));
    assert_eq!(cost(r#","cost":0"#), Ok(Cost::Take(0)));
    assert_eq!(cost(r#","cost":7"#), Ok(Cost::Take(7)));
    assert_eq!(cost(r#","cost":7,"peek":true"#), Ok(Cost::Peek(7)));
    assert_eq!(cost(r#","cost":-7"#), Ok(Cost::Refund(7)));
    assert!(
        cost(r#","cost":-7,"peek":true"#)
            .unwrap_err()
            .contains("peek")
    );
    assert!(
        cost(r#","cost":4294967296"#)
            .unwrap_err()
            .contains("is the most")
    );
    assert!(
        cost(r#","cost":-9223372036854775808"#)
            .unwrap_err()
            .contains("is the most")
    );
    assert!(
        cost(r#","cost":1.5"#)
            .unwrap_err()
            .contains("a whole number")
    );
}

/// As a descriptor, an entry would have keys that match no rule, and nothing would be limited.
#[test]
fn an_entry_in_place_of_a_descriptor_is_an_error() {
    for (json, expected) in [
        (
            r#"{"domain":"d","descriptors":[{"entries":"k"}]}"#,
            "`entries` must be a list",
        ),
        (
            r#"{"domain":"d","descriptors":[{"entries":{"user":"ann"}}]}"#,
            "`entries` must be a list",
        ),
        (
            r#"{"domain":"d","descriptors":[{"key":"user","value":"ann"}]}"#,
            "descriptors[0]: `key` and `value` are an entry, not a descriptor",
        ),
        (
            r#"{"domain":"d","descriptors":[{"value":"ann","key":"user"}]}"#,
            "`key` and `value` are an entry, not a descriptor",
        ),
    ] {
        let failure = Check::read(json.as_bytes()).unwrap_err();
        assert!(failure.problem.detail.contains(expected), "{json}");
    }
    let both = r#"{"domain":"d","descriptors":[{"key":"k","value":"v","other":"o"}]}"#;
    assert!(Check::read(both.as_bytes()).is_ok());
}

#[test]
fn an_invalid_body_is_reported_with_an_example_of_a_valid_one() {
    let cases = [
        ("", "EOF"),
        ("[]", "is a list"),
        (
            r#"{"domain":"d","descriptors":[{"entries":[["k","v"]]}]}"#,
            "an entry is an object",
        ),
        ("{}", "missing field `domain`"),
        (r#"{"domain":"d"}"#, "missing field `descriptors`"),
        (
            r#"{"domain":"d","descriptors":[],"costs":1}"#,
            "unknown field `costs`",
        ),
        (
            r#"{"domain":"d","descriptors":["x"]}"#,
            "expected a descriptor",
        ),
        (
            r#"{"domain":"d","descriptors":[{"k":null}]}"#,
            "the value of `k` must be text, a number, true or false",
        ),
        (
            r#"{"domain":"d","descriptors":[{"k":{}}]}"#,
            "the value of `k` must be text, a number, true or false",
        ),
        (
            r#"{"domain":"d","descriptors":[{"k":"v"}],"cost":"5"}"#,
            "a whole number",
        ),
        (
            r#"{"domain":"d","descriptors":[{"entries":[],"k":"v"}]}"#,
            "beside `entries`",
        ),
        (
            r#"{"domain":"d","descriptors":[{"entries":[{"ke":"v"}]}]}"#,
            "unknown field `ke`",
        ),
    ];
    for (json, expected) in cases {
        let failure = Check::read(json.as_bytes()).unwrap_err();
        let detail = failure.problem.detail;
        assert!(detail.contains(expected), "{json}: {detail}");
        assert!(detail.contains("a request looks like"), "{json}: {detail}");
    }
    for (json, expected) in [
        (
            r#"{"domain":"","descriptors":[{"k":"v"}]}"#,
            "domain must not be empty",
        ),
        (
            r#"{"domain":"d","descriptors":[]}"#,
            "list must not be empty",
        ),
        (r#"{"domain":"d","descriptors":[{}]}"#, "has no entries"),
        (
            r#"{"domain":"d","descriptors":[{"":"v"}]}"#,
            "has an empty key",
        ),
    ] {
        let failure = Check::read(json.as_bytes()).unwrap().request().unwrap_err();
        let detail = failure.problem.detail;
        assert!(detail.contains(expected), "{json}: {detail}");
    }
}
