//! What the draft's headers say of limits whatever remains of them: their names, and the whole of
//! `RateLimit-Policy`.
//!
//! Nearly all answers of a route have the same limits, in the same order. Each thread therefore
//! keeps these texts for the lists of limits that it has met lately, so that nothing is shared
//! between threads. A list is recognised by the addresses of the names of its rules, which live as
//! long as it is kept, and by its limits, which a request may bring itself.

use std::cell::RefCell;
use std::sync::Arc;

use http::HeaderValue;
use tollgate_core::{Limit, RuleName};

use crate::policy::{POLICIES_MAX, Policy, encode_name};

/// The most lists of limits whose texts a thread keeps. Each has a place by the address of its
/// first rule's name, and replaces what is there.
const LISTS_MAX: usize = 1 << LISTS_BITS;
const LISTS_BITS: u32 = 7;
/// An odd number with as many ones as zeroes, in no order: 2^64 over the golden ratio.
const ODD: u64 = 0x9e37_79b9_7f4a_7c15;
/// Bytes beside the name that an item seldom exceeds.
const ITEM_BYTES: usize = 64;

/// The texts of a list of policies.
pub(crate) struct PolicyTexts {
    /// The list. Its length is at most [`POLICIES_MAX`].
    policies: Vec<(Arc<RuleName>, Limit)>,
    /// The names as strings of structured fields, one after the other.
    names: String,
    /// Where each of them ends.
    ends: Vec<usize>,
    /// The value of `RateLimit-Policy`.
    pub(crate) policy: HeaderValue,
}

/// What a thread keeps.
struct Kept {
    lists: [Option<Box<PolicyTexts>>; LISTS_MAX],
    /// Where values are written, before they are copied to a size that fits.
    buffer: String,
}

thread_local! {
    static KEPT: RefCell<Kept> = const {
        RefCell::new(Kept {
            lists: [const { None }; LISTS_MAX],
            buffer: String::new(),
        })
    };
}

