//! Rules that change between a reservation and its settlement.

use tollgate_core::Span;

use super::Bench;

const HUNDRED: &str = "- {key: a, rate_limit: 100/hour}\n";

#[tokio::test]
async fn a_changed_limit_is_refunded() {
    let bench = Bench::with(HUNDRED);
    let less = bench.reserve(&["a"], 40).await.unwrap();
    let more = bench.reserve(&["a"], 10).await.unwrap();
    bench.reload("- {key: a, rate_limit: 1000/hour}\n");
    assert_eq!(bench.settle(less, 10).await, [(10, 980)]);
    assert_eq!(bench.settle(more, 500).await, [(500, 490)]);
}

/// Which of the units that a new window has counted were reserved is not known.
#[tokio::test]
async fn a_changed_window_is_not_refunded() {
    let bench = Bench::with(HUNDRED);
    let less = bench.reserve(&["a"], 40).await.unwrap();
    let more = bench.reserve(&["a"], 10).await.unwrap();
    bench.reload("- {key: a, rate_limit: 1000/day}\n");
    assert_eq!(bench.settle(less, 10).await, [(40, 950)]);
    assert_eq!(bench.settle(more, 20).await, [(20, 940)]);
}

#[tokio::test]
async fn a_limit_that_was_removed_is_not_settled() {
    for rules in [
        "- {key: b, rate_limit: 100/hour}\n",
        "- {key: a, rate_limit: {unlimited: true}}\n- {key: b, rate_limit: 100/hour}\n",
    ] {
        let bench = Bench::with(&format!("{HUNDRED}- {{key: b, rate_limit: 100/hour}}\n"));
        let id = bench.reserve(&["a", "b"], 40).await.unwrap();
        bench.reload(rules);
        let settled = bench.engine.settle(id, 10).await.unwrap();
        let [a, b] = &settled[..] else {
            panic!("{settled:?}");
        };
        assert_eq!((&*a.rule.path, a.reserved, a.settlement), ("a", 40, None));
        assert_eq!(b.settlement.map(|settled| settled.charged), Some(10));
        // Its counter was left alone, and still has the estimate when the rule comes back.
        bench.reload(HUNDRED);
        assert_eq!(bench.remaining("a").await, 60);
    }
}

#[tokio::test]
async fn a_rule_that_came_back_is_settled() {
    let bench = Bench::with(HUNDRED);
    let id = bench.reserve(&["a"], 40).await.unwrap();
    bench.reload("- {key: b, rate_limit: 100/hour}\n");
    bench.reload("- {key: a, rate_limit: 200/hour}\n");
    assert_eq!(bench.settle(id, 10).await, [(10, 190)]);
    bench.clock.advance(Span::HOUR);
    assert_eq!(bench.remaining("a").await, 200);
}
