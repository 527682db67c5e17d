//! Public keys in PEM. Those in `pem/`, and the tokens that they verify, were made by OpenSSL and
//! PyJWT: `sub` is alice, `kid` is 2026-11, and they expire in 2100.

use super::*;

/// A key and its token.
macro_rules! pair {
    ($name:literal) => {
        (
            include_str!(concat!("pem/", $name, ".pem")),
            include_str!(concat!("pem/", $name, ".jwt")),
        )
    };
}

const PAIRS: [(&str, &str); 5] = [
    pair!("rs256"),
    pair!("ps512"),
    pair!("es256"),
    pair!("es384"),
    pair!("eddsa"),
];

fn read(text: &str) -> Result<Token, InvalidSettings> {
    let settings = settings(json!({"verify": {"keys_file": "key.pem"}}));
    Token::with_keys(&settings, Ok(Some(text.to_owned())))
}

#[test]
fn a_key_in_pem_verifies_its_tokens_and_no_others() {
    for (of_key, (key, _)) in PAIRS.iter().enumerate() {
        let token = read(key).unwrap();
        for (of_token, (_, compact)) in PAIRS.iter().enumerate() {
            let expected = (of_key == of_token).then(|| "alice".to_owned());
            let context = format!("token {of_token} with key {of_key}");
            assert_eq!(bearer_subject(&token, compact), expected, "{context}");
        }
        // A public key is not a secret: clients that know it cannot sign with it.
        let signed = signed(
            &json!({"alg": "HS256"}),
            &json!({"sub": "alice", "exp": LATER}),
            |text| {
                let secret = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, key.as_bytes());
                ring::hmac::sign(&secret, text).as_ref().to_vec()
            },
        );
        assert_eq!(bearer_subject(&token, &signed), None);
    }
}

#[test]
fn text_around_a_key_and_other_line_ends_do_not_matter() {
    let (key, compact) = PAIRS[2];
    for text in [
        format!("the key of November\n\n{key}\n"),
        key.replace('\n', "\r\n"),
    ] {
        let token = read(&text).unwrap();
        assert_eq!(bearer_subject(&token, compact), Some("alice".to_owned()));
    }
}

#[test]
fn what_is_no_public_key_is_an_error_that_says_what_to_do() {
    let (key, _) = PAIRS[0];
    let (other, _) = PAIRS[2];
    let block = |label: &str| format!("-----BEGIN {label}-----\nMAA=\n-----END {label}-----\n");
    for (text, problem, instead) in [
        (key[..200].to_owned(), "broken PEM", "both dashed lines"),
        (format!("{key}{other}"), "several keys", "JSON Web Key Set"),
        (block("CERTIFICATE"), "a certificate", "openssl x509"),
        (block("PRIVATE KEY"), "without a public key", "-pubout"),
        (block("RSA PUBLIC KEY"), "without a public key", "-pubout"),
        (block("PUBLIC KEY"), "not supported", "RSA, P-256, P-384"),
        (
            include_str!("pem/p521.pem").to_owned(),
            "not supported",
            "RSA, P-256, P-384",
        ),
        (
            include_str!("pem/rsa_1024.pem").to_owned(),
            "fewer than 2048 bits",
            "a longer one",
        ),
        (
            "neither".to_owned(),
            "neither a JSON Web Key Set",
            "PUBLIC KEY",
        ),
    ] {
        let error = read(&text).unwrap_err().to_string();
        assert!(error.contains("verify.keys_file"), "{error}");
        assert!(error.contains(problem), "{problem}: {error}");
        assert!(error.contains(instead), "{instead}: {error}");
    }
}
