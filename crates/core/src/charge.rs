//! A charge: what a request consumes of one limit.

use std::fmt;

use crate::cost::Cost;
use crate::key::Key;
use crate::limit::Limit;
use crate::sharing::{Mode, Sharing};
use crate::span::Span;

/// The maximum number of charges of a request.
pub const CHARGES_MAX: usize = 128;
/// The maximum number of former limits that a rule remembers: half of the distinguishable
/// revisions, so that the other half can be recognised as later ([`LimitHistory::has`]).
///
/// Older state is read as if its limit had not changed.
pub const LIMIT_HISTORY_MAX: usize = 127;

/// A limit, the key that it counts, and a cost: what a store decides on.
#[derive(Clone, Copy, Debug)]
pub struct Charge<'a> {
    /// The counter.
    pub key: Key,
    /// The limit in effect.
    pub limit: &'a Limit,
    /// The rule's former limits.
    pub history: &'a LimitHistory,
    /// The units to consume, peek at or refund.
    pub cost: Cost,
    /// What a denial by this limit does to the request.
    pub enforcement: Enforcement,
    /// What is charged to this limit if the request is denied.
    pub on_denial: OnDenial,
    /// How several instances share the limit.
    pub sharing: Sharing,
    /// How this limit was found.
    pub resolution: Resolution,
}

/// How the limits of a request were found: for the first time, or again after
/// [`crate::StoreError::Superseded`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Resolution {
    /// For the first time. A decision that finds state made under a later limit of the rule fails
    /// with [`crate::StoreError::Superseded`].
    #[default]
    First,
    /// Again, as the rules were replaced meanwhile. State of a later limit is rejected as before.
    ///
    /// A store that had no answer for the first time is not asked again: the request has spent the
    /// time that it may wait, and may have been charged.
    Again,
    /// As [`Resolution::Again`], and the rules have not changed since: state that looks as if it
    /// were of later ones is read as if its limit had not changed.
    Latest,
}

/// What a denial by a limit does to the request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Enforcement {
    /// The request is denied.
    #[default]
    Enforce,
    /// Nothing: the limit is evaluated, and charged only if the cost fits.
    Shadow,
    /// The request is denied only if every quota limit of the request denies it.
    Quota,
}

/// What a denied request is charged to a limit that it met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnDenial {
    /// Nothing.
    #[default]
    Keep,
    /// Its cost, as far as it fits; a cost that never fits exhausts the limit.
    Charge,
}

/// Which denied requests are charged to the limits that they met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ChargeDenied {
    /// None.
    #[default]
    Never,
    /// Those with a cost above 1. Such a cost usually reports what was consumed already, such as
    /// the tokens of a response; if it were not charged, the budget would never be exhausted.
    Excess,
    /// All.
    Always,
}

/// The former limits of a rule, oldest first.
///
/// A store records with each state the revision of the limit that made it
/// ([`LimitHistory::revision`]), so that state of a former limit is migrated, not lost or misread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitHistory {
    /// How often the limit has changed, modulo 256.
    revision: u8,
    limits: Vec<Limit>,
}

// === impl Resolution ===

impl Resolution {
    /// The next one after [`crate::StoreError::Superseded`]; `is_unchanged` says whether the limits
    /// in effect are still the same.
    pub const fn after(is_unchanged: bool) -> Resolution {
        match is_unchanged {
            true => Resolution::Latest,
            false => Resolution::Again,
        }
    }

    /// Whether this is [`Resolution::First`].
    pub const fn is_first(self) -> bool {
        matches!(self, Resolution::First)
    }

    /// Whether this is [`Resolution::Latest`].
    pub const fn is_latest(self) -> bool {
        matches!(self, Resolution::Latest)
    }
}

// === impl Enforcement ===

impl Enforcement {
    /// How long a request is delayed that the limit would delay for so long: a shadow limit changes
    /// nothing that a client sees.
    pub(crate) const fn delay(self, delay: Span) -> Span {
        match self {
            Enforcement::Shadow => Span::ZERO,
            Enforcement::Enforce | Enforcement::Quota => delay,
        }
    }

    /// Its name in reports: `enforce`, `shadow` or `quota`.
    pub const fn name(self) -> &'static str {
        match self {
            Enforcement::Enforce => "enforce",
            Enforcement::Shadow => "shadow",
            Enforcement::Quota => "quota",
        }
    }

    /// What is unusual about it, in reports; `None` if a denial denies the request.
    pub const fn note(self) -> Option<&'static str> {
        match self {
            Enforcement::Enforce => None,
            Enforcement::Shadow => Some("never denies a request"),
            Enforcement::Quota => Some("denies only if all quotas do"),
        }
    }

    /// The one of two that denies more requests.
    #[must_use]
    pub(crate) const fn stricter(self, other: Enforcement) -> Enforcement {
        match (self, other) {
            (Enforcement::Enforce, _) | (_, Enforcement::Enforce) => Enforcement::Enforce,
            (Enforcement::Quota, _) | (_, Enforcement::Quota) => Enforcement::Quota,
            (Enforcement::Shadow, Enforcement::Shadow) => Enforcement::Shadow,
        }
    }
}

