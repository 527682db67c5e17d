//! From a request to its answer: the one path that every protocol takes.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, Guard};
use serde_json::{Map, Value};
use tollgate_core::{Answer, DecidedBy, Request, Resolution, Store, StoreError, Verdict};
use tollgate_memory::Stats;
use tollgate_rules::{Attempt, ReservedPart, Resolved, RuleSet};

use crate::decisions::{Decisions, Series};
use crate::denied_requests::{DENIED_REQUESTS, DeniedRequests};
use crate::headroom::{CurrentHeadroom, HeadroomReports, HostHeadroom, UpstreamHeadroom};
use crate::hot_keys::HotKeyCounts;
use crate::outcome::{Outcome, ReloadCounts, Reloads};
use crate::reload_history::ReloadHistory;
use crate::reservation_table::{ReservationBounds, ReservationTable};
use crate::stores::{DomainStore, StoreSnapshot, Stores};

mod at_once;

mod batch;

mod reservation;

pub use reservation::{
    OwnedReservation, RESERVED_LIMITS_MAX, ReservationReceipt, ReserveError, SettleError,
    SettledLimit,
};

/// Rules, and the stores that count under them.
///
/// The rules are replaced as a whole: a decision sees the old ones or the new ones.
pub struct Engine {
    pub(crate) rules: ArcSwap<ActiveRules>,
    /// How often the rules were replaced.
    replacements: AtomicU64,
    stores: Arc<Stores>,
    decisions: Decisions,
    reloads: Reloads,
    pub(crate) reload_history: ReloadHistory,
    reservations: ReservationTable<ReservedPart>,
    pub(crate) denied_requests: DeniedRequests,
    pub(crate) hot_keys: HotKeyCounts,
    pub(crate) headroom_reports: HeadroomReports,
    pub(crate) host_headroom: HostHeadroom,
    pub(crate) upstream_headroom: UpstreamHeadroom,
}

/// The answer to a request, and the metadata of its rules.
#[derive(Clone, Debug, PartialEq)]
#[must_use = "an answer nobody reads enforces nothing"]
pub struct Decided {
    /// The answer.
    pub answer: Answer,
    /// The metadata of the rules that allow the request, merged.
    pub metadata: Option<Map<String, Value>>,
    /// What a refund of this request has to know.
    pub charged_by: ChargedBy,
}

/// Where a request was charged, and under which rules, for [`Engine::refund`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChargedBy {
    /// What has decided.
    pub decided_by: DecidedBy,
    rules_version: u64,
}

/// The rules in effect, and where each of them is counted.
pub(crate) struct ActiveRules {
    pub(crate) rules: RuleSet,
    series: Series,
    rule_count: usize,
    /// No other rules of this process have it.
    version: u64,
}

// === impl Engine ===

impl Engine {
    /// An engine over `stores`, without rules yet.
    pub fn new(stores: Stores) -> Engine {
        let decisions = Decisions::default();
        let active = ActiveRules::new(RuleSet::default(), &decisions, 0);
        Engine {
            rules: ArcSwap::from_pointee(active),
            replacements: AtomicU64::new(0),
            stores: Arc::new(stores),
            decisions,
            reloads: Reloads::default(),
            reload_history: ReloadHistory::default(),
            reservations: ReservationTable::new(ReservationBounds::default()),
            denied_requests: DeniedRequests::new(DENIED_REQUESTS),
            hot_keys: HotKeyCounts::new(),
            headroom_reports: HeadroomReports::default(),
            host_headroom: HostHeadroom::default(),
            upstream_headroom: UpstreamHeadroom::default(),
        }
    }

    /// The same engine with other bounds for reservations, of which there must be none yet.
    #[must_use]
    pub fn with_reservations(self, bounds: ReservationBounds) -> Engine {
        Engine {
            reservations: ReservationTable::new(bounds),
            ..self
        }
    }

