//! Ten tasks share a limit of five a second, each in its turn:
//! `cargo run --example waiting --features async`.

use std::sync::Arc;

use tollgate::{Limit, Limiter, NotReady};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), NotReady> {
    let limiter = Arc::new(Limiter::new(Limit::per_second(5).burst(1)));
    let mut tasks = Vec::new();
    for number in 0..10 {
        let limiter = Arc::clone(&limiter);
        tasks.push(tokio::spawn(async move {
            limiter.until_ready("upstream").await?;
            eprintln!("task {number} goes");
            Ok::<(), NotReady>(())
        }));
    }
    for task in tasks {
        task.await.expect("no task panics")?;
    }
    Ok(())
}

#[test]
fn it_runs() {
    main().expect("every task has its turn");
}