// === impl Charge ===

impl<'a> Charge<'a> {
    /// A charge of `cost` to `key` under `limit`: enforced, in strict mode, without former limits.
    pub const fn new(key: Key, limit: &'a Limit, cost: Cost) -> Charge<'a> {
        Charge {
            key,
            limit,
            history: LimitHistory::none(),
            cost,
            enforcement: Enforcement::Enforce,
            on_denial: OnDenial::Keep,
            sharing: Sharing::in_mode(Mode::Strict),
            resolution: Resolution::First,
        }
    }

    /// The same charge with another [`Sharing`].
    pub const fn shared(self, sharing: Sharing) -> Charge<'a> {
        Charge { sharing, ..self }
    }

    /// Whether state of this revision was made under a limit that this charge does not know, such
    /// as a later one. The decision must not touch it: state is never migrated to an older limit.
    pub fn is_superseded_by(&self, revision: u8) -> bool {
        !self.resolution.is_latest() && !self.history.has(revision)
    }

    /// What is charged if this limit is the only one on the request and its cost does not fit. A
    /// shadow limit denies no request, so nothing is.
    pub const fn on_own_denial(&self) -> OnDenial {
        match self.enforcement {
            Enforcement::Shadow => OnDenial::Keep,
            _ => self.on_denial,
        }
    }
}

// === impl ChargeDenied ===

impl ChargeDenied {
    /// Every value, in order.
    pub const ALL: [ChargeDenied; 3] = [
        ChargeDenied::Never,
        ChargeDenied::Excess,
        ChargeDenied::Always,
    ];

    /// What is charged for a denied request with this cost.
    pub const fn on_denial(self, cost: Cost) -> OnDenial {
        match (self, cost) {
            (ChargeDenied::Always, _) | (ChargeDenied::Excess, Cost::Take(2..)) => OnDenial::Charge,
            (ChargeDenied::Never | ChargeDenied::Excess, _) => OnDenial::Keep,
        }
    }
}

impl fmt::Display for ChargeDenied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ChargeDenied::Never => "never",
            ChargeDenied::Excess => "excess",
            ChargeDenied::Always => "always",
        })
    }
}

// === impl LimitHistory ===

impl LimitHistory {
    /// The history of a rule that never changed.
    pub const fn none() -> &'static LimitHistory {
        static NONE: LimitHistory = LimitHistory {
            revision: 0,
            limits: Vec::new(),
        };
        &NONE
    }

    /// The revision of the present limit, which a store records with each state.
    pub const fn revision(&self) -> u8 {
        self.revision
    }

    /// The former limit of this revision; `None` if it is the present one or too old to be known.
    pub fn limit_at(&self, revision: u8) -> Option<&Limit> {
        let changes_ago = usize::from(self.revision.wrapping_sub(revision));
        if changes_ago == 0 {
            return None;
        }
        self.limits
            .len()
            .checked_sub(changes_ago)
            .map(|index| &self.limits[index])
    }

    /// The former limits since `revision`, oldest first: the limit of that revision, and those that
    /// replaced it before the present one. `None` if it is too old to be known.
    pub fn limits_since(&self, revision: u8) -> Option<&[Limit]> {
        let changes = usize::from(self.revision.wrapping_sub(revision));
        let first = self.limits.len().checked_sub(changes)?;
        Some(&self.limits[first..])
    }

    /// Whether the limit of this revision is known: the present one, or a former one.
    ///
    /// Later ones are not, up to 128 changes, as revisions wrap; nor is one that is more changes
    /// old than are kept, or that of a rule which was removed and added again. A caller that knows
    /// that there are no later rules sets [`Resolution::Latest`]; the state of an unknown one is
    /// then read as if its limit had not changed.
    pub fn has(&self, revision: u8) -> bool {
        usize::from(self.revision.wrapping_sub(revision)) <= self.limits.len()
    }

    /// The same history with `change` applied to every limit, for a store that counts a share of
    /// each limit.
    pub fn map(&self, change: impl FnMut(&Limit) -> Limit) -> LimitHistory {
        LimitHistory {
            revision: self.revision,
            limits: self.limits.iter().map(change).collect(),
        }
    }

    /// This history after one more change, away from `former`.
    pub fn and(&self, former: Limit) -> LimitHistory {
        let surplus = (self.limits.len() + 1).saturating_sub(LIMIT_HISTORY_MAX);
        let mut limits = self.limits[surplus..].to_vec();
        limits.push(former);
        LimitHistory {
            revision: self.revision.wrapping_add(1),
            limits,
        }
    }
}