    /// The same engine that keeps at most about `max` denied requests, none for 0.
    #[must_use]
    pub fn with_denied_requests(self, max: usize) -> Engine {
        Engine {
            denied_requests: DeniedRequests::new(max),
            ..self
        }
    }

    /// Decides on a request, and charges it if it is allowed.
    ///
    /// A leaky bucket's delay is part of the answer; nothing is delayed here.
    ///
    /// # Errors
    ///
    /// [`StoreError`] when the store has no answer and no fallback applies. A denial is an answer.
    pub async fn decide(&self, request: &Request<'_>) -> Result<Decided, StoreError> {
        self.decide_until_current(request, None).await
    }

    /// As [`Engine::decide`], and measures how long the store takes: it is added to `store_time`.
    ///
    /// # Errors
    ///
    /// As [`Engine::decide`].
    pub async fn decide_timed(
        &self,
        request: &Request<'_>,
        store_time: &mut Duration,
    ) -> Result<Decided, StoreError> {
        self.decide_until_current(request, Some(store_time)).await
    }

    /// Decides, and again if the rules are replaced meanwhile.
    async fn decide_until_current(
        &self,
        request: &Request<'_>,
        store_time: Option<&mut Duration>,
    ) -> Result<Decided, StoreError> {
        let store = &self.stores.of(request.domain_name()).store;
        match store {
            DomainStore::Memory(memory) => self.decide_in(memory.memory(), request, store_time),
            DomainStore::Shared(_) => {
                let first = Attempt::first(self.rules.load());
                // In a box, because the futures of all requests have room for it, and those that
                // are decided in memory do not need it.
                Box::pin(self.decide_from(first, request, store_time)).await
            }
        }
    }

    /// Decides in this attempt, and again if the rules are replaced meanwhile.
    async fn decide_from(
        &self,
        mut attempt: Attempt<Guard<Arc<ActiveRules>>>,
        request: &Request<'_>,
        mut store_time: Option<&mut Duration>,
    ) -> Result<Decided, StoreError> {
        loop {
            let (active, resolution) = (attempt.rules(), attempt.resolution());
            let store_time = store_time.as_deref_mut();
            let decided = self.decide_under(active, request, resolution, store_time);
            let decided = decided.await;
            match attempt.next(&decided, || self.rules.load()) {
                None => return decided,
                Some(next) => attempt = next,
            }
        }
    }

    /// Decides under these rules, even if they are replaced meanwhile.
    async fn decide_under(
        &self,
        active: &ActiveRules,
        request: &Request<'_>,
        resolution: Resolution,
        store_time: Option<&mut Duration>,
    ) -> Result<Decided, StoreError> {
        let domain = request.domain_name();
        let store = &self.stores.of(domain).store;
        let resolved = active
            .rules
            .resolve_with_headroom(request, store, &self.headroom());
        let charges = resolved.charges_under(resolution);
        let verdict = if charges.is_empty() {
            Verdict::default()
        } else if let Some(store_time) = store_time {
            let began = Instant::now();
            let verdict = store.decide(&charges).await;
            *store_time += began.elapsed();
            verdict?
        } else {
            store.decide(&charges).await?
        };
        Ok(self.conclude(active, request, &resolved, &verdict))
    }

    /// Refunds the units of descriptors with a negative cost, where a request for them was decided:
    /// in the shared store, or in the memory of this process because that had no answer. It is not
    /// counted as a decision.
    ///
    /// If the rules were replaced since, the units stay charged: under another limit they may count
    /// no more, and the refund would be of units that other requests have consumed.
    ///
    /// # Errors
    ///
    /// [`StoreError`] when that store has no answer; the units stay charged.
    pub async fn refund(
        &self,
        request: &Request<'_>,
        charged_by: ChargedBy,
    ) -> Result<(), StoreError> {
        let active = self.rules.load();
        if active.version != charged_by.rules_version {
            return Ok(());
        }
        let store = &self.stores.of(request.domain_name()).store;
        let rules = &active.rules;
        let resolved = rules.resolve_with_headroom(request, store, &self.headroom());
        let charges = resolved.charges_under(Resolution::First);
        match store.refund(&charges, charged_by.decided_by).await {
            // The rules were replaced meanwhile.
            Err(StoreError::Superseded) => Ok(()),
            refunded => refunded.map(drop),
        }
    }

