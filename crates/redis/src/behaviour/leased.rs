//! Leased units in virtual time: one instance, several, and some that crash.

mod alone;

mod lost_reply;

mod several_limits;

use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;

use tollgate_behaviour::{Random, Rule, Subject, Taste, check, with_grain};
use tollgate_core::{Algorithm, Anchor, Charge, Cost, Ledger, Limit, Mode, Now, Sharing, Span};

use super::{Driven, SINGLE};
use crate::config::Config;
use crate::fit::GRAIN;
use crate::leases::{CHECK_EVERY, LASTS};

/// Steps of one trace: enough to lease, to renew and to run out.
const STEPS: usize = 120;

/// Instances that share one key.
struct Instances {
    instances: Vec<Driven>,
    now: Now,
    /// Decisions on leases of instances that have crashed.
    decided: u64,
}

/// How often instances renew and return their leases.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Care {
    /// As often as they should, so that no lease expires unreported.
    Taken,
    /// Sometimes.
    Neglected,
    /// Sometimes, and some crash.
    SomeDie,
}

// === impl Instances ===

impl Instances {
    fn new(count: usize) -> Instances {
        Instances {
            instances: (0..count).map(|_| Instances::instance()).collect(),
            now: Taste::MICROSECONDS.start,
            decided: 0,
        }
    }

    fn instance() -> Driven {
        Driven::new(&Config::single(SINGLE.address()))
    }

    /// Mostly a short time, rarely longer than the lifetime of a lease.
    fn pass(&mut self, random: &mut Random, care: Care) {
        let most = random.pick(&[1, 50_000, 50_000, 50_000, 1_000_000, 4_000_000]);
        let most = if random.chance(2) { 12_000_000 } else { most };
        let then = self.now.utc + GRAIN.times(random.between(0, most));
        while care == Care::Taken && then.since(self.now.utc) > CHECK_EVERY {
            self.now = Now::at(self.now.utc + CHECK_EVERY);
            (0..self.instances.len()).for_each(|instance| self.renew_due(instance));
        }
        self.now = Now::at(then);
    }

    /// An instance renews and returns its leases, or crashes with them.
    fn disturb(&mut self, random: &mut Random, care: Care) {
        let last = u64::try_from(self.instances.len() - 1).expect("a few");
        let index = usize::try_from(random.between(0, last)).expect("a few");
        if random.chance(10) {
            self.renew_due(index);
        }
        if care == Care::SomeDie && random.chance(2) {
            self.decided += self.instances[index].store.counts().lease_decisions;
            self.instances[index] = Instances::instance();
        }
    }

    fn renew_due(&self, index: usize) {
        let instance = &self.instances[index];
        instance.store.set_now(self.now.utc.as_nanos() / 1_000);
        instance.runtime.block_on(instance.store.renew_due_leases());
    }

    fn close(&mut self) {
        for instance in &self.instances {
            instance.store.set_now(self.now.utc.as_nanos() / 1_000);
            instance.runtime.block_on(instance.store.close());
            let counts = instance.store.counts();
            assert_eq!(counts.leases_held, 0);
            self.decided += counts.lease_decisions;
        }
    }

    /// What remains of the limit in Redis.
    fn remaining(&self, peek: Charge<'_>) -> u32 {
        let verdict = Instances::instance().decide(self.now, &[peek]);
        verdict.decisions[0].remaining()
    }
}

/// A limit of any algorithm that can be leased, large enough for it.
fn limit(random: &mut Random) -> Limit {
    let count = u32::try_from(random.between(16, 300)).expect("at most 300");
    let window = Span::from_millis(random.pick(&[300, 2_000, 9_000, 30_000, 3_600_000]));
    let segment = Span::from_millis(random.pick(&[5_000, 9_000, 30_000, 360_000]));
    let first = Algorithm::FixedWindow(Anchor::FirstRequest);
    let limit = match random.between(0, 4) {
        0 => Limit::fixed_window(count, window),
        1 => Limit::new(first, count, window),
        2 => Limit::sliding_window(count, segment, 1),
        3 => Limit::sliding_window(count, segment.times(10), 10),
        _ => Limit::token_bucket(1, GRAIN.times(window.as_nanos() / 1_000 / u64::from(count)))
            .and_then(|bucket| bucket.with_burst(count)),
    };
    limit.expect("windows are whole microseconds")
}

