//! A key that verifies tokens.

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, DecodingKeyKind};

/// The shortest secret, in bytes (RFC 7518, section 3.2). A shorter one can be guessed.
const SECRET_BYTES_MIN: usize = 32;
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
    /// `None` for keys that encrypt, and for kinds that are not supported.
    pub(super) fn new(jwk: &Jwk) -> Option<Key> {
        let is_other_use = |use_: &PublicKeyUse| *use_ != PublicKeyUse::Signature;
        if jwk.common.public_key_use.as_ref().is_some_and(is_other_use) {
            return None;
        }
        let mut algorithms = algorithms(&jwk.algorithm)?.to_vec();
        if let Some(named) = jwk.common.key_algorithm {
            let named: Algorithm = named.to_string().parse().ok()?;
            algorithms.retain(|algorithm| *algorithm == named);
        }
        let key = DecodingKey::from_jwk(jwk).ok()?;
        (!algorithms.is_empty()).then_some(Key {
            id: jwk.common.key_id.clone(),
            key,
            algorithms,
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
            DecodingKeyKind::RsaModulusExponent { n, .. } if n.len() < MODULUS_BYTES_MIN => {
                Some("an RSA key of fewer than 2048 bits")
            }
            _ => None,
        }
    }
}

/// The algorithms of a kind of key. A public key is never taken for a secret.
const fn algorithms(parameters: &AlgorithmParameters) -> Option<&'static [Algorithm]> {
    use Algorithm::{
        ES256, ES384, EdDSA, HS256, HS384, HS512, PS256, PS384, PS512, RS256, RS384, RS512,
    };
    Some(match parameters {
        AlgorithmParameters::RSA(_) => &[RS256, RS384, RS512, PS256, PS384, PS512],
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
