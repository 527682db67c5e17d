//! The end of a run: everything recovers, and every counter is checked.

use tokio::time::{Duration, sleep};
use tollgate_core::{Charge, Cost, Decision, Limit, Mode, Sharing};
use tollgate_redis::LEASE_LASTS;

use super::{Arc, Part, RequestInFlight, Runner, rules_file};
use crate::account::Account;

/// How long after the last step requests in flight may take.
const SETTLING: Duration = Duration::from_secs(3);
/// By when leases have expired or been returned, and local counts are reported. A used lease is
/// renewed once before it ends, without a request, and is returned shortly before it ends again.
const QUIET: Duration = Duration::from_nanos(2 * LEASE_LASTS.as_nanos());
/// The longest time for a peek of the audit.
const AUDIT_ATTEMPTS: usize = 50;

impl Runner {
    /// Ends all faults, waits until nothing is in flight, and checks every counter.
    pub(super) async fn audit(&mut self) {
        self.world.note("all is well");
        self.world.account().recover(self.world.now());
        self.world.redis().heal();
        self.world.network.heal();
        for place in 0..self.instances.len() {
            if self.instances[place].is_none() {
                self.start(place);
            }
        }
        sleep(SETTLING).await;
        self.peek_everywhere().await;
        sleep(SETTLING).await;
        self.ask_everywhere().await;
        let now = self.world.now();
        self.world.account().close(now);
        sleep(QUIET).await;
        for counter in 0..self.plan.counters.len() {
            if let Some(decision) = self.peek(counter).await {
                let now = self.world.now();
                self.world.account().audit(counter, now, &decision);
            }
        }
        self.audit_late().await;
    }

    /// Has every instance look at every counter. What this finds of a fault is not judged: scripts
    /// that were flushed are loaded only then, and a state from a future time begins to expire.
    async fn peek_everywhere(&self) {
        for instance in self.instances.iter().flatten() {
            for counter in 0..self.plan.counters.len() {
                let part = Part {
                    counter,
                    version: 0,
                    cost: Cost::Peek(1),
                };
                let request = rules_file::request(&self.plan, &[part], false);
                let _whatever_it_says = instance.decide(&request, None).await;
            }
        }
    }

    /// Has every instance decide on every counter, one after the other, as its rules say: whatever
    /// happened before, Redis must decide, and learn of it.
    async fn ask_everywhere(&mut self) {
        for instance in self.instances.clone().into_iter().flatten() {
            for counter in 0..self.plan.counters.len() {
                let part = Part {
                    counter,
                    version: 0,
                    cost: Cost::ONE,
                };
                let asked = RequestInFlight {
                    number: self.next_number(),
                    parts: vec![part],
                    has_priority: false,
                    settles: None,
                    cancel: None,
                    plan: Arc::clone(&self.plan),
                };
                let world = Arc::clone(&self.world);
                asked.decide(world, instance.clone()).await;
            }
        }
    }

    /// Checks again when all state must have expired.
    async fn audit_late(&mut self) {
        self.bury_all();
        let memory = Duration::from_nanos(Account::memory(&self.plan));
        let debts = self.world.account().debts();
        tokio::time::advance(memory * debts + QUIET).await;
        let has_set_clocks = self.clocks_set > 0;
        if !has_set_clocks {
            self.audit_names();
        }
        self.instances = vec![None];
        self.start(0);
        if has_set_clocks {
            // A state from a future time begins to expire only when it is read: from then on its
            // limit's memory passes.
            for counter in 0..self.plan.counters.len() {
                let _whatever_it_says = self.peek(counter).await;
            }
            self.bury_all();
            tokio::time::advance(memory * debts + QUIET).await;
            self.instances = vec![None];
            self.start(0);
        }
        for counter in 0..self.plan.counters.len() {
            if let Some(decision) = self.peek(counter).await {
                let now = self.world.now();
                self.world
                    .account()
                    .audit_recovered(counter, now, &decision);
            }
        }
        if has_set_clocks {
            // What nobody reads expires by a clock that may be back by so much.
            self.bury_all();
            tokio::time::advance(Duration::from_nanos(self.clocks_set) + QUIET).await;
            self.audit_names();
        }
    }

    /// Checks that Redis has no keys any more.
    fn audit_names(&self) {
        let left = self.world.redis().names();
        if !left.is_empty() {
            let now = self.world.now();
            let why = format!("Redis still remembers {left:?}");
            self.world.account().fail(now, &why);
        }
    }

    /// Kills all instances.
    fn bury_all(&mut self) {
        for instance in std::mem::take(&mut self.instances).into_iter().flatten() {
            self.world.bury(instance.number);
        }
    }

    /// Redis's answer to a peek under the counter's largest limit.
    async fn peek(&mut self, counter: usize) -> Option<Decision> {
        let instance = self.instances.iter().flatten().next()?.clone();
        let plan = &self.plan.counters[counter];
        let limit: &Limit = plan.limits.iter().max_by_key(|limit| limit.capacity())?;
        let limit = if plan.limits.len() == 1 {
            limit
        } else {
            &plan.limits[0]
        };
        let limit = limit.whole();
        let charge = Charge::new(self.keys[counter], &limit, Cost::Peek(1));
        for _ in 0..AUDIT_ATTEMPTS {
            let charge = charge.shared(Sharing::in_mode(Mode::Strict));
            let verdict = instance.redis.decide(&[charge]).await;
            if let Ok(verdict) = verdict {
                let decision = verdict.decisions[0];
                self.world
                    .note(format!("counter {counter} is peeked at: {decision:?}"));
                return Some(decision);
            }
            sleep(Duration::from_millis(100)).await;
        }
        let now = self.world.now();
        let why = format!("counter {counter}: no answer to a peek although all is well");
        self.world.account().fail(now, &why);
        None
    }
}
