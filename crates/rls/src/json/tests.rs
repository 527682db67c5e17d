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
    assert!(read(b"{\"domain\":\"\xff\"}").is_err());
}