    /// Counts a decision, and makes the answer from it.
    fn conclude(
        &self,
        active: &ActiveRules,
        request: &Request<'_>,
        resolved: &Resolved<'_>,
        verdict: &Verdict,
    ) -> Decided {
        let answer = resolved.answer(verdict);
        let domain = request.domain_name();
        active
            .series
            .count(&self.decisions, domain, resolved, &answer);
        if self.hot_keys.is_watched() {
            self.hot_keys.count(request, resolved, &answer);
        }
        let metadata = resolved.metadata(&answer);
        Decided {
            answer,
            metadata,
            charged_by: ChargedBy {
                decided_by: verdict.decided_by,
                rules_version: active.version,
            },
        }
    }

    /// The rules in effect.
    pub fn rules(&self) -> RuleSet {
        self.rules.load().rules.clone()
    }

    /// How many rules and how many domains are in effect.
    pub fn rule_and_domain_counts(&self) -> (usize, usize) {
        let active = self.rules.load();
        (active.rule_count, active.rules.domains().count())
    }

    /// Replaces the rules, for every decision that begins from now on.
    pub fn replace_rules(&self, rules: RuleSet) {
        // Relaxed: the number alone matters.
        let version = self.replacements.fetch_add(1, Ordering::Relaxed) + 1;
        let active = ActiveRules::new(rules, &self.decisions, version);
        self.rules.store(Arc::new(active));
    }

    /// What the memory of this process holds, and what it has evicted.
    pub fn memory_stats(&self) -> Stats {
        self.stores.memory_stats()
    }

    /// The state of every shared store now, in the order in which they were added.
    pub fn shared_stores(&self) -> Vec<StoreSnapshot<'_>> {
        self.stores.snapshots().collect()
    }

    /// Whether the store of this domain answers; the memory of this process always does.
    pub fn is_store_up(&self, domain: &str) -> bool {
        self.stores.of(Some(domain)).is_up()
    }

    /// Closes every shared store, within [`CLOSE_WITHIN`](crate::CLOSE_WITHIN). Nothing may be
    /// decided afterwards.
    pub async fn close(&self) {
        Arc::clone(&self.stores).close().await;
    }

    /// Visits the count of every domain, rule and outcome that occurred, each combination once.
    ///
    /// # Errors
    ///
    /// The first error of `visit`, which ends the visit.
    pub fn visit_decisions<E>(
        &self,
        visit: impl FnMut(&str, &str, &'static str, u64) -> Result<(), E>,
    ) -> Result<(), E> {
        self.decisions.visit(visit)
    }

    /// How often rules were loaded.
    pub fn reload_counts(&self) -> ReloadCounts {
        self.reloads.counts()
    }

    /// Whether there is headroom now.
    pub(crate) fn headroom(&self) -> CurrentHeadroom<'_> {
        CurrentHeadroom {
            reports: &self.headroom_reports,
            host: &self.host_headroom,
            upstreams: &self.upstream_headroom,
            stores: &self.stores,
        }
    }

    pub(crate) const fn stores(&self) -> &Arc<Stores> {
        &self.stores
    }

    pub(crate) fn count_reload(&self, outcome: Outcome) {
        self.reloads.add(outcome);
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Engine");
        shown.field("stores", &self.stores).finish_non_exhaustive()
    }
}

// === impl ActiveRules ===

impl ActiveRules {
    fn new(rules: RuleSet, decisions: &Decisions, version: u64) -> ActiveRules {
        ActiveRules {
            series: decisions.track(&rules),
            rule_count: rules.rule_count(),
            rules,
            version,
        }
    }
}
