//! Signatures by `ring`, which TLS uses already: the token crate's own choices are C or a dozen
//! crates more.

use jsonwebtoken::crypto::{CryptoProvider, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::signature::{Error, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind};
use ring::{hmac, signature};

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: |_, _| Err(ErrorKind::UnsupportedAlgorithm.into()),
    verifier_factory: |algorithm, key| {
        Ok(Box::new(RingVerifier {
            algorithm: *algorithm,
            key: key.clone(),
        }))
    },
    key_utils: KeyUtils::new_unimplemented(),
};

/// Verifies signatures of one algorithm with one key.
struct RingVerifier {
    algorithm: Algorithm,
    key: DecodingKey,
}

/// Makes the token crate use `ring`. If the program chose something else before, that stays.
pub(super) fn install() {
    let _ = PROVIDER.install_default();
}

// === impl RingVerifier ===

impl RingVerifier {
    fn verify_secret(&self, by: hmac::Algorithm, text: &[u8], tag: &[u8]) -> Result<(), Error> {
        let secret = self.key.try_get_as_bytes().map_err(Error::from_source)?;
        hmac::verify(&hmac::Key::new(by, secret), text, tag).map_err(|_| Error::new())
    }

    fn verify_rsa(
        &self,
        by: &signature::RsaParameters,
        text: &[u8],
        bytes: &[u8],
    ) -> Result<(), Error> {
        let DecodingKeyKind::RsaModulusExponent { n, e } = self.key.kind() else {
            return Err(Error::new());
        };
        let key = signature::RsaPublicKeyComponents { n, e };
        key.verify(by, text, bytes).map_err(|_| Error::new())
    }

    fn verify_curve(
        &self,
        by: &'static dyn signature::VerificationAlgorithm,
        text: &[u8],
        bytes: &[u8],
    ) -> Result<(), Error> {
        let key = self.key.try_get_as_bytes().map_err(Error::from_source)?;
        let key = signature::UnparsedPublicKey::new(by, key);
        key.verify(text, bytes).map_err(|_| Error::new())
    }
}

impl Verifier<Vec<u8>> for RingVerifier {
    fn verify(&self, text: &[u8], bytes: &Vec<u8>) -> Result<(), Error> {
        use signature::{
            ECDSA_P256_SHA256_FIXED, ECDSA_P384_SHA384_FIXED, ED25519, RSA_PKCS1_2048_8192_SHA256,
            RSA_PKCS1_2048_8192_SHA384, RSA_PKCS1_2048_8192_SHA512, RSA_PSS_2048_8192_SHA256,
            RSA_PSS_2048_8192_SHA384, RSA_PSS_2048_8192_SHA512,
        };
        match self.algorithm {
            Algorithm::HS256 => self.verify_secret(hmac::HMAC_SHA256, text, bytes),
            Algorithm::HS384 => self.verify_secret(hmac::HMAC_SHA384, text, bytes),
            Algorithm::HS512 => self.verify_secret(hmac::HMAC_SHA512, text, bytes),
            Algorithm::RS256 => self.verify_rsa(&RSA_PKCS1_2048_8192_SHA256, text, bytes),
            Algorithm::RS384 => self.verify_rsa(&RSA_PKCS1_2048_8192_SHA384, text, bytes),
            Algorithm::RS512 => self.verify_rsa(&RSA_PKCS1_2048_8192_SHA512, text, bytes),
            Algorithm::PS256 => self.verify_rsa(&RSA_PSS_2048_8192_SHA256, text, bytes),
            Algorithm::PS384 => self.verify_rsa(&RSA_PSS_2048_8192_SHA384, text, bytes),
            Algorithm::PS512 => self.verify_rsa(&RSA_PSS_2048_8192_SHA512, text, bytes),
            Algorithm::ES256 => self.verify_curve(&ECDSA_P256_SHA256_FIXED, text, bytes),
            Algorithm::ES384 => self.verify_curve(&ECDSA_P384_SHA384_FIXED, text, bytes),
            Algorithm::EdDSA => self.verify_curve(&ED25519, text, bytes),
            _ => Err(Error::new()),
        }
    }
}

impl JwtVerifier for RingVerifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}
