//! The rule of a charge, found again after a reload.

use std::sync::Arc;

use tollgate_core::{Charge, ChargedLine, Cost, Key, Limit, RuleName, Sharing, Verdict};

use super::{Part, Resolved};
use crate::domain::RuleLimit;
use crate::headroom::Headroom;
use crate::rule_set::RuleSet;

/// The rule that a request was charged to. Later rules have it too, perhaps with another limit.
#[derive(Clone, Debug)]
pub struct ChargedRule {
    name: Arc<RuleName>,
    origin: Origin,
    /// Whether the request had a priority that could use the rule's share.
    has_priority: bool,
}

/// Where the limit is written.
#[derive(Clone, Debug)]
enum Origin {
    /// In a rules file: the rule's identity.
    Rule(Arc<[u8]>),
    /// In the request, so that no reload changes it.
    Request(Limit),
}

// === impl Resolved ===

impl Resolved<'_> {
    /// The rule of each of [`Resolved::charges`], in their order.
    pub fn charged_rules(&self) -> impl Iterator<Item = ChargedRule> {
        self.parts.iter().filter_map(|part| match part {
            Part::Nothing | Part::Unlimited { .. } => None,
            Part::Limited { rule, limit, .. } => Some(ChargedRule {
                name: Arc::clone(&rule.name),
                origin: Origin::Rule(Arc::clone(&rule.identity)),
                has_priority: limit.has_priority(),
            }),
            Part::Overridden { domain, limit, .. } => Some(ChargedRule {
                name: Arc::clone(&domain.overridden),
                origin: Origin::Request(*limit),
                has_priority: false,
            }),
        })
    }

    /// What each counter was charged by this `verdict` on `charges`, those of this request
    /// ([`Verdict::charged_lines`]), with the rule of the first charge on it.
    pub fn charged_lines(
        &self,
        charges: &[Charge<'_>],
        verdict: &Verdict,
    ) -> impl Iterator<Item = (ChargedRule, ChargedLine)> {
        let mut lines = verdict.charged_lines(charges).into_iter().peekable();
        let rules = self.charged_rules().enumerate();
        rules.filter_map(move |(index, rule)| {
            Some((rule, lines.next_if(|line| line.first == index)?))
        })
    }

    /// The index of the descriptor of each of [`Resolved::charges`], in their order.
    pub fn charged_descriptors(&self) -> impl Iterator<Item = usize> {
        let parts = self.parts.iter().enumerate();
        let charged = parts.filter(|(_, part)| part.key().is_some());
        charged.map(|(index, _)| index)
    }
}

// === impl ChargedRule ===

impl ChargedRule {
    /// Its name, under the rules that charged the request.
    pub const fn name(&self) -> &Arc<RuleName> {
        &self.name
    }

