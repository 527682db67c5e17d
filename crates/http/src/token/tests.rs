#![allow(clippy::unwrap_used)]

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use http::Request;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair};
use serde_json::json;

use super::*;
use crate::peer::Peer;

mod jwk;
mod length;
mod pem;
mod spelling;

/// The year 2100.
const LATER: u64 = 4_102_444_800;
const SECRET: &[u8] = b"a secret of at least 32 bytes for tests";

/// The modulus of an RSA key (its exponent is 65537), and its signature of [`RSA_TEXT`].
const RSA_MODULUS: [&str; 4] = [
    "zEVv7bkwLkysdL4zRCJqGqguDvi9Qxn82e_frd9wBNMpnpgW7V2y7vTzF175jwXIyWuixnQ-hSW-bfqPpoto6VQp",
    "o1MxoFda80dvB3QK3y5IO86twPuBmWDWjzsW9Tny8tirFF2G9ihhY8z_gR_byC7DoJvJXGAh1UAj0T1DyMN2uPbW",
    "18UohRfRDISxI3sfg9A2bz229oKMI3N2cfX8YX1RO5k_ZF3ny6NObE4WgG7WikE42ZUJErMDD2ZKzvP_-5Crbbkj",
    "WGJbb5hW9aamX0pRZmZoasL5ftouln2rjfVPtDx2u0LW70HN6aFbtH3uSc_Ah0CXDZaZUiOwtVVAhQ",
];
const RSA_TEXT: &str = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhbGljZSIsImV4cCI6NDEwMjQ0NDgwMH0";
const RSA_SIGNATURE: [&str; 4] = [
    "lxNzoRhv3VRuSqp2--VGpkwEFBuFUXNoSzIoDt7sA2Yq9AlaU1lanCqPDhmftlpVZMou_y2Rc1U4mmhm76U1dbzT",
    "XAPgsMnbDMgAEU9xzY_lt_VRPlKeHraUnvtsjaZlFqjOMmA1nAFkn-oTtUL28CNQmQ11m8q8hCTUTWOh4BY3g6vk",
    "ZT1E3b3G0QuxwgAYayfWBQ-0PDl7yR3qJ7ErGr32zj5atfm0Xz89QzLqquPbHP8RNJw0RI9pZo9Lyxm7dVPi7EpZ",
    "KV3yRGjy7dxQ-cnKGmyZpfQgEQK856QAEXMbHmAqrHFfhmQK5MMRcOnMG1zvQldqsx-wnbtu0vtqNA",
];

fn encode(value: &Value) -> String {
    BASE64.encode(value.to_string())
}

/// A token, signed by what is given.
fn signed(header: &Value, claims: &Value, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
    let text = format!("{}.{}", encode(header), encode(claims));
    let signature = BASE64.encode(sign(text.as_bytes()));
    format!("{text}.{signature}")
}

fn secret(text: &[u8]) -> Vec<u8> {
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, SECRET);
    ring::hmac::sign(&key, text).as_ref().to_vec()
}

fn hs256(claims: &Value) -> String {
    signed(&json!({"alg": "HS256"}), claims, secret)
}

fn secret_key() -> Value {
    json!({"kty": "oct", "k": BASE64.encode(SECRET)})
}

fn settings(value: Value) -> TokenSettings {
    serde_json::from_value(value).unwrap()
}

fn token(extra: Value, keys: &[Value]) -> Token {
    let mut value = json!({"verify": {"keys_file": "keys.json"}});
    value
        .as_object_mut()
        .unwrap()
        .extend(extra.as_object().unwrap().clone());
    let keys = json!({"keys": keys}).to_string();
    Token::with_keys(&settings(value), Ok(Some(keys))).unwrap()
}

/// The `sub` of a request's valid token.
fn subject(token: &Token, authorization: &str) -> Option<String> {
    let request = Request::get("/").header("authorization", authorization);
    let (parts, ()) = request.body(()).unwrap().into_parts();
    let claims = token.claims(&Head::of(&parts, Peer::default())).unwrap()?;
    text(claims.get("sub")?)
}

fn bearer_subject(from: &Token, compact: &str) -> Option<String> {
    subject(from, &format!("Bearer {compact}"))
}

#[test]
fn a_valid_token_has_claims() {
    let from = token(json!({}), &[secret_key()]);
    let valid = hs256(&json!({"sub": "alice", "exp": LATER}));
    let alice = Some("alice".to_owned());
    assert_eq!(bearer_subject(&from, &valid), alice);
    assert_eq!(subject(&from, &format!("bearer  {valid} ")), alice);
    for other in [
        format!("Basic {valid}"),
        format!("Bearer{valid}"),
        valid,
        "Bearer".into(),
    ] {
        assert_eq!(subject(&from, &other), None);
    }
    let number = hs256(&json!({"sub": 7, "exp": LATER}));
    assert_eq!(bearer_subject(&from, &number), Some("7".to_owned()));
    let list = hs256(&json!({"sub": ["alice"], "exp": LATER}));
    assert_eq!(bearer_subject(&from, &list), None);
}

