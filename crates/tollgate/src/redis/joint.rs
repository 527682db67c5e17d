//! Several limits on one request over Redis: all or nothing.

use super::limiter::{Limiter, decide};
use crate::joint::{Ask, JointDecision, JointError};

/// Decides on several limits at once: the request is allowed only if all of them allow it, and only
/// then are they charged. As [`crate::check_all`], for limiters over the same
/// [`Redis`](super::Redis).
///
/// Limits on one key take one round trip. In a Cluster, different keys may be in different slots: a
/// two-phase commit then decides, in two round trips.
///
/// # Errors
///
/// [`JointError`]; a denial is a [`JointDecision`].
///
/// # Example
///
/// ```no_run
/// use tollgate::Limit;
/// use tollgate::redis::{Redis, check_all};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let redis = Redis::open("redis://localhost:6379")?;
/// let user = redis.limiter("per user", Limit::per_minute(10))?;
/// let address = redis.limiter("per address", Limit::per_hour(25))?;
/// let decision = check_all(&[user.ask("bob"), address.ask("192.0.2.7")]).await?;
/// if let Some(name) = decision.denied_by() {
///     println!("denied {name}");
/// }
/// # Ok(())
/// # }
/// ```
pub async fn check_all(asks: &[Ask<'_, Limiter>]) -> Result<JointDecision, JointError> {
    let Some(first) = asks.first().map(Ask::limiter) else {
        return Ok(JointDecision::new(Default::default(), Default::default()));
    };
    let limiters = || asks.iter().map(Ask::limiter);
    let is_other = |limiter: &&Limiter| !limiter.redis().is(first.redis());
    if let Some(other) = limiters().find(is_other) {
        let name = other.name().into();
        return Err(JointError::NotSiblings { name });
    }
    let names = limiters().map(Limiter::name_copy);
    let names = names.collect();
    let verdict = decide(first.redis(), asks).await;
    Ok(JointDecision::new(
        names,
        verdict.map_err(JointError::Store)?,
    ))
}
