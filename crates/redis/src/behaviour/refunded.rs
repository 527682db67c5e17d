//! Refunds of units that were spent on a lease.

use tollgate_behaviour::{Rule, Subject, Taste};
use tollgate_core::{Cost, Limit, Mode, Sharing, Span};

use super::{Driven, SINGLE};
use crate::config::Config;

fn instance() -> Driven {
    Driven::new(&Config::single(SINGLE.address()))
}

/// A refund applies to units spent on a lease, although they were not reported before.
#[test]
fn a_refund_returns_what_was_spent_on_a_lease() {
    let limits = [
        Limit::fixed_window(100, Span::HOUR),
        Limit::sliding_window(100, Span::HOUR, 4),
        Limit::token_bucket(100, Span::HOUR),
    ];
    for limit in limits {
        let strict = Rule::new(limit.expect("an hour is a window"));
        let rule = Rule {
            sharing: Sharing::in_mode(Mode::Leased),
            ..strict.clone()
        };
        let (mut instance, now) = (instance(), Taste::MICROSECONDS.start);
        let key = instance.key(&format!("refunded {rule:?}"));
        for _ in 0..6 {
            let verdict = instance.decide(now, &[rule.charge(key, Cost::ONE)]);
            assert!(verdict.is_allowed());
        }
        let decided = instance.store.counts().lease_decisions;
        assert_eq!(decided, 4, "the others ask Redis: {rule:#?}");
        let refund = instance.decide(now, &[rule.charge(key, Cost::Refund(5))]);
        assert!(refund.is_allowed());
        instance.runtime.block_on(instance.store.close());
        let peek = strict.charge(key, Cost::Peek(1));
        let remaining = self::instance().decide(now, &[peek]).decisions[0].remaining();
        assert_eq!(remaining, 99, "{rule:#?}");
    }
}
