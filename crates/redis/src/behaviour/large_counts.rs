//! Windows with more units than nanoseconds, and with nearly as many as can be stored.

use tollgate_behaviour::{Subject, Taste};
use tollgate_core::{Charge, Cost, Limit, Mode, Sharing, Span};

use super::disagree::instance;
use super::{Driven, SINGLE};
use crate::config::{Config, SYNC_INTERVAL_MAX};

/// Requests that bring limits of their own, of fewer units than the window has nanoseconds, and of
/// more: no more is allowed than the largest allows.
#[test]
fn fixed_windows_of_any_size_on_one_key_count_together() {
    let mut instance = instance();
    let key = instance.key("only");
    let now = Taste::MICROSECONDS.start;
    let limits = [500_000, 2_000_000].map(|n| Limit::fixed_window(n, Span::from_millis(1)));
    let mut allowed = 0;
    for round in 0..20 {
        let limit = limits[round % 2].as_ref().expect("a limit");
        let charge = Charge::new(key, limit, Cost::Take(400_000));
        let is_allowed = instance.decide(now, &[charge]).is_allowed();
        allowed += if is_allowed { 400_000 } else { 0 };
    }
    assert_eq!(allowed, 2_000_000);
}

/// A count of nearly 2^32 units is stored, although units of it are leased as well: it does not
/// start over.
#[test]
fn no_count_of_a_window_exceeds_what_is_stored() {
    let limit = Limit::fixed_window(u32::MAX, Span::DAY).expect("a day is a window");
    let (now, config) = (
        Taste::MICROSECONDS.start,
        Config {
            sync_interval: SYNC_INTERVAL_MAX,
            ..Config::single(SINGLE.address())
        },
    );
    let [mut leasing, mut counting] = [(); 2].map(|()| Driven::new(&config));
    let key = leasing.key("only");
    let charge = |units, mode| {
        let charge = Charge::new(key, &limit, Cost::Take(units));
        charge.shared(Sharing::in_mode(mode))
    };
    // Redis decides the first of each, and they learn that the other uses the key.
    assert!(
        counting
            .decide(now, &[charge(1, Mode::WriteBack)])
            .is_allowed()
    );
    for _ in 0..3 {
        let large = charge(1 << 20, Mode::Leased);
        assert!(leasing.decide(now, &[large]).is_allowed());
    }
    let most = u64::from(u32::MAX) - (3 << 20) - 1;
    assert!(
        counting
            .decide(now, &[charge(most, Mode::WriteBack)])
            .is_allowed()
    );
    counting.report();
    let mut other = instance();
    let denied = other.decide(now, &[charge(1 << 24, Mode::Strict)]);
    assert!(!denied.is_allowed(), "{denied:?}");
    assert!(denied.decisions[0].remaining() < 1 << 20, "{denied:?}");
}
