//! Many clients that do the same.

use std::pin::Pin;

/// An attack that goes on for as long as it is polled.
pub(crate) type Attacking = Pin<Box<dyn Future<Output = ()> + Send>>;

/// How soon an attacker who was cut off is back.
const AGAIN_AFTER: std::time::Duration = std::time::Duration::from_millis(250);

/// Runs `one` as `count` tasks, numbered from 0, each again whenever it ends.
pub(super) fn crowd<F>(
    count: u32,
    one: impl Fn(u32) -> F + Clone + Send + Sync + 'static,
) -> Attacking
where
    F: Future<Output = std::io::Result<()>> + Send + 'static,
{
    Box::pin(async move {
        let mut tasks = tokio::task::JoinSet::new();
        for number in 0..count {
            let one = one.clone();
            tasks.spawn(async move {
                loop {
                    // An error is what the service should answer with: cut off, come again.
                    let _cut_off = one(number).await;
                    tokio::time::sleep(AGAIN_AFTER).await;
                }
            });
        }
        std::future::pending::<()>().await;
    })
}