#[test]
fn an_invalid_token_has_none() {
    let from = token(json!({}), &[secret_key()]);
    let valid = hs256(&json!({"sub": "alice", "exp": LATER}));
    let (rest, signature) = valid.rsplit_once('.').unwrap();
    let (_, claims) = rest.split_once('.').unwrap();
    let forged = encode(&json!({"sub": "bob", "exp": LATER}));
    let header = encode(&json!({"alg": "HS256"}));
    let none = encode(&json!({"alg": "none"}));
    let invalid = [
        format!("{header}.{forged}.{signature}"),
        format!("{rest}."),
        format!("{none}.{claims}."),
        rest.to_owned(),
        "..".to_owned(),
        "\u{e9}.\u{e9}.\u{e9}".to_owned(),
        hs256(&json!({"sub": "alice"})),
        hs256(&json!({"sub": "alice", "exp": 1_300_819_380})),
        hs256(&json!({"sub": "alice", "exp": "later"})),
        hs256(&json!({"sub": "alice", "exp": LATER, "nbf": LATER})),
        signed(
            &json!({"alg": "HS256", "crit": ["x"]}),
            &json!({"sub": "a", "exp": LATER}),
            secret,
        ),
        signed(
            &json!({"alg": "HS256", "kid": "1"}),
            &json!({"sub": "a", "exp": LATER}),
            secret,
        ),
    ];
    for token in invalid {
        assert_eq!(bearer_subject(&from, &token), None, "{token:.60}");
    }
    assert!(bearer_subject(&from, &valid).is_some());
}

#[test]
fn issuers_and_audiences_are_required_if_set() {
    let from = token(
        json!({"issuers": ["us"], "audiences": ["api"]}),
        &[secret_key()],
    );
    let with = |issuer: &str, audience: &str| {
        let claims = json!({"sub": "a", "exp": LATER, "iss": issuer, "aud": audience});
        bearer_subject(&from, &hs256(&claims)).is_some()
    };
    assert!(with("us", "api"));
    assert!(!with("them", "api"));
    assert!(!with("us", "other"));
    let without = hs256(&json!({"sub": "a", "exp": LATER}));
    assert_eq!(bearer_subject(&from, &without), None);
}

#[test]
fn a_token_is_verified_by_the_key_that_it_names() {
    let random = SystemRandom::new();
    let curve = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
    let curve = curve.as_ref();
    let curve = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, curve, &random).unwrap();
    let edwards = Ed25519KeyPair::generate_pkcs8(&random).unwrap();
    let edwards = Ed25519KeyPair::from_pkcs8(edwards.as_ref()).unwrap();
    let point = &curve.public_key().as_ref()[1..];
    let from = token(
        json!({}),
        &[
            json!({"kty": "EC", "crv": "P-256", "kid": "c",
            "x": BASE64.encode(&point[..32]), "y": BASE64.encode(&point[32..])}),
            json!({"kty": "OKP", "crv": "Ed25519", "kid": "e",
            "x": BASE64.encode(edwards.public_key().as_ref())}),
        ],
    );
    let claims = json!({"sub": "alice", "exp": LATER});
    let by_curve = |text: &[u8]| curve.sign(&random, text).unwrap().as_ref().to_vec();
    let by_edwards = |text: &[u8]| edwards.sign(text).as_ref().to_vec();
    // An attacker signs with the public key as a secret.
    let by_public = |text: &[u8]| {
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, curve.public_key().as_ref());
        ring::hmac::sign(&key, text).as_ref().to_vec()
    };
    let header = |algorithm: &str, key: &str| json!({"alg": algorithm, "kid": key});
    let alice = Some("alice".to_owned());
    let es256 = signed(&header("ES256", "c"), &claims, by_curve);
    assert_eq!(bearer_subject(&from, &es256), alice);
    let eddsa = signed(&header("EdDSA", "e"), &claims, by_edwards);
    assert_eq!(bearer_subject(&from, &eddsa), alice);
    let wrong = [
        signed(&header("ES256", "e"), &claims, by_curve),
        signed(&header("EdDSA", "c"), &claims, by_edwards),
        signed(&header("HS256", "c"), &claims, by_public),
        signed(&json!({"alg": "ES256"}), &claims, by_curve),
    ];
    for token in wrong {
        assert_eq!(bearer_subject(&from, &token), None);
    }
}

#[test]
fn rsa_signatures_are_verified() {
    let key = |modulus: String| json!({"kty": "RSA", "n": modulus, "e": "AQAB", "alg": "RS256"});
    let compact = format!("{RSA_TEXT}.{}", RSA_SIGNATURE.concat());
    let from = token(json!({}), &[key(RSA_MODULUS.concat())]);
    assert_eq!(bearer_subject(&from, &compact), Some("alice".to_owned()));
    let other = token(
        json!({}),
        &[key(RSA_MODULUS.concat().replacen('z', "y", 1))],
    );
    assert_eq!(bearer_subject(&other, &compact), None);
}

