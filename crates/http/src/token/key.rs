//! A key that verifies tokens.

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, DecodingKeyKind};
use spki::der::asn1::UintRef;
use spki::der::{Decode, Reader, SliceReader};
use spki::{AlgorithmIdentifierRef, ObjectIdentifier, SubjectPublicKeyInfoRef};

/// The shortest secret, in bytes (RFC 7518, section 3.2). A shorter one can be guessed.
const SECRET_BYTES_MIN: usize = 32;
/// The kinds of public keys that are supported, by the names that RFC 3279, RFC 5480 and RFC 8410
/// give them.
const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");
const CURVE: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.2.1");
const P256: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.10045.3.1.7");
const P384: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.132.0.34");
const ED25519: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.3.101.112");
/// The algorithms of an RSA key.
const RSA_ALGORITHMS: &[Algorithm] = &[
    Algorithm::RS256,
    Algorithm::RS384,
    Algorithm::RS512,
    Algorithm::PS256,
    Algorithm::PS384,
    Algorithm::PS512,
];
/// The shortest modulus of an RSA key, in bytes: 2048 bits (RFC 7518, section 3.3).
const MODULUS_BYTES_MIN: usize = 256;

/// A key, and the algorithms that it may be used with.
#[derive(Clone, Debug)]
pub(super) struct Key {
    pub(super) id: Option<String>,
    pub(super) key: DecodingKey,
    pub(super) algorithms: Vec<Algorithm>,
}

// === impl Key ===

impl Key {
    /// `None` for keys that encrypt, and for kinds that are not supported; an error is what is
    /// wrong with one that could never verify.
    pub(super) fn new(jwk: &Jwk) -> Result<Option<Key>, &'static str> {
        let algorithms = usable_algorithms(jwk).unwrap_or_default();
        if algorithms.is_empty() {
            return Ok(None);
        }
        Ok(Some(Key {
            id: jwk.common.key_id.clone(),
            key: decoding_key(jwk)?,
            algorithms,
        }))
    }

    /// The key in a `SubjectPublicKeyInfo` (RFC 5280, section 4.1). `None` for kinds that are not
    /// supported.
    pub(super) fn from_public(der: &[u8]) -> Option<Key> {
        let info = SubjectPublicKeyInfoRef::from_der(der).ok()?;
        let bytes = info.subject_public_key.as_bytes()?;
        let AlgorithmIdentifierRef { oid, parameters } = info.algorithm;
        let (key, algorithms) = match oid {
            RSA => (rsa_key(bytes)?, RSA_ALGORITHMS),
            ED25519 => (DecodingKey::from_ed_der(bytes), &[Algorithm::EdDSA][..]),
            CURVE => {
                let algorithm = match parameters?.decode_as().ok()? {
                    P256 => &[Algorithm::ES256],
                    P384 => &[Algorithm::ES384],
                    _ => return None,
                };
                (DecodingKey::from_ec_der(bytes), &algorithm[..])
            }
            _ => return None,
        };
        Some(Key {
            id: None,
            key,
            algorithms: algorithms.to_vec(),
        })
    }

    /// What makes it too weak, if anything does.
    pub(super) fn weakness(&self) -> Option<&'static str> {
        let is_secret = self.key.family() == AlgorithmFamily::Hmac;
        match self.key.kind() {
            DecodingKeyKind::SecretOrDer(secret)
                if is_secret && secret.len() < SECRET_BYTES_MIN =>
            {
                Some("a secret of fewer than 32 bytes")
            }
            DecodingKeyKind::RsaModulusExponent { n, .. } if is_short(n) => {
                Some("an RSA key of fewer than 2048 bits")
            }
            _ => None,
        }
    }
}

/// The algorithms that a key may be used with. `None` if it is not for signatures, or of a kind
/// that is not supported.
fn usable_algorithms(jwk: &Jwk) -> Option<Vec<Algorithm>> {
    let is_other_use = |use_: &PublicKeyUse| *use_ != PublicKeyUse::Signature;
    if jwk.common.public_key_use.as_ref().is_some_and(is_other_use) {
        return None;
    }
    let mut algorithms = algorithms(&jwk.algorithm)?.to_vec();
    if let Some(named) = jwk.common.key_algorithm {
        let named: Algorithm = named.to_string().parse().ok()?;
        algorithms.retain(|algorithm| *algorithm == named);
    }
    Some(algorithms)
}

/// The key of a JWK, with its numbers as `ring` takes them, or what is wrong with it. Zeros before
/// the numbers of RSA mean nothing (RFC 7518, section 6.3.1.1: some libraries write one); those of
/// a curve have one length (section 6.2.1.2, and RFC 8037).
fn decoding_key(jwk: &Jwk) -> Result<DecodingKey, &'static str> {
    let key = DecodingKey::from_jwk(jwk).map_err(|_| "a value that is not base64url")?;
    // The text is base64url by now, so its length tells how many bytes it has.
    match &jwk.algorithm {
        AlgorithmParameters::EllipticCurve(point) => {
            let (length, problem) = match point.curve {
                EllipticCurve::P384 => (64, "`x` or `y` of P-384 without exactly 48 bytes"),
                _ => (43, "`x` or `y` of P-256 without exactly 32 bytes"),
            };
            if point.x.len() != length || point.y.len() != length {
                return Err(problem);
            }
        }
        AlgorithmParameters::OctetKeyPair(pair) if pair.x.len() != 43 => {
            return Err("`x` of Ed25519 without exactly 32 bytes");
        }
        _ => {}
    }
    Ok(match key.kind() {
        DecodingKeyKind::RsaModulusExponent { n, e } => {
            DecodingKey::from_rsa_raw_components(without_zeros(n), without_zeros(e))
        }
        DecodingKeyKind::SecretOrDer(_) => key,
    })
}

/// A number without the zero bytes before it.
fn without_zeros(number: &[u8]) -> &[u8] {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    &number[zeros..]
}

/// Whether a modulus without zeros before it has fewer than 2048 bits.
fn is_short(modulus: &[u8]) -> bool {
    match modulus.len() {
        MODULUS_BYTES_MIN => modulus[0].leading_zeros() > 0,
        bytes => bytes < MODULUS_BYTES_MIN,
    }
}

/// The key in an `RSAPublicKey` (RFC 8017, appendix A.1.1).
fn rsa_key(der: &[u8]) -> Option<DecodingKey> {
    let mut reader = SliceReader::new(der).ok()?;
    let numbers = reader.sequence(|numbers| {
        let modulus = UintRef::decode(numbers)?;
        Ok::<_, spki::der::Error>((modulus, UintRef::decode(numbers)?))
    });
    let (modulus, exponent) = numbers.ok()?;
    let key = DecodingKey::from_rsa_raw_components(modulus.as_bytes(), exponent.as_bytes());
    Some(key)
}

/// The algorithms of a kind of key. A public key is never taken for a secret.
const fn algorithms(parameters: &AlgorithmParameters) -> Option<&'static [Algorithm]> {
    use Algorithm::{ES256, ES384, EdDSA, HS256, HS384, HS512};
    Some(match parameters {
        AlgorithmParameters::RSA(_) => RSA_ALGORITHMS,
        AlgorithmParameters::OctetKey(_) => &[HS256, HS384, HS512],
        AlgorithmParameters::EllipticCurve(key) => match key.curve {
            EllipticCurve::P256 => &[ES256],
            EllipticCurve::P384 => &[ES384],
            _ => return None,
        },
        AlgorithmParameters::OctetKeyPair(key) => match key.curve {
            EllipticCurve::Ed25519 => &[EdDSA],
            _ => return None,
        },
        _ => return None,
    })
}
