#![allow(clippy::unwrap_used)]

use super::*;

#[test]
fn malformed_json_is_an_error_with_a_place() {
    let number = "hitsAddend and requestsPerUnit are whole numbers from 0 to 4294967295 at line";
    let cases = [
        ("", "EOF"),
        ("[]", "invalid type: sequence"),
        (
            r#"{"domain":1}"#,
            "invalid type: integer `1`, expected a string",
        ),
        (r#"{"domian":"d"}"#, "unknown field `domian`"),
        (r#"{"domain":"d","domain":"e"}"#, "duplicate field"),
        (r#"{"hitsAddend":-1}"#, number),
        (r#"{"hitsAddend":4294967296}"#, number),
        (r#"{"hitsAddend":1.5}"#, number),
        (r#"{"hitsAddend":1,"hits_addend":1}"#, "duplicate field"),
        (r#"{"hitsAddend":"x"}"#, number),
        (r#"{"hitsAddend":""}"#, number),
        (r#"{"hitsAddend":"-1"}"#, number),
        (r#"{"hitsAddend":"4294967296"}"#, number),
        (r#"{"hitsAddend":true}"#, number),
        (r#"{"hitsAddend":[]}"#, number),
        (r#"{"descriptors":[{"hitsAddend":{"value":1}}]}"#, number),
        (
            r#"{"descriptors":[{"limit":{"requestsPerUnit":"x"}}]}"#,
            number,
        ),
        (
            r#"{"descriptors":[[]]}"#,
            "invalid type: sequence, expected an object (RateLimitDescriptor)",
        ),
        (
            r#"{"descriptors":[{"limit":{"unit":true}}]}"#,
            "invalid type: boolean `true`, expected one of",
        ),
        (
            r#"{"descriptors":[{"limit":{"unit":"FORTNIGHT"}}]}"#,
            "unknown variant `FORTNIGHT`",
        ),
        (r#"{"descriptors":[{"limit":{"unit":99}}]}"#, "99"),
        (r#"{"descriptors":[{"hitsAddend":-5}]}"#, number),
        (
            r#"{"descriptors":[{"hitsAddend":18446744073709551616}]}"#,
            number,
        ),
        (r#"{"domain":"d"} x"#, "trailing characters"),
    ];
    for (json, expected) in cases {
        let text = read(json.as_bytes()).unwrap_err().to_string();
        assert!(text.contains(expected), "{json}: {text}");
        assert!(text.contains("line 1 column"), "{json}: {text}");
    }
    assert!(read("[".repeat(100_000).as_bytes()).is_err());
}

#[test]
fn strings_may_hold_any_bytes() {
    let json = b"{\"domain\":\"d\xff\",\"descriptors\":[{\"entries\":[{\"key\":\"k\xfe\",\
        \"value\":\"a\\u00e9\\ud800\n\xc3\"}]}]}";
    let message = read(json).unwrap().message;
    let entry = &message.descriptors[0].entries[0];
    assert_eq!(
        (&message.domain[..], &entry.key[..]),
        (&b"d\xff"[..], &b"k\xfe"[..])
    );
    assert_eq!(entry.value, &b"a\xc3\xa9\xed\xa0\x80\n\xc3"[..]);
}

#[test]
fn null_is_a_member_that_is_not_set() {
    let nulls = r#"{"domain":null,"descriptors":null,"hitsAddend":null}"#;
    assert_eq!(read(nulls.as_bytes()), read(b"{}"));
    let nulls = r#"{"descriptors":[{"entries":null,"limit":null,"hitsAddend":null,
        "isNegativeHits":null},{"entries":[{"key":null,"value":null}],
        "limit":{"requestsPerUnit":null,"unit":null}}]}"#;
    let unset = r#"{"descriptors":[{},{"entries":[{}],"limit":{}}]}"#;
    assert_eq!(read(nulls.as_bytes()), read(unset.as_bytes()));
    let text = read(br#"{"descriptors":[null]}"#).unwrap_err().to_string();
    assert!(text.contains("invalid type: null"), "{text}");
}

#[test]
fn numbers_are_written_in_every_way_of_proto3() {
    let hits = |number: &str| {
        let json = format!(r#"{{"hitsAddend":{number}}}"#);
        read(json.as_bytes())
            .map(|read| read.message.hits_addend)
            .ok()
    };
    for number in ["5", "5.0", "5e0", "50e-1", r#""5""#, r#""5.0""#, r#""5e0""#] {
        assert_eq!(hits(number), Some(5), "{number}");
    }
    for number in ["0", "-0", "0.0", "-0.0", r#""0""#] {
        assert_eq!(hits(number), Some(0), "{number}");
    }
    assert_eq!(hits("4294967295.0"), Some(u32::MAX));
    for number in [
        "5.5",
        "-5.0",
        "4294967296.0",
        "1e400",
        r#""inf""#,
        r#""+5""#,
        r#"" 5""#,
    ] {
        assert_eq!(hits(number), None, "{number}");
    }
    let own = |number: &str| {
        let json = format!(r#"{{"descriptors":[{{"hitsAddend":{number}}}]}}"#);
        let message = read(json.as_bytes()).ok()?.message;
        message.descriptors[0]
            .hits_addend
            .map(|addend| addend.value)
    };
    assert_eq!(own("18446744073709551615"), Some(u64::MAX));
    assert_eq!(own("1.0"), Some(1));
    assert_eq!(own("18446744073709551616.0"), None);
}