#[test]
fn an_unverified_token_says_what_it_likes() {
    let settings = settings(json!({"verify": "unverified", "from": {"cookie": "token"}}));
    let from = Token::new(&settings).unwrap();
    let compact = format!("{}x", hs256(&json!({"sub": "alice", "exp": 1})));
    let request = Request::get("/").header("cookie", format!("token={compact}"));
    let (parts, ()) = request.body(()).unwrap().into_parts();
    let claims = from.claims(&Head::of(&parts, Peer::default())).unwrap();
    assert_eq!(claims.unwrap()["sub"], "alice");
}

#[test]
fn errors_say_what_is_wrong_with_the_keys() {
    let with = |keys: Value| {
        let settings = settings(json!({"verify": {"keys_file": "keys.json"}}));
        Token::with_keys(&settings, Ok(Some(keys.to_string())))
            .unwrap_err()
            .to_string()
    };
    assert!(with(json!([])).starts_with("verify.keys_file: "));
    assert!(with(json!({"keys": []})).contains("no key that verifies signatures"));
    let encrypts = json!({"kty": "oct", "k": "AAAA", "use": "enc"});
    assert!(with(json!({"keys": [encrypts]})).contains("no key that verifies"));
    let other = json!({"kty": "oct", "k": "AAAA", "alg": "RS256"});
    assert!(with(json!({"keys": [other]})).contains("no key that verifies"));
    for bytes in [0, 31] {
        let short = json!({"kty": "oct", "k": BASE64.encode(&SECRET[..bytes])});
        let error = with(json!({"keys": [secret_key(), short]}));
        assert!(error.contains("fewer than 32 bytes"), "{error}");
    }
    let short = &RSA_MODULUS.concat()[..340];
    let short = json!({"kty": "RSA", "n": short, "e": "AQAB"});
    let error = with(json!({"keys": [secret_key(), short]}));
    assert!(error.contains("fewer than 2048 bits"), "{error}");
    for secret in [json!({"keys": ["hunter2"]}), json!({"keys": "hunter2"})] {
        let error = with(secret);
        assert!(!error.contains("hunter2"), "{error}");
    }
    let many = vec![secret_key(); KEYS_MAX + 1];
    assert!(with(json!({"keys": many})).contains("64 is the most"));
    let absent = settings(json!({"verify": {"keys_file": "/nowhere/keys.json"}}));
    let absent = Token::new(&absent).unwrap_err().to_string();
    assert!(
        absent.starts_with("verify.keys_file: /nowhere/keys.json: "),
        "{absent}"
    );
    let leeway = settings(json!({"verify": "unverified", "leeway_secs": 3601}));
    let leeway = Token::new(&leeway).unwrap_err().to_string();
    assert_eq!(leeway, "leeway_secs: 3601 seconds; 3600 is the most");
    let header = settings(json!({"verify": "unverified", "from": {"header": "a b"}}));
    assert!(
        Token::new(&header)
            .unwrap_err()
            .to_string()
            .starts_with("from.header: ")
    );
    assert!(serde_json::from_value::<TokenSettings>(json!({})).is_err());
}

#[test]
fn what_would_not_be_checked_is_an_error() {
    let wrong = |value: Value| Token::new(&settings(value)).unwrap_err().to_string();
    for key in ["issuers", "audiences"] {
        let error = wrong(json!({"verify": "unverified", key: ["us"]}));
        let expected = format!("{key}: nothing of an unverified token is checked; ");
        assert!(error.starts_with(&expected), "{error}");
    }
    let error = wrong(json!({"verify": "unverified", "from": {"cookie": ""}}));
    assert_eq!(error, "from.cookie: an empty name; write its name");
}

#[test]
fn a_claim_describes_a_request() {
    let classifier = |token: Value| {
        let settings = json!({"token": token, "descriptors": [{"entries": [
            {"key": "user", "from": {"claim": "sub"}, "if_missing": "deny"},
        ]}]});
        crate::Classifier::new(&serde_json::from_value(settings).unwrap())
    };
    let error = classifier(Value::Null).unwrap_err();
    assert!(error.to_string().starts_with("token: "), "{error}");
    let classifier = classifier(json!({"verify": "unverified"})).unwrap();
    let compact = hs256(&json!({"sub": "alice"}));
    let request = Request::get("/").header("authorization", format!("Bearer {compact}"));
    let (parts, ()) = request.body(()).unwrap().into_parts();
    let identity = classifier
        .identify(Head::of(&parts, Peer::default()))
        .unwrap();
    assert_eq!(identity.descriptors[0].entries[0].value.as_ref(), b"alice");
    let (parts, ()) = Request::get("/").body(()).unwrap().into_parts();
    let rejection = classifier
        .identify(Head::of(&parts, Peer::default()))
        .unwrap_err();
    assert_eq!(rejection.flaw, Flaw::Missing);
}
