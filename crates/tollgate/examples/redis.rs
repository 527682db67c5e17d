//! Limits over Redis, which all processes with the same Redis share. Run it twice within a minute:
//! the second run finds what the first has consumed.
//!
//! ```sh
//! redis-server --port 6379 --save '' &
//! cargo run -p tollgate --example redis --features redis redis://localhost:6379
//! ```

use std::error::Error;
use std::time::Duration;

use tollgate::Limit;
use tollgate::redis::{Limiter, Redis, check_all};

/// How long the first connection may take.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let url = std::env::args().nth(1);
    run(url.as_deref().unwrap_or("redis://localhost:6379")).await?;
    Ok(())
}

/// Sends five requests; returns how many were allowed.
async fn run(url: &str) -> Result<u32, Box<dyn Error>> {
    let redis = Redis::open(url)?;
    if !redis.until_up(CONNECT_WITHIN).await {
        // Not an error: without Redis, each process decides on its share of a limit.
        eprintln!("no answer yet: {:?}", redis.trouble());
    }
    let per_user = redis.limiter("per user", Limit::per_minute(3))?;
    let per_address = redis.limiter("per address", Limit::per_minute(100))?;
    let mut allowed = 0;
    for _request in 0..5 {
        let asks = [per_user.ask("ann"), per_address.ask("192.0.2.7")];
        let decision = check_all(&asks).await?;
        allowed += u32::from(decision.is_allowed());
        if let Some(limit) = decision.denied_by() {
            eprintln!("denied {limit}, retry after {:?}", decision.retry_after());
        }
    }
    let remaining = per_address.peek("192.0.2.7", 1).await.remaining();
    eprintln!("{allowed} allowed; {remaining} remaining for the address");
    let tokens = redis.limiter("tokens", Limit::per_hour(10_000))?;
    for used in [Some(1_200), None] {
        if let Some(remaining) = answer(&tokens, used).await {
            eprintln!("an answer; {remaining} tokens remain");
        }
    }
    // Waits until what was dropped is refunded.
    redis.close().await;
    Ok(allowed)
}

/// Reserves the tokens that an answer may take, and settles those that it `used`; returns how many
/// remain. Without an answer, the reservation is dropped, and all of them are refunded.
async fn answer(tokens: &Limiter, used: Option<u64>) -> Option<u32> {
    let reservation = tokens.reserve("ann", 4_000).await.ok()?;
    let settlement = reservation.settle(used?).await;
    Some(settlement.remaining)
}

#[tokio::test]
async fn the_second_run_finds_what_the_first_has_consumed() {
    let server = tollgate_testbed::Redis::start();
    let url = format!("redis://{}", server.address());
    assert_eq!(run(&url).await.expect("Redis answers"), 3);
    assert_eq!(run(&url).await.expect("Redis answers"), 0);
}
