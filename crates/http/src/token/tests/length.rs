//! Values that are too long for a token.

use super::*;

/// A valid token of so many bytes.
fn token_of(length: usize) -> String {
    let with = |padding: usize| {
        hs256(&json!({"sub": "alice", "exp": LATER, "nonce": "n".repeat(padding)}))
    };
    // Three bytes are four characters.
    let padding = (length - with(0).len()) / 4 * 3;
    let tokens = (padding..).map(with);
    let mut tokens = tokens.take_while(|token| token.len() <= length);
    tokens.find(|token| token.len() == length).unwrap()
}

fn claims(from: &Token, value: &str) -> Result<Option<Claims>, Flaw> {
    let request = Request::get("/").header("authorization", format!("Bearer {value}"));
    let (parts, ()) = request.body(()).unwrap().into_parts();
    from.claims(&Head::of(&parts, Peer::default()))
}

/// Its client could choose the length, and so not to be limited by its claims.
#[test]
fn a_token_that_is_too_long_is_rejected() {
    let verified = token(json!({}), &[secret_key()]);
    let unverified = Token::new(&settings(json!({"verify": "unverified"}))).unwrap();
    for from in [verified, unverified] {
        let longest = claims(&from, &token_of(TOKEN_BYTES_MAX)).unwrap();
        assert_eq!(longest.unwrap()["sub"], "alice");
        let longer = claims(&from, &token_of(TOKEN_BYTES_MAX + 1));
        assert_eq!(longer, Err(Flaw::TooLong));
    }
}

#[test]
fn a_long_value_that_is_no_token_is_missing() {
    let from = token(json!({}), &[secret_key()]);
    for other in ["k".repeat(9 * 1024), "k.".repeat(5 * 1024)] {
        assert_eq!(claims(&from, &other), Ok(None));
    }
}
