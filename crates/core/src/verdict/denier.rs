//! Which of several limits denies a request.

use std::cmp::Reverse;

use crate::charge::Enforcement;
use crate::decision::Wait;

/// Finds the limit that denies a request, from the wait of each: the first of those with the
/// longest wait.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Denier {
    /// The first with the longest wait, of the enforced limits that deny.
    enforced: Option<(usize, Wait)>,
    /// The first with the shortest wait, of the quotas that deny.
    quota: Option<(usize, Wait)>,
    /// Whether a quota allows the request, which needs only one.
    has_open_quota: bool,
}

// === impl Denier ===

impl Denier {
    /// Adds the limit at `index`, larger than those before. `wait` is `None` if it is not judged,
    /// and contains `None` if it allows the request.
    #[inline]
    pub(super) fn add(&mut self, index: usize, by: Enforcement, wait: Option<Option<Wait>>) {
        let Some(wait) = wait else {
            return;
        };
        match (by, wait) {
            (Enforcement::Shadow, _) | (Enforcement::Enforce, None) => {}
            (Enforcement::Enforce, Some(wait)) => {
                if self.enforced.is_none_or(|(_, longest)| wait > longest) {
                    self.enforced = Some((index, wait));
                }
            }
            (Enforcement::Quota, None) => self.has_open_quota = true,
            (Enforcement::Quota, Some(wait)) => {
                if self.quota.is_none_or(|(_, shortest)| wait < shortest) {
                    self.quota = Some((index, wait));
                }
            }
        }
    }

    /// The limit that denies the request, and its wait; `None` if the request is allowed.
    #[inline]
    pub(super) fn first(self) -> Option<(usize, Wait)> {
        let quota = self.quota.filter(|_| !self.has_open_quota);
        let both = self.enforced.into_iter().chain(quota);
        both.min_by_key(|(index, wait)| (Reverse(*wait), *index))
    }
}
