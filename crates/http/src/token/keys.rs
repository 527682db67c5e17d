//! The keys in a file: a JSON Web Key Set (RFC 7517), or one public key in PEM (RFC 7468).

use jsonwebtoken::Algorithm;
use jsonwebtoken::jwk::JwkSet;
use rustls_pki_types::pem::{PemObject, SectionKind};

use super::KEYS_MAX;
use super::key::Key;
use crate::setting::InvalidSetting;

/// The setting that names the file.
const SETTING: &str = "verify.keys_file";
/// What each section of a PEM file begins with.
const PEM_BEGIN: &str = "-----BEGIN ";

/// The keys that verify tokens.
#[derive(Clone, Debug)]
pub(super) enum Keys {
    /// One without an id.
    One(Key),
    /// A set, of which a token may name one.
    Set(Vec<Key>),
}

// === impl Keys ===

impl Keys {
    /// Reads the text of a file.
    pub(super) fn read(text: &str) -> Result<Keys, InvalidSetting> {
        let is_pem = text.lines().any(|line| line.starts_with(PEM_BEGIN));
        let keys = match is_pem {
            true => Keys::One(read_pem(text)?),
            false => Keys::Set(read_set(text)?),
        };
        for key in keys.all() {
            if let Some(weakness) = key.weakness() {
                return wrong_key(key.id.as_deref(), weakness, "make a longer one");
            }
        }
        Ok(keys)
    }

    /// The key of a token that names this id and algorithm, or no id. One that is alone in a set is
    /// of tokens that name none; one without an id is of all.
    pub(super) fn of(&self, id: Option<&str>, algorithm: Algorithm) -> Option<&Key> {
        match (self, id) {
            (Keys::One(key), _) => Some(key),
            (Keys::Set(keys), Some(_)) => keys
                .iter()
                .find(|key| key.id.as_deref() == id && key.algorithms.contains(&algorithm)),
            (Keys::Set(keys), None) => match keys.as_slice() {
                [key] => Some(key),
                _ => None,
            },
        }
    }

    fn all(&self) -> &[Key] {
        match self {
            Keys::One(key) => std::slice::from_ref(key),
            Keys::Set(keys) => keys,
        }
    }
}

/// The keys of a set that may verify signatures.
fn read_set(text: &str) -> Result<Vec<Key>, InvalidSetting> {
    let set: JwkSet = match serde_json::from_str(text) {
        Ok(set) => set,
        Err(error) => {
            // Not the error's text: it can quote the file, which has secrets.
            let (line, column) = (error.line(), error.column());
            let problem =
                format!("neither a JSON Web Key Set (line {line}, column {column}) nor PEM");
            return wrong(
                &problem,
                "write {\"keys\": [...]}, or -----BEGIN PUBLIC KEY-----",
            );
        }
    };
    InvalidSetting::check_at_most(SETTING, set.keys.len(), "keys", KEYS_MAX)?;
    let mut keys = Vec::new();
    for (index, jwk) in set.keys.iter().enumerate() {
        if set.keys[..index].contains(jwk) {
            // Listed twice, as where sets were merged.
            continue;
        }
        match Key::new(jwk) {
            Ok(key) => keys.extend(key),
            Err(problem) => {
                let instead = "write the whole value in base64url, without padding (RFC 7518)";
                return wrong_key(jwk.common.key_id.as_deref(), problem, instead);
            }
        }
    }
    if keys.is_empty() {
        return wrong(
            "there is no key that verifies signatures",
            "add an RSA, P-256, P-384, Ed25519 or octet key",
        );
    }
    check_ids(&keys)?;
    Ok(keys)
}

/// Checks that an id and an algorithm name one key. Keys of different kinds may have one id.
fn check_ids(keys: &[Key]) -> Result<(), InvalidSetting> {
    for (index, key) in keys.iter().enumerate() {
        let is_same = |other: &&Key| {
            let mut algorithms = other.algorithms.iter();
            other.id == key.id && algorithms.any(|algorithm| key.algorithms.contains(algorithm))
        };
        if key.id.is_some() && keys[..index].iter().any(|other| is_same(&other)) {
            let problem = "two keys of one id and algorithm";
            return wrong_key(key.id.as_deref(), problem, "give each its own `kid`");
        }
    }
    Ok(())
}

/// The only public key of a PEM file.
fn read_pem(text: &str) -> Result<Key, InvalidSetting> {
    let sections = <(SectionKind, Vec<u8>)>::pem_slice_iter(text.as_bytes());
    // Not the error's text, for the same reason.
    let Ok(sections) = sections.collect::<Result<Vec<_>, _>>() else {
        return wrong("broken PEM", "copy all of it, with both dashed lines");
    };
    match sections.as_slice() {
        [(SectionKind::PublicKey, der)] => match Key::from_public(der) {
            Some(key) => Ok(key),
            None => wrong(
                "a kind of public key that is not supported",
                "use an RSA, P-256, P-384 or Ed25519 key",
            ),
        },
        [(SectionKind::PublicKey, _), (SectionKind::PublicKey, _), ..] => wrong(
            "several keys in PEM, where they have no ids",
            "write them as a JSON Web Key Set, each with its `kid`",
        ),
        [(SectionKind::Certificate, _), ..] => wrong(
            "a certificate",
            "write its public key: openssl x509 -in FILE -noout -pubkey",
        ),
        _ => wrong(
            "PEM without a public key (-----BEGIN PUBLIC KEY-----)",
            "write the public key: openssl pkey -in FILE -pubout",
        ),
    }
}

/// An error with a key of this id.
fn wrong_key<T>(id: Option<&str>, problem: &str, instead: &str) -> Result<T, InvalidSetting> {
    match id {
        Some(id) => wrong(&format!("{problem} (kid {id:?})"), instead),
        None => wrong(problem, instead),
    }
}

fn wrong<T>(problem: &str, instead: &str) -> Result<T, InvalidSetting> {
    Err(InvalidSetting::new(SETTING, problem, instead))
}
