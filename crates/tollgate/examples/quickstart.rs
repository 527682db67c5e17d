//! From `cargo add tollgate` to a decision: `cargo run --example quickstart`.

use tollgate::{Limit, Limiter};

fn main() {
    let limiter = Limiter::new(Limit::per_second(10).burst(3));
    for _request in 0..4 {
        let decision = limiter.check("alice");
        match decision.retry_after() {
            None => eprintln!("200, {} more", decision.remaining()),
            Some(wait) => eprintln!("429, come back in {wait:?}"),
        }
    }
}

#[test]
fn it_runs() {
    main();
}
