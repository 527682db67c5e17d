//! An upstream: which of its addresses a request goes to.

mod failures;

mod sending;

mod tried;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;
use tollgate_http::{InvalidSetting, InvalidSettings};
use tollgate_listen::Throttle;
use tracing::{info, warn};

use crate::connection_pool::{ConnectionPool, Lease};
use crate::connector::open_connectors;
use crate::failure::Failure;
use crate::health_check::{CheckError, HealthCheck, Observer};
use crate::metrics::{CheckMetrics, UpstreamMetrics};
use crate::retry::RetryBudget;
use crate::settings::{REQUESTS_MAX, UpstreamProtocol, UpstreamSettings};
use crate::upstream_load::UpstreamLoad;
use tried::Tried;

/// For how many times `timeouts.connect` a search tries one address after another.
const SEARCH_TIMEOUTS: u32 = 3;

/// The servers that answer some requests.
#[derive(Debug)]
pub(crate) struct Upstream {
    name: String,
    pools: Vec<Arc<ConnectionPool>>,
    /// Where the next search begins, so that requests spread over idle servers.
    next: AtomicUsize,
    health_check: Option<HealthCheck>,
    retries: Option<RetryBudget>,
    /// The tasks that check the health of addresses, once they run; they end with the upstream.
    checks: OnceLock<Mutex<JoinSet<()>>>,
    /// What it was made of.
    settings: UpstreamSettings,
    /// The hash of its files then.
    files: u64,
    connect_timeout: Duration,
    pub(crate) metrics: Arc<UpstreamMetrics>,
    pub(crate) load: Arc<UpstreamLoad>,
    warnings: Throttle,
}

/// An address whose health is checked.
#[derive(Debug)]
struct Checked {
    upstream: String,
    metrics: CheckMetrics,
    pool: Arc<ConnectionPool>,
}

// === impl Upstream ===

