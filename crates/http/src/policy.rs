//! The limits of an answer that its headers name: the draft's quota policies.

use std::borrow::Cow;
use std::fmt::Write;
use std::sync::Arc;

use tollgate_core::{
    Answer, Decision, Enforcement, Limit, Limited, PerDescriptor, RuleName, Span, Wait,
};

/// The most policies that the headers of one response name.
pub const POLICIES_MAX: usize = 16;
/// The longest name of a policy, in bytes; a longer one is cut at the end of a character.
pub const NAME_BYTES_MAX: usize = 128;

/// A limit, and what remains of it for the client.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Policy<'a> {
    pub(crate) rule: &'a Arc<RuleName>,
    /// [`display_name`]: not encoded.
    pub(crate) name: &'a str,
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
/// of a request is one policy, with the values of the key that denied, or else of its scarcest.
pub(crate) fn policies(answer: &Answer) -> PerDescriptor<Policy<'_>> {
    let enforced = answer
        .limited()
        .filter(|limited| limited.enforcement != Enforcement::Shadow);
    // The limit that denied is among the others.
    let most = answer.statuses.len().min(POLICIES_MAX);
    let mut policies: PerDescriptor<Policy<'_>> = PerDescriptor::with_capacity(most);
    // How long to wait is that of the key that denied, however little remains of another.
    let kept = usize::from(answer.denied_by().is_some());
    for limited in answer.denied_by().into_iter().chain(enforced) {
        let policy = Policy::of(limited);
        let known = policies.iter().position(|other| other.is_same(&policy));
        match known {
            Some(index) if index >= kept && policy.remaining < policies[index].remaining => {
                policies[index] = policy;
            }
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
    encode_name(display_name(limited))
}

/// The name that headers have for [`display_name`].
pub(crate) fn encode_name(name: &str) -> Cow<'_, str> {
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
            rule: &limited.rule,
            name: display_name(limited),
            limit: &limited.limit,
            remaining: limited.remaining(),
            effective,
        }
    }

    /// Whether a client could not tell the two apart.
    fn is_same(&self, other: &Policy<'_>) -> bool {
        // Names often begin alike, and every policy is compared with all others.
        let end = |name: &str| (name.len(), name.as_bytes().last().copied());
        end(self.name) == end(other.name) && self.name == other.name && self.limit == other.limit
    }
}
