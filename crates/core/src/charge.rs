//! One limit's part in a request.

use std::fmt;

use crate::cost::Cost;
use crate::key::Key;
use crate::limit::Limit;
use crate::sharing::{Mode, Sharing};

/// The most charges that one request may carry.
pub const CHARGES_MAX: usize = 128;
/// The most former limits that a rule remembers: half of the revisions that are distinguishable, so
/// that the other half is recognised as later ([`LimitHistory::is_later`]).
///
/// A state that is older than that is read as if its limit had not changed.
pub const LIMIT_HISTORY_MAX: usize = 127;

/// One limit, the key that it counts, and the cost: what a store decides on.
#[derive(Clone, Copy, Debug)]
pub struct Charge<'a> {
    /// What is counted.
    pub key: Key,
    /// How much is allowed.
    pub limit: &'a Limit,
    /// The limits that this rule had before.
    pub history: &'a LimitHistory,
    /// The units that the request consumes.
    pub cost: Cost,
    /// What a denial by this limit does.
    pub enforcement: Enforcement,
    /// What the request's denial costs this limit.
    pub on_denial: OnDenial,
    /// How several instances share the limit.
    pub sharing: Sharing,
    /// Whether the limit is known to be the one in effect. Otherwise, which is the default, a
    /// decision that meets a state made under a later limit of the rule ends with
    /// [`crate::StoreError::Superseded`].
    pub is_current: bool,
}

/// What a limit's denial does to the request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Enforcement {
    /// Denies it.
    #[default]
    Enforce,
    /// Nothing: it is judged, and charged only if it allows the request.
    Shadow,
    /// Denies it only if every limit of this kind in the request denies it.
    Quota,
}

/// What a denied request costs a limit that it met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnDenial {
    /// Nothing.
    #[default]
    Keep,
    /// Its cost, up to "exhausted now"; one that never fits exhausts the limit.
    Charge,
}

/// Which denied requests are charged to the limits that they met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ChargeDenied {
    /// None.
    #[default]
    Never,
    /// Those whose cost is above 1: such a cost usually reports what was already consumed, as the
    /// tokens of an answer, and a budget that forgets it never ends.
    Excess,
    /// All.
    Always,
}

/// The limits that a rule had before the one it has now, oldest first.
///
/// A store writes down under which of them a state was made ([`LimitHistory::revision`]), so that a
/// state made under a former limit is converted, not lost and not misread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitHistory {
    /// How often the limit has changed, modulo 256.
    revision: u8,
    limits: Vec<Limit>,
}

// === impl Enforcement ===

impl Enforcement {
    /// Its name in reports: `enforce`, `shadow` or `quota`.
    pub const fn name(self) -> &'static str {
        match self {
            Enforcement::Enforce => "enforce",
            Enforcement::Shadow => "shadow",
            Enforcement::Quota => "quota",
        }
    }
}

// === impl Charge ===

impl<'a> Charge<'a> {
    /// `cost` on `key` under `limit`, enforced and shared strictly, of a rule that was never
    /// changed.
    pub const fn new(key: Key, limit: &'a Limit, cost: Cost) -> Charge<'a> {
        Charge {
            key,
            limit,
            history: LimitHistory::none(),
            cost,
            enforcement: Enforcement::Enforce,
            on_denial: OnDenial::Keep,
            sharing: Sharing::in_mode(Mode::Strict),
            is_current: false,
        }
    }

    /// The same charge of a limit that instances share this way.
    pub const fn shared(self, sharing: Sharing) -> Charge<'a> {
        Charge { sharing, ..self }
    }

    /// Whether a state of this revision was made under a later limit of the rule than this charge
    /// has, so that this decision must not touch it: nothing is ever converted backwards.
    pub const fn is_superseded_by(&self, revision: u8) -> bool {
        !self.is_current && self.history.is_later(revision)
    }

    /// What this limit's own denial costs it if it is the only one on the request: the denial of a
    /// shadow limit denies no request.
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

    /// What the denial of a request with this cost does.
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
    /// The past of a rule that was never changed.
    pub const fn none() -> &'static LimitHistory {
        static NONE: LimitHistory = LimitHistory {
            revision: 0,
            limits: Vec::new(),
        };
        &NONE
    }

    /// What a state made now is marked with.
    pub const fn revision(&self) -> u8 {
        self.revision
    }

    /// The limit under which a state of this revision was made; `None` if it is the present one or
    /// is no longer remembered.
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

    /// Whether a state of this revision was made under a later limit than the present one.
    ///
    /// Revisions wrap, so this is an order by the shorter way round: a state that met none of the
    /// last 128 changes looks later than it is, as does one of a rule that was removed and
    /// forgotten since. A caller that finds no later rules says so with
    /// [`Charge::is_current`], and then the state is read as if its limit had not changed.
    pub const fn is_later(&self, revision: u8) -> bool {
        revision.wrapping_sub(self.revision).wrapping_sub(1) <= i8::MAX.cast_unsigned()
    }

    /// The same past with every limit changed alike: a store that keeps a part of each limit
    /// remembers parts of the former ones.
    pub fn map(&self, change: impl FnMut(&Limit) -> Limit) -> LimitHistory {
        LimitHistory {
            revision: self.revision,
            limits: self.limits.iter().map(change).collect(),
        }
    }

    /// The past of a rule whose limit has just changed from `former`.
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
