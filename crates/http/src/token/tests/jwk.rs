//! Keys of a set whose numbers have too many bytes, or too few.

use ring::signature::ECDSA_P384_SHA384_FIXED_SIGNING;

use super::*;

fn read(key: &Value) -> Result<Token, String> {
    let settings = settings(json!({"verify": {"keys_file": "keys.json"}}));
    let text = json!({"keys": [key]}).to_string();
    Token::with_keys(&settings, Ok(Some(text))).map_err(|errors| errors.to_string())
}

fn modulus() -> Vec<u8> {
    BASE64.decode(RSA_MODULUS.concat()).unwrap()
}

fn rsa(modulus: &[u8], exponent: &[u8]) -> Value {
    let (n, e) = (BASE64.encode(modulus), BASE64.encode(exponent));
    json!({"kty": "RSA", "kid": "first", "n": n, "e": e})
}

/// The coordinates of a new key of a curve.
fn point(algorithm: &'static ring::signature::EcdsaSigningAlgorithm) -> (Vec<u8>, Vec<u8>) {
    let random = SystemRandom::new();
    let pair = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
    let pair = EcdsaKeyPair::from_pkcs8(algorithm, pair.as_ref(), &random).unwrap();
    let point = pair.public_key().as_ref();
    let (x, y) = point[1..].split_at(point.len() / 2);
    (x.to_vec(), y.to_vec())
}

fn curve(name: &str, x: &[u8], y: &[u8]) -> Value {
    let (x, y) = (BASE64.encode(x), BASE64.encode(y));
    json!({"kty": "EC", "kid": "first", "crv": name, "x": x, "y": y})
}

#[test]
fn zeros_before_the_numbers_of_an_rsa_key_mean_nothing() {
    let padded = [&[0], &*modulus()].concat();
    let compact = format!("{RSA_TEXT}.{}", RSA_SIGNATURE.concat());
    for (modulus, exponent) in [
        (&padded, &[1, 0, 1][..]),
        (&modulus(), &[0, 0, 1, 0, 1]),
        (&padded, &[0, 1, 0, 1]),
    ] {
        let mut key = rsa(modulus, exponent);
        key.as_object_mut().unwrap().remove("kid");
        let subject = bearer_subject(&read(&key).unwrap(), &compact);
        assert_eq!(subject, Some("alice".to_owned()), "{key}");
    }
}

#[test]
fn a_modulus_has_2048_bits_without_the_zeros_before_them() {
    let mut of_2047 = modulus();
    of_2047[0] &= 0x7f;
    let of_2040 = [&[0], &modulus()[1..]].concat();
    for modulus in [of_2047, of_2040, vec![0; 256], Vec::new()] {
        let error = read(&rsa(&modulus, &[1, 0, 1])).unwrap_err();
        let expected = "verify.keys_file: an RSA key of fewer than 2048 bits (kid \"first\"); ";
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn coordinates_of_a_curve_have_its_length() {
    for (name, bytes, (x, y)) in [
        ("P-256", 32, point(&ECDSA_P256_SHA256_FIXED_SIGNING)),
        ("P-384", 48, point(&ECDSA_P384_SHA384_FIXED_SIGNING)),
    ] {
        read(&curve(name, &x, &y)).unwrap();
        let (rest, long) = (&x[1..], [&x[..1], &y].concat());
        for key in [
            curve(name, rest, &y),
            curve(name, &x, &y[1..]),
            curve(name, rest, &long),
            curve(name, &[&[0], &*x].concat(), &y),
        ] {
            let error = read(&key).unwrap_err();
            let problem = format!("`x` or `y` of {name} without exactly {bytes} bytes");
            let expected = format!("verify.keys_file: {problem} (kid \"first\"); ");
            assert!(error.starts_with(&expected), "{error}");
        }
    }
}

#[test]
fn an_ed25519_key_has_32_bytes() {
    let key = |bytes: usize| {
        let x = BASE64.encode(vec![7; bytes]);
        json!({"kty": "OKP", "kid": "first", "crv": "Ed25519", "x": x})
    };
    read(&key(32)).unwrap();
    for bytes in [0, 31, 33, 64] {
        let error = read(&key(bytes)).unwrap_err();
        let expected =
            "verify.keys_file: `x` of Ed25519 without exactly 32 bytes (kid \"first\"); ";
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn a_number_in_another_spelling_is_an_error() {
    let (x, y) = point(&ECDSA_P256_SHA256_FIXED_SIGNING);
    let mut key = curve("P-256", &x, &y);
    key["x"] = json!(format!("{}=", BASE64.encode(&x)));
    let text = json!({"keys": [secret_key(), key]}).to_string();
    let settings = settings(json!({"verify": {"keys_file": "keys.json"}}));
    let error = Token::with_keys(&settings, Ok(Some(text))).unwrap_err();
    let error = error.to_string();
    let expected = "verify.keys_file: a value that is not base64url (kid \"first\"); ";
    assert!(error.starts_with(expected), "{error}");
}

/// A set may have one id for keys of different kinds (RFC 7517, section 4.5).
#[test]
fn keys_of_different_kinds_may_have_one_id() {
    let random = SystemRandom::new();
    let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
    let pair = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
    let pair = EcdsaKeyPair::from_pkcs8(algorithm, pair.as_ref(), &random).unwrap();
    let (x, y) = pair.public_key().as_ref()[1..].split_at(32);
    let mut secret_key = secret_key();
    secret_key["kid"] = json!("first");
    let from = token(json!({}), &[secret_key, curve("P-256", x, y)]);
    let claims = json!({"sub": "alice", "exp": LATER});
    let by_curve = |text: &[u8]| pair.sign(&random, text).unwrap().as_ref().to_vec();
    let header = |algorithm: &str| json!({"alg": algorithm, "kid": "first"});
    for compact in [
        signed(&header("HS256"), &claims, secret),
        signed(&header("ES256"), &claims, by_curve),
    ] {
        let subject = bearer_subject(&from, &compact);
        assert_eq!(subject, Some("alice".to_owned()), "{compact}");
    }
    for wrong in [
        signed(&header("ES256"), &claims, secret),
        signed(&header("HS256"), &claims, by_curve),
        signed(&header("RS256"), &claims, by_curve),
    ] {
        assert_eq!(bearer_subject(&from, &wrong), None);
    }
}

#[test]
fn keys_of_one_algorithm_have_different_ids() {
    let of = |algorithm: &str| {
        let mut key = rsa(&modulus(), &[1, 0, 1]);
        key["alg"] = json!(algorithm);
        key
    };
    let read_both = |one: Value, other: Value| {
        let settings = settings(json!({"verify": {"keys_file": "keys.json"}}));
        let text = json!({"keys": [one, other]}).to_string();
        Token::with_keys(&settings, Ok(Some(text))).map_err(|errors| errors.to_string())
    };
    let any = || rsa(&modulus(), &[1, 0, 1]);
    // Listed twice.
    read_both(any(), any()).unwrap();
    for (one, other) in [(any(), of("PS256")), (of("RS256"), any())] {
        let error = read_both(one, other).unwrap_err();
        let expected = "verify.keys_file: two keys of one id and algorithm (kid \"first\"); ";
        assert!(error.starts_with(expected), "{error}");
    }
    read_both(of("RS256"), of("PS256")).unwrap();
    // A token names none of two keys without an id.
    let without_id = |mut key: Value| {
        key.as_object_mut().unwrap().remove("kid");
        key
    };
    read_both(without_id(any()), without_id(any())).unwrap();
}