/// Calls `then` with the texts of these policies, at least one, and an empty buffer.
pub(crate) fn with_texts<T>(
    policies: &[Policy<'_>],
    then: impl FnOnce(&PolicyTexts, &mut String) -> T,
) -> T {
    KEPT.with_borrow_mut(|Kept { lists, buffer }| {
        let kept = &mut lists[place(policies)];
        let texts = match kept {
            Some(texts) if texts.are_of(policies) => texts,
            _ => kept.insert(Box::new(PolicyTexts::new(policies, buffer))),
        };
        buffer.clear();
        then(texts, buffer)
    })
}

/// Where the texts of these policies are.
fn place(policies: &[Policy<'_>]) -> usize {
    let first = policies.first().map_or(0, |policy| address(policy.rule));
    let seed = u64::try_from(first + policies.len()).unwrap_or(u64::MAX);
    usize::try_from(seed.wrapping_mul(ODD) >> (u64::BITS - LISTS_BITS)).unwrap_or(0)
}

fn address(rule: &Arc<RuleName>) -> usize {
    Arc::as_ptr(rule).addr()
}

// === impl PolicyTexts ===

impl PolicyTexts {
    /// The texts of these policies. What `buffer` contains is lost.
    fn new(policies: &[Policy<'_>], buffer: &mut String) -> PolicyTexts {
        debug_assert!(policies.len() <= POLICIES_MAX, "policies are bounded");
        let (mut names, mut ends) = (String::new(), Vec::with_capacity(policies.len()));
        buffer.clear();
        for policy in policies {
            let start = names.len();
            string(&encode_name(policy.name), &mut names);
            ends.push(names.len());
            separate(buffer);
            buffer.push_str(&names[start..]);
            write_terms(policy.limit, buffer);
        }
        let listed = policies.iter();
        PolicyTexts {
            policies: listed
                .map(|policy| (Arc::clone(policy.rule), *policy.limit))
                .collect(),
            names,
            ends,
            policy: value(buffer),
        }
    }

    fn are_of(&self, policies: &[Policy<'_>]) -> bool {
        self.policies.len() == policies.len()
            && self
                .policies
                .iter()
                .zip(policies)
                .all(|((rule, limit), policy)| {
                    Arc::ptr_eq(rule, policy.rule) && limit == policy.limit
                })
    }

    /// The value of `RateLimit` for these policies, of which these are the texts. It is written
    /// into `buffer`, which must be empty.
    pub(crate) fn remaining(&self, policies: &[Policy<'_>], buffer: &mut String) -> HeaderValue {
        buffer.reserve(self.names.len() + policies.len() * ITEM_BYTES);
        let mut start = 0;
        for (policy, end) in policies.iter().zip(&self.ends) {
            separate(buffer);
            buffer.push_str(&self.names[start..*end]);
            push(buffer, ";r=", policy.remaining);
            push(buffer, ";t=", policy.effective.as_secs_ceil());
            start = *end;
        }
        value(buffer)
    }
}

/// Separates an item of a list from those before it, if there are any.
fn separate(list: &mut String) {
    if !list.is_empty() {
        list.push_str(", ");
    }
}

fn write_terms(limit: &Limit, out: &mut String) {
    push(out, ";q=", limit.count());
    push(out, ";w=", limit.window().as_secs_ceil());
    if limit.nominal() != limit.count() {
        push(out, ";tollgate-burst=", limit.nominal());
    }
}

/// Writes a parameter. Every response has several, and `write!` takes ten times as long.
fn push(out: &mut String, name: &str, value: impl itoa::Integer) {
    out.push_str(name);
    out.push_str(itoa::Buffer::new().format(value));
}

/// A copy of its exact size: the text itself would be kept with a counter beside it.
fn value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).expect("names are encoded to visible ASCII, the rest is digits")
}

/// Writes a string of structured fields, in quotes. A name is visible ASCII and spaces already.
fn string(name: &str, out: &mut String) {
    out.push('"');
    for char in name.chars() {
        if matches!(char, '"' | '\\') {
            out.push('\\');
        }
        out.push(char);
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use http::HeaderMap;
    use tollgate_core::{Decision, Status};

    use super::*;
    use crate::headers::tests::{allowed_answer, grant, limited, minute};
    use crate::headers::{RATE_LIMIT, RATE_LIMIT_POLICY, headers};

    fn texts_of(statuses: &[&Status]) -> String {
        let statuses = statuses.iter().map(|status| (*status).clone());
        let mut map = HeaderMap::new();
        headers(&allowed_answer(statuses.collect()), &mut map);
        let text = |name| map[name].to_str().unwrap().to_owned();
        format!("{} | {}", text(&RATE_LIMIT), text(&RATE_LIMIT_POLICY))
    }

    /// The same rule with another limit and decision.
    fn again(status: &Status, limit: Limit, decision: Decision) -> Status {
        let Status::Limited(one) = status else {
            panic!("{status:?} has no limit");
        };
        let mut other = one.clone();
        (other.limit, other.decision) = (limit, decision);
        Status::Limited(other)
    }

    #[test]
    fn texts_that_are_kept_are_those_of_the_list_and_its_limits() {
        let a = limited("a", minute(10), grant(9, 1_000));
        let b = limited("b", minute(20), grant(19, 2_000));
        let larger = again(&a, minute(30), grant(29, 3_000));
        let used = again(&a, minute(10), grant(8, 4_000));
        let (of_a, of_b) = (r#""a";q=10;w=60"#, r#""b";q=20;w=60"#);
        for _ in 0..3 {
            assert_eq!(texts_of(&[&a]), format!(r#""a";r=9;t=1 | {of_a}"#));
            assert_eq!(texts_of(&[&used]), format!(r#""a";r=8;t=4 | {of_a}"#));
            let more = r#""a";r=29;t=3 | "a";q=30;w=60"#;
            assert_eq!(texts_of(&[&larger]), more);
            let both = format!(r#""a";r=9;t=1, "b";r=19;t=2 | {of_a}, {of_b}"#);
            assert_eq!(texts_of(&[&a, &b]), both);
            let both = format!(r#""b";r=19;t=2, "a";r=8;t=4 | {of_b}, {of_a}"#);
            assert_eq!(texts_of(&[&b, &used]), both);
        }
    }

    #[test]
    fn the_texts_that_a_thread_keeps_are_bounded() {
        for index in 0..10 * LISTS_MAX {
            let name = format!("rule {index}");
            let status = limited(&name, minute(10), grant(9, 1_000));
            let text = format!("\"{name}\";r=9;t=1 | \"{name}\";q=10;w=60");
            assert_eq!(texts_of(&[&status]), text);
        }
        let kept = KEPT.with_borrow(|kept| kept.lists.iter().flatten().count());
        assert!(kept <= LISTS_MAX);
        // The addresses of that many rules lead to most places.
        assert!(kept > LISTS_MAX / 4, "{kept}");
    }
}
