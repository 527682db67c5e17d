//! The limits of an answer that its headers name: the draft's quota policies.

use std::borrow::Cow;
use std::fmt::Write;

use tollgate_core::{Answer, Decision, Enforcement, Limit, Limited, PerDescriptor, Span, Wait};

/// The most policies that the headers of one response name.
pub const POLICIES_MAX: usize = 16;
/// The longest name of a policy, in bytes; a longer one is cut at the end of a character.
pub const NAME_BYTES_MAX: usize = 128;

/// A limit, and what remains of it for the client.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Policy<'a> {
    /// Encoded by [`name`].
    pub(crate) name: Cow<'a, str>,
    pub(crate) limit: &'a Limit,
    pub(crate) remaining: u32,
    /// How long nothing beyond `remaining` is available: the retry time of a limit that denies, and
    /// the reset of another.
    pub(crate) effective: Span,
}

/// The policies of an answer: the one that denied first, the others in the order of the
/// descriptors, at most [`POLICIES_MAX`].
///
/// Shadow limits are left out, because a client could act on them. A rule that counts several keys
/// of a request is one policy, with the values of its scarcest key.
pub(crate) fn policies(answer: &Answer) -> PerDescriptor<Policy<'_>> {
    let enforced = answer
        .limited()
        .filter(|limited| limited.enforcement != Enforcement::Shadow);
    let mut policies: PerDescriptor<Policy<'_>> = PerDescriptor::new();
    for limited in answer.denied_by().into_iter().chain(enforced) {
        let policy = Policy::of(limited);
        let known = policies
            .iter()
            .position(|other| other.limit == policy.limit && other.name == policy.name);
        match known {
            Some(index) if policy.remaining < policies[index].remaining => policies[index] = policy,
            Some(_) => {}
            None if policies.len() < POLICIES_MAX => policies.push(policy),
            None => {}
        }
    }
    policies
}

/// The name of a limit in headers and in `violated-policies`, so that a client can match the two.
///
/// Headers are ASCII, so everything but visible ASCII and spaces is percent-encoded, byte by byte
/// of its UTF-8. `%` itself is encoded too: otherwise the rules `ü` and `%c3%bc` would have the
/// same name.
pub(crate) fn name(limited: &Limited) -> Cow<'_, str> {
    let name = display_name(limited);
    let stays = |byte: u8| byte != b'%' && matches!(byte, b' '..=b'~');
    if name.bytes().all(stays) {
        return Cow::Borrowed(name);
    }
    let mut out = String::with_capacity(3 * name.len());
    for byte in name.bytes() {
        match byte {
            _ if stays(byte) => out.push(char::from(byte)),
            _ => write!(out, "%{byte:02x}").expect("a String takes everything"),
        }
    }
    Cow::Owned(out)
}

/// The name of a limit for people: not encoded.
pub(crate) fn display_name(limited: &Limited) -> &str {
    let shown = limited.rule.shown();
    &shown[..shown.floor_char_boundary(NAME_BYTES_MAX)]
}

// === impl Policy ===

impl<'a> Policy<'a> {
    fn of(limited: &'a Limited) -> Policy<'a> {
        let effective = match limited.decision {
            Decision::Deny(denial) => match denial.wait {
                Wait::For(wait) => wait,
                Wait::Never => denial.reset,
            },
            Decision::Allow(grant) => grant.reset,
        };
        Policy {
            name: name(limited),
            limit: &limited.limit,
            remaining: limited.remaining(),
            effective,
        }
    }
}