fn rule(limit: Limit) -> Rule {
    Rule {
        sharing: Sharing::in_mode(Mode::Leased),
        ..Rule::new(limit)
    }
}

fn cost(random: &mut Random) -> Cost {
    Cost::Take(random.pick(&[1, 1, 1, 1, 1, 1, 2, 2, 5, 20]))
}

const fn is_fixed(limit: &Limit) -> bool {
    matches!(limit.algorithm(), Algorithm::FixedWindow(_))
}

/// A single instance decides exactly as in mode `strict`, peeks and refunds included.
#[test]
fn what_one_instance_spends_reads_as_if_it_were_strict() {
    let decided = AtomicU64::new(0);
    check("what_one_instance_spends", 120, |random| {
        let mut instances = Instances::new(1);
        let limit = limit(random).with_soft(random.pick(&[0, 20]));
        let rule = rule(limit.expect("a small part"));
        let key = instances.instances[0].key("only");
        let mut ledger = Ledger::default();
        for step in 0..STEPS {
            instances.pass(random, Care::Taken);
            instances.disturb(random, Care::Taken);
            let cost = match random.between(0, 19) {
                0 => Cost::Refund(random.between(0, 9)),
                1 | 2 => Cost::Peek(random.pick(&[0, 1, 5, 20, 100])),
                _ => cost(random),
            };
            let charge = rule.charge(key, cost);
            let got = instances.instances[0].decide(instances.now, &[charge]);
            let want = ledger.decide(instances.now, &[charge]).expect("one charge");
            assert_eq!(got, with_grain(want, GRAIN), "step {step}: {charge:#?}");
        }
        instances.close();
        decided.fetch_add(instances.decided, Ordering::Relaxed);
    });
    assert!(decided.into_inner() > 1_000, "hardly anything was leased");
}

/// Whatever several instances allow, `strict` would have allowed at that time, after all that was
/// allowed and refunded before; and closing returns the unspent units.
#[test]
fn several_instances_never_allow_what_strict_would_not() {
    let decided = AtomicU64::new(0);
    check(
        "several_instances_never_allow_what_strict_would_not",
        120,
        |random| {
            let mut instances = Instances::new(random.pick(&[1, 2, 3]));
            let care = random.pick(&[Care::Taken, Care::Neglected]);
            trace(random, &mut instances, care);
            decided.fetch_add(instances.decided, Ordering::Relaxed);
        },
    );
    assert!(decided.into_inner() > 2_000, "hardly anything was leased");
}

/// The same if some of them crash with units they hold; these are charged, and expire in time.
#[test]
fn instances_that_die_give_nothing_away() {
    check("instances_that_die_give_nothing_away", 80, |random| {
        let mut instances = Instances::new(random.pick(&[1, 2, 3]));
        trace(random, &mut instances, Care::SomeDie);
    });
}