impl Upstream {
    /// # Errors
    ///
    /// Every setting that cannot be used.
    pub(crate) fn new(
        name: &str,
        settings: &UpstreamSettings,
        connect_timeout: Duration,
        metrics: UpstreamMetrics,
        load: Arc<UpstreamLoad>,
    ) -> Result<Upstream, InvalidSettings> {
        // Before they are used: what changes in between is found by the next comparison.
        let files = settings.hash_files();
        let UpstreamSettings {
            addresses: _,
            protocol: _,
            tls: _,
            requests,
            health_check,
            retries,
        } = settings;
        let mut errors = InvalidSettings::default();
        let connectors = open_connectors(settings, connect_timeout, &mut errors);
        if !(1..=REQUESTS_MAX).contains(requests) {
            let problem = format!("{requests} requests at once");
            let instead = format!("write a number from 1 to {REQUESTS_MAX}");
            errors.push(InvalidSetting::new("requests", problem, instead));
        }
        let health_check = health_check.as_ref().map(HealthCheck::new).transpose();
        let health_check = errors.take_below("health_check", health_check).flatten();
        let retries = retries.as_ref().map(RetryBudget::new).transpose();
        let retries = errors.take_below("retries", retries).flatten();
        errors.check()?;
        let pool = |connector| Arc::new(ConnectionPool::new(connector, *requests));
        Ok(Upstream {
            name: name.to_owned(),
            pools: connectors.into_iter().map(pool).collect(),
            next: AtomicUsize::new(0),
            health_check,
            retries,
            checks: OnceLock::new(),
            settings: settings.clone(),
            files,
            connect_timeout,
            metrics: Arc::new(metrics),
            load,
            warnings: Throttle::default(),
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn protocol(&self) -> UpstreamProtocol {
        self.pools[0].protocol()
    }

    /// Whether the next request waits until a connection is made, or fails. If connections end at
    /// this moment, it may wait all the same.
    pub(crate) fn must_wait(&self) -> bool {
        let mut healthy = self.pools.iter().filter(|pool| pool.health.passes_checks());
        healthy.all(|pool| pool.must_wait())
    }

    /// A connection that waits for a request, if all requests go to one address.
    pub(crate) fn try_lease(&self) -> Option<Lease> {
        match self.pools.as_slice() {
            [only] if only.health.passes_checks() => only.try_lease(),
            _ => None,
        }
    }

    /// Whether it is what these settings describe, with the files that they name.
    pub(crate) fn is_as(&self, settings: &UpstreamSettings, connect_timeout: Duration) -> bool {
        (&self.settings, self.connect_timeout) == (settings, connect_timeout)
            && self.files == settings.hash_files()
    }

    /// Checks the health of each address until this is dropped, if the settings say how.
    pub(crate) fn start_checks(&self) {
        let Some(check) = &self.health_check else {
            return;
        };
        let spawn = || Mutex::new(self.spawn_checks(check));
        self.checks.get_or_init(spawn);
    }

    /// Ends them before.
    pub(crate) fn stop_checks(&self) {
        if let Some(tasks) = self.checks.get() {
            let mut tasks = tasks.lock().unwrap_or_else(PoisonError::into_inner);
            tasks.abort_all();
        }
    }

    /// The addresses whose health is checked.
    pub(crate) fn checked_addresses(&self) -> impl Iterator<Item = &str> {
        let pools = self.pools.iter().filter(|_| self.health_check.is_some());
        pools.map(|pool| pool.address())
    }

    fn spawn_checks(&self, check: &HealthCheck) -> JoinSet<()> {
        let mut tasks = JoinSet::new();
        for pool in &self.pools {
            let (check, pool) = (check.clone(), Arc::clone(pool));
            let checked = Checked {
                upstream: self.name.clone(),
                metrics: self.metrics.checks(pool.address()),
                pool,
            };
            tasks.spawn(async move { check.run(checked.pool.connector(), &checked).await });
        }
        tasks
    }

    /// A connection to the address with the fewest requests; to one that has failed lately only if
    /// no other accepts any. Each is tried once, but for those that fail their health checks.
    ///
    /// # Errors
    ///
    /// [`Failure`] if there is no connection, so that nothing has reached the upstream.
    pub(crate) async fn lease(&self) -> Result<Lease, Failure> {
        match self.try_lease() {
            Some(lease) => Ok(lease),
            // In a box, because all requests have room for it, and few wait.
            None => Box::pin(self.lease_after(&Tried::default())).await,
        }
    }

    /// The same; to an address that was tried before only if no other accepts any, and then to the
    /// one that was tried first.
    async fn lease_after(&self, tried: &Tried) -> Result<Lease, Failure> {
        let leased = self.find_lease(tried, self.begin_search()).await;
        if leased.as_ref().is_err_and(Failure::shows_load) {
            self.load.count_failure();
        }
        leased
    }

    /// Until when a search that begins now may try another address. If none of many answers, the
    /// request would wait for each of them otherwise.
    fn begin_search(&self) -> Instant {
        Instant::now() + self.connect_timeout * SEARCH_TIMEOUTS
    }

    /// The same, without counting a failure. No other address is tried from `deadline` on.
    async fn find_lease(&self, tried: &Tried, deadline: Instant) -> Result<Lease, Failure> {
        // Each is looked at once: health checks change what they pass meanwhile.
        let healthy = self.pools.iter().filter(|pool| pool.health.passes_checks());
        let mut pools: Vec<&Arc<ConnectionPool>> = healthy.collect();
        if pools.is_empty() {
            self.metrics.count_failure(Failure::NoHealthyAddress.kind());
            return Err(Failure::NoHealthyAddress);
        }
        if let [only] = self.pools.as_slice() {
            let leased = match tried.is_empty() {
                true => only.lease().await,
                // The connections that wait may all have ended, as this one did.
                false => only.lease_new().await,
            };
            return leased.map_err(|error| self.report_unconnected(only, &error));
        }
        let first = self.next.fetch_add(1, Ordering::Relaxed) % pools.len();
        pools.rotate_left(first);
        sort_by_load(&mut pools, tried);
        let mut failure = Failure::Unreachable;
        for pool in pools {
            match pool.lease().await {
                Ok(lease) => return Ok(lease),
                Err(error) => failure = self.report_unconnected(pool, &error),
            }
            if Instant::now() >= deadline {
                break;
            }
        }
        Err(failure)
    }

    /// A new connection in place of one that the server had closed before anything was sent; to
    /// another address if this one accepts none. Counts no failure: it is that of the request.
    async fn lease_again(
        &self,
        pool: &Arc<ConnectionPool>,
        tried: &Tried,
    ) -> Result<Lease, Failure> {
        let deadline = self.begin_search();
        let error = match pool.lease_new().await {
            Ok(lease) => return Ok(lease),
            Err(error) => error,
        };
        let failure = self.report_unconnected(pool, &error);
        match self.pools.len() {
            0 | 1 => Err(failure),
            _ => self.find_lease(tried, deadline).await,
        }
    }
}

// === impl Checked ===

impl Observer for Checked {
    fn record(&self, checked: &Result<(), CheckError>) {
        self.metrics.record(checked.is_ok());
    }

    fn set_passes(&self, passes: bool, last: &Result<(), CheckError>) {
        self.pool.health.set_passes_checks(passes);
        self.metrics.set_healthy(passes);
        let (upstream, address) = (self.upstream.as_str(), self.pool.address());
        match last {
            Ok(()) => info!(upstream, address, "an address passes its health checks"),
            Err(reason) => warn!(
                upstream,
                address,
                %reason,
                "an address fails its health checks, so no requests go there"
            ),
        }
    }
}

/// Sorts addresses into the order in which a request tries them.
fn sort_by_load(pools: &mut [&Arc<ConnectionPool>], tried: &Tried) {
    // Stable, so that equal ones keep their order. Each is looked at once: other threads change
    // the counts meanwhile, and the standard library may panic if the order changes while it sorts.
    pools.sort_by_cached_key(|pool| {
        (
            tried.position(pool),
            pool.health.is_avoided(),
            pool.in_flight(),
        )
    });
}

#[cfg(test)]
mod tests;
