use super::*;

/// The claims of a request with this header, or why it is denied.
fn claims(from: &Token, name: &str, value: &[u8]) -> Result<Option<Claims>, Flaw> {
    let (parts, ()) = Request::get("/")
        .header(name, value)
        .body(())
        .unwrap()
        .into_parts();
    from.claims(&Head::of(&parts, Peer::default()))
}

/// A valid token, and the same with other unused bits at the end of its signature.
fn valid_and_changed() -> (String, String) {
    let valid = hs256(&json!({"sub": "alice", "exp": LATER}));
    let (rest, last) = valid.split_at(valid.len() - 1);
    let alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let digit = alphabet.find(last).unwrap();
    // Of 43 characters of 6 bits, the last two bits are unused.
    assert_eq!(digit % 4, 0);
    let changed = format!("{rest}{}", &alphabet[digit + 3..digit + 4]);
    (valid, changed)
}

#[test]
fn a_token_in_another_spelling_is_rejected() {
    let (valid, changed) = valid_and_changed();
    let (rest, signature) = valid.rsplit_once('.').unwrap();
    let (first, second) = signature.split_at(20);
    let others = [
        changed,
        format!("{valid}="),
        format!("{valid}=="),
        format!("{valid}{}", "=".repeat(TOKEN_BYTES_MAX)),
        format!("{rest}=.{signature}"),
        format!("{rest}.{first} {second}"),
        format!("{rest}.{first}+{second}"),
        format!("{rest}.{first}/{second}"),
        format!("{rest}.{first}\u{a0}{second}"),
        format!("{} {}", &valid[..2], &valid[2..]),
        // What servers may take for the end, or for the token.
        format!("{valid}."),
        format!("{valid} x.y"),
        format!("{valid}, x"),
        format!("x {valid}"),
        format!("\u{a0}{valid}"),
        format!("\"{valid}\""),
        // One character after whole groups of four has no byte.
        format!("{rest}.{signature}AA"),
    ];
    let from_header = token(json!({}), &[secret_key()]);
    let from_cookie = token(json!({"from": {"cookie": "token"}}), &[secret_key()]);
    for other in others {
        let header = format!("Bearer {other}");
        let found = claims(&from_header, "authorization", header.as_bytes());
        assert_eq!(found, Err(Flaw::BadToken), "{other:.300}");
        if other.starts_with('"') {
            continue;
        }
        let cookie = format!("token={other}");
        let found = claims(&from_cookie, "cookie", cookie.as_bytes());
        // Some servers end a cookie there.
        let expected = match other.contains([' ', ',']) {
            true => Flaw::Respelled,
            false => Flaw::BadToken,
        };
        assert_eq!(found, Err(expected), "{other:.300}");
    }
}

#[test]
fn a_scheme_without_a_space_is_rejected() {
    let from = token(json!({}), &[secret_key()]);
    let (valid, _) = valid_and_changed();
    for start in [&b"Bearer\t"[..], b"bEARER\xa0", b"Bearer,", b"\xa0Bearer "] {
        let value = [start, valid.as_bytes()].concat();
        let found = claims(&from, "authorization", &value);
        assert_eq!(found, Err(Flaw::BadToken), "{start:?}");
    }
}

#[test]
fn a_token_of_another_scheme_is_missing() {
    let from = token(json!({}), &[secret_key()]);
    let (valid, _) = valid_and_changed();
    for scheme in ["Bearer-Key", "Bearer_v2", "Bearers", "Basic"] {
        let value = format!("{scheme} {valid}");
        let found = claims(&from, "authorization", value.as_bytes());
        assert_eq!(found, Ok(None), "{scheme}");
    }
}

#[test]
fn what_is_no_token_is_missing() {
    let from = token(json!({}), &[secret_key()]);
    for other in [
        "",
        "x",
        "opaque=",
        "1.2",
        // Keys of other products.
        "SG.abc.def",
        "v4.public.abc",
        "a=.b=.c=",
        // An encrypted token.
        "eyJhbGciOiJkaXIifQ..AAAA.AAAA.AAAA",
    ] {
        let value = format!("Bearer {other}");
        let found = claims(&from, "authorization", value.as_bytes());
        assert_eq!(found, Ok(None), "{other}");
    }
}