/// Runs a random trace over several instances. A strict ledger must allow whatever they allow, and
/// must have at least as many units left at the end.
fn trace(random: &mut Random, instances: &mut Instances, care: Care) {
    let rule = rule(limit(random));
    let key = instances.instances[0].key("only");
    let mut ledger = Ledger::default();
    // A window that is refunded to nothing starts again, but not while units of it are leased.
    let begins = Algorithm::FixedWindow(Anchor::FirstRequest);
    let refunds = rule.limit.algorithm() != begins && random.chance(50);
    for step in 0..STEPS {
        instances.pass(random, care);
        instances.disturb(random, care);
        let instance =
            usize::try_from(random.between(0, 2)).expect("a few") % instances.instances.len();
        let cost = match random.between(0, 9) {
            0 if refunds => Cost::Refund(random.between(1, 20)),
            1 => Cost::Peek(random.between(0, 5)),
            _ => cost(random),
        };
        let charge = rule.charge(key, cost);
        let got = instances.instances[instance].decide(instances.now, &[charge]);
        if got.is_allowed() {
            let strict = ledger.decide(instances.now, &[charge]).expect("one charge");
            assert!(strict.is_allowed(), "step {step}: {charge:#?} {strict:#?}");
        }
    }
    instances.close();
    let peek = Rule::new(rule.limit);
    let peek = peek.charge(key, Cost::Peek(1));
    let strict = ledger.decide(instances.now, &[peek]).expect("one charge");
    let (got, want) = (instances.remaining(peek), strict.decisions[0].remaining());
    assert!(got <= want, "{got} of {want} remain: {rule:#?}");
    // What others have spent and not reported is not refunded.
    if is_fixed(&rule.limit) && care == Care::Taken && !refunds {
        assert_eq!(got, want, "all that was not spent is back: {rule:#?}");
    }
    // Everything is returned in the end.
    let memory = match rule.limit.interval() {
        Some(interval) => interval.times(u64::from(rule.limit.capacity())),
        None => rule.limit.window() + rule.limit.window(),
    };
    instances.now = Now::at(instances.now.utc + memory + LASTS);
    assert_eq!(
        instances.remaining(peek),
        rule.limit.capacity(),
        "{rule:#?}"
    );
}

/// A caller that goes away during a renewal leaves the lease to others, and it is returned in the
/// end.
#[test]
fn a_caller_who_goes_away_takes_no_lease_along() {
    let mut instances = Instances::new(1);
    let rule = rule(Limit::fixed_window(100, Span::HOUR).expect("an hour is a window"));
    let key = instances.instances[0].key("only");
    let charge = rule.charge(key, Cost::ONE);
    let now = instances.now;
    assert!(instances.instances[0].decide(now, &[charge]).is_allowed());
    let instance = &instances.instances[0];
    instance.runtime.block_on(async {
        let charges = [charge];
        let mut asking = Box::pin(instance.store.decide(&charges));
        let once = poll_fn(|context| Poll::Ready(asking.as_mut().poll(context)));
        assert!(once.await.is_pending());
        drop(asking);
        while instance.store.counts().units_leased == 0 {
            tokio::task::yield_now().await;
        }
    });
    let asked = instance.store.counts().requests;
    assert!(instances.instances[0].decide(now, &[charge]).is_allowed());
    assert_eq!(instances.instances[0].store.counts().requests, asked);
    instances.close();
    assert_eq!(instances.remaining(charge), 96);
}

/// However many requests an instance has, the others find three quarters of the unspent units.
#[test]
fn a_greedy_instance_leaves_three_quarters_to_others() {
    let mut greedy = Instances::instance();
    let mut other = Instances::instance();
    let (rule, now) = (
        rule(Limit::fixed_window(1_000, Span::HOUR).expect("an hour is a window")),
        Taste::MICROSECONDS.start,
    );
    let key = greedy.key("only");
    let peek = Rule::new(rule.limit);
    let peek = peek.charge(key, Cost::Peek(1));
    for spent in 1..=1_000 {
        let verdict = greedy.decide(now, &[rule.charge(key, Cost::ONE)]);
        assert!(verdict.is_allowed(), "{spent}");
        let found = other.decide(now, &[peek]).decisions[0].remaining();
        assert!(found * 4 >= (1_000 - spent) * 3, "{found} after {spent}");
    }
    let counts = greedy.store.counts();
    assert!(counts.requests < 150, "{} asked", counts.requests);
}

/// A shadow limit that would deny denies nothing, also when leased.
#[test]
fn a_shadow_limit_on_lease_denies_nothing() {
    let mut instance = Instances::instance();
    let mut rule = rule(Limit::fixed_window(40, Span::HOUR).expect("an hour is a window"));
    rule.enforcement = tollgate_core::Enforcement::Shadow;
    let key = instance.key("only");
    for asked in 0..60 {
        let verdict = instance.decide(Taste::MICROSECONDS.start, &[rule.charge(key, Cost::ONE)]);
        assert!(verdict.is_allowed());
        assert_eq!(verdict.decisions[0].is_allowed(), asked < 40);
    }
}
