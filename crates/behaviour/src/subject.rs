//! The store under test.

use tollgate_core::{Charge, Key, Ledger, Now, Verdict};

/// A store under test, at moments that the test chooses.
///
/// A store behind a network blocks until it has the answer; one that rounds time sets that in its
/// [`crate::Taste`].
pub trait Subject {
    /// The store's key for this name, the same for the same name.
    fn key(&mut self, name: &str) -> Key;

    /// The store's answer at `now`. Panics if the store fails.
    fn decide(&mut self, now: Now, charges: &[Charge<'_>]) -> Verdict;
}

/// Core's `Ledger` as a subject: the reference.
#[derive(Debug, Default)]
pub struct Plain {
    ledger: Ledger,
    names: Vec<String>,
}

// === impl Plain ===

impl Subject for Plain {
    fn key(&mut self, name: &str) -> Key {
        let found = self.names.iter().position(|known| known == name);
        let place = found.unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        });
        Key::from_bits(u128::try_from(place).expect("a place fits 128 bits"))
    }

    fn decide(&mut self, now: Now, charges: &[Charge<'_>]) -> Verdict {
        let verdict = self.ledger.decide(now, charges);
        verdict.expect("no test asks too many charges at once")
    }
}

/// Declares one test for each worked example, promise and family of traces.
///
/// `store_behaves!(ledger, Taste::SMALL, Plain::default());` makes a module `ledger` of tests; the
/// expression makes a fresh subject each time.
#[macro_export]
macro_rules! store_behaves {
    ($name:ident, $taste:expr, $fresh:expr) => {
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            $crate::store_behaves!(@each $taste, $fresh,
                worked_example_1_fixed_window_lets_double_through,
                worked_example_2_sliding_log_of_three_a_minute,
                worked_example_3_sliding_log_of_two_a_second,
                worked_example_4_sliding_window_allows,
                worked_example_5_sliding_window_denies,
                worked_example_6_token_bucket_of_three_a_minute,
                worked_example_7_leaky_bucket_queues_ten,
                worked_example_8_phases,
                worked_example_9_the_last_unit_goes_once,
                a_denied_request_changes_nothing,
                a_denied_request_charges_no_limit_at_all,
                a_peek_changes_nothing,
                charge_denied_exhausts,
                a_denied_debit_ends_the_budget,
                the_wait_is_honest,
                a_cost_above_the_capacity_never_fits,
                zero_per_window_denies_everything,
                a_recovered_key_is_a_fresh_key,
                a_refund_never_exceeds_the_budget,
                a_refund_beside_a_denied_charge_is_allowed,
                the_limit_of_a_refund_judges_nothing_else,
                a_refund_does_not_turn_a_shadow_limit_on,
                a_change_of_capacity_keeps_what_was_consumed,
                a_slower_bucket_refills_at_its_rate_at_once,
                a_faster_bucket_refills_at_its_rate_at_once,
                the_wait_after_a_change_is_honest,
                shadow_and_quota_deny_as_specified,
                a_shadow_limit_never_delays,
                charges_on_one_key_are_added_up,
                each_limit_on_one_key_judges_by_itself,
                a_shadow_on_a_key_does_not_turn_its_limit_off,
                a_share_is_kept_for_requests_with_priority,
                a_cost_above_what_is_not_kept_never_fits,
                a_denied_request_charges_nothing_of_the_share,
                without_priority_a_cost_is_judged_with_the_share,
                without_headroom_an_elastic_limit_is_the_limit,
                an_elastic_limit_never_allows_more_than_its_parts,
                agrees_with_the_ledger,
            );
        }
    };
    (@each $taste:expr, $fresh:expr, $($test:ident,)*) => {
        $(
            #[test]
            fn $test() {
                $crate::$test(&$taste, || $fresh);
            }
        )*
    };
}