    /// A charge of `cost` to `key` by its limit under `rules`, with the priority that the request
    /// had, the `headroom` of now, and the limits that it had before. `None` if it was removed or
    /// does not limit any more.
    ///
    /// It is shared as its rule is, so that a store whose instances count the key locally excludes
    /// it from their counts until it has settled the charge.
    pub fn charge<'r>(
        &'r self,
        (key, cost): (Key, Cost),
        rules: &'r RuleSet,
        headroom: &dyn Headroom,
    ) -> Option<Charge<'r>> {
        let domain = rules.domain(&self.name.domain);
        let identity = match &self.origin {
            Origin::Rule(identity) => identity,
            Origin::Request(limit) => {
                // Without its domain, no instance counts the key.
                let sharing = domain.map_or_else(Sharing::default, |domain| domain.sharing);
                return Some(Charge::new(key, limit, cost).shared(sharing));
            }
        };
        let domain = domain?;
        let rule = domain.rule(identity)?;
        let RuleLimit::Limited { history, .. } = &rule.limit else {
            return None;
        };
        let has_headroom = rule.limit.has_headroom(&domain.name, headroom) == Some(true);
        let limit = rule.limit.view(self.has_priority, has_headroom)?;
        Some(Charge {
            history,
            sharing: rule.sharing,
            ..Charge::new(key, limit, cost)
        })
    }

    /// The rule as bytes, for a store that keeps it until another instance settles what it charged.
    /// `None` for a limit that was part of the request, which has no rule.
    pub fn to_bytes(&self) -> Option<Vec<u8>> {
        let Origin::Rule(identity) = &self.origin else {
            return None;
        };
        let name = &self.name;
        let mut bytes = Vec::new();
        if self.has_priority {
            bytes.extend_from_slice(&WITH_PRIORITY);
        }
        let own = name.name.as_deref().map(str::as_bytes);
        for text in [name.domain.as_bytes(), name.path.as_bytes(), identity] {
            push_text(&mut bytes, text)?;
        }
        // Without this one, it has no name of its own.
        own.map_or(Some(()), |own| push_text(&mut bytes, own))?;
        Some(bytes)
    }

    /// The inverse of [`ChargedRule::to_bytes`]; `None` if these are not such bytes.
    pub fn from_bytes(mut bytes: &[u8]) -> Option<ChargedRule> {
        let has_priority = bytes.starts_with(&WITH_PRIORITY);
        if has_priority {
            bytes = &bytes[WITH_PRIORITY.len()..];
        }
        let domain = take_string(&mut bytes)?;
        let path = take_string(&mut bytes)?;
        let identity = take_text(&mut bytes)?.into();
        let name = match bytes {
            [] => None,
            _ => Some(take_string(&mut bytes)?),
        };
        bytes.is_empty().then(|| ChargedRule {
            name: Arc::new(RuleName { domain, path, name }),
            origin: Origin::Rule(identity),
            has_priority,
        })
    }
}

/// What the bytes of a rule that was charged with priority begin with: no domain has such a
/// length.
const WITH_PRIORITY: [u8; 2] = u16::MAX.to_be_bytes();

/// Writes a text after its length; `None` if it is too long.
fn push_text(bytes: &mut Vec<u8>, text: &[u8]) -> Option<()> {
    let length = u16::try_from(text.len()).ok()?;
    bytes.extend_from_slice(&length.to_be_bytes());
    bytes.extend_from_slice(text);
    Some(())
}

fn take_text<'b>(bytes: &mut &'b [u8]) -> Option<&'b [u8]> {
    let (length, rest) = bytes.split_first_chunk()?;
    let (text, rest) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
    *bytes = rest;
    Some(text)
}

fn take_string(bytes: &mut &[u8]) -> Option<String> {
    String::from_utf8(take_text(bytes)?.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(name: Option<&str>) -> ChargedRule {
        let name = RuleName {
            domain: "d".to_owned(),
            path: String::new(),
            name: name.map(str::to_owned),
        };
        ChargedRule {
            name: Arc::new(name),
            origin: Origin::Rule(b"\0\xff".as_slice().into()),
            has_priority: false,
        }
    }

    #[test]
    fn a_rule_is_read_as_it_was_written() {
        for name in [None, Some(""), Some("tokens")] {
            let bytes = rule(name).to_bytes().expect("it is short");
            let read = ChargedRule::from_bytes(&bytes).expect("these are such bytes");
            assert_eq!(read.name, rule(name).name);
            assert_eq!(read.to_bytes(), Some(bytes.clone()));
            for end in (0..bytes.len()).filter(|end| name.is_none() || *end != 9) {
                assert!(ChargedRule::from_bytes(&bytes[..end]).is_none(), "{end}");
            }
        }
    }

    #[test]
    fn a_rule_that_was_charged_with_priority_is_read_as_one() {
        for has_priority in [false, true] {
            let rule = ChargedRule {
                has_priority,
                ..rule(Some("tokens"))
            };
            let bytes = rule.to_bytes().expect("it is short");
            let read = ChargedRule::from_bytes(&bytes).expect("these are such bytes");
            assert_eq!((read.name, read.has_priority), (rule.name, has_priority));
        }
    }

    #[test]
    fn a_text_that_is_too_long_is_not_written() {
        assert!(rule(Some(&"x".repeat(65_536))).to_bytes().is_none());
    }
}
