//! A Redis that limiters share.

mod reservation;

use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::{Instant, sleep, timeout};
use tollgate_core::{
    CLOSE_WITHIN, Charge, DecidedBy, KeyHasher, Mode, OnStoreError, SharedStore, Sharing, Span,
    Store as _, StoreError, Verdict,
};
use tollgate_fallback::{Fallback, FallbackCounts};
use tollgate_memory::Memory;
#[cfg(feature = "tower")]
use tollgate_memory::SystemClock;
use tollgate_redis::{Config, InvalidConfig, InvalidUrl};

use super::background::{Background, REFUNDS_MAX};

pub use reservation::RESERVATION_LASTS;
pub(super) use reservation::Reserved;

/// The default of [`Builder::local_keys`].
pub const LOCAL_KEYS: usize = 1_000_000;

/// How often [`Redis::until_up`] looks.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// A Redis, with its connections, that any number of limiters share. Cloning is cheap: clones are
/// the same Redis.
///
/// It belongs to the Tokio runtime in which it was opened; see [the module's
/// documentation](super#runtimes).
///
/// # Example
///
/// ```no_run
/// use tollgate::redis::{Config, Mode, OnStoreError, Redis};
/// use tollgate::{Limit, Span};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let nodes = ["10.0.0.1:6379", "10.0.0.2:6379"].map(str::to_owned);
/// let config = Config { timeout: Span::from_millis(50), ..Config::cluster(nodes) };
/// let redis = Redis::builder(config).on_store_error(OnStoreError::Deny).open()?;
/// let api = redis.limiter("api", Limit::per_second(10_000))?.mode(Mode::Leased);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Redis(Arc<Shared>);

struct Shared {
    store: Fallback<tollgate_redis::Redis, Memory>,
    /// How the limits are shared, unless a limiter says otherwise.
    sharing: Sharing,
    /// [`Config::timeout`].
    timeout: Span,
    refunds: Background,
}

/// Opens a [`Redis`] with other settings than the defaults.
#[derive(Clone, Debug)]
pub struct Builder {
    config: Config,
    sharing: Sharing,
    local_keys: usize,
}

/// Why a Redis cannot be opened. A server that does not answer is no such reason.
#[derive(Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// The URL cannot be used.
    Url(InvalidUrl),
    /// A setting cannot be used.
    Config(InvalidConfig),
    /// There is no Tokio runtime on this thread.
    NoRuntime,
    /// The system does not have as much memory as [`Builder::local_keys`] needs.
    TooLarge {
        /// The memory that is needed, in bytes.
        bytes: usize,
    },
}

// === impl Redis ===

impl Redis {
    /// The Redis at a URL, with the default of every other setting: `redis://host:6379`,
    /// `rediss://user:password@host:6379` with TLS, `unix:///run/redis.sock`. For a Cluster, for
    /// Sentinel and for other settings, use [`Redis::builder`].
    ///
    /// Connects in the background, and does not wait for that. 24 MB of memory are allocated for
    /// the time without Redis; see [`Builder::local_keys`].
    ///
    /// # Errors
    ///
    /// [`OpenError`].
    pub fn open(url: &str) -> Result<Redis, OpenError> {
        let config = Config::from_url(url).map_err(OpenError::Url)?;
        Redis::builder(config).open()
    }

    /// Starts to open the Redis of `config`: [`Config::from_url`], [`Config::single`],
    /// [`Config::cluster`], or [`Config::new`] with
    /// [`Servers::Sentinel`](tollgate_redis::Servers::Sentinel).
    pub const fn builder(config: Config) -> Builder {
        Builder {
            config,
            sharing: Sharing::in_mode(Mode::Strict),
            local_keys: LOCAL_KEYS,
        }
    }

    /// Whether Redis answers; in a Cluster, every primary that is known.
    pub fn is_up(&self) -> bool {
        SharedStore::is_up(self.0.store.shared())
    }

    /// Waits until Redis answers, for so long at most; returns whether it does. For the start of a
    /// program that should not decide without Redis while its first connections are opened.
    pub async fn until_up(&self, within: Duration) -> bool {
        // None if that is longer than any clock runs.
        let latest = Instant::now().checked_add(within);
        while !self.is_up() {
            if latest.is_some_and(|latest| Instant::now() >= latest) {
                return false;
            }
            sleep(LOOK_EVERY).await;
        }
        true
    }

    /// Why Redis nodes or sentinels do not answer, each with its address; `None` if all do, or if
    /// the reason is not known.
    pub fn trouble(&self) -> Option<String> {
        self.0.store.shared().trouble()
    }

    /// The number of instances that share this Redis and its prefix, this one included: the last
    /// one that Redis has reported, or one.
    pub fn instances(&self) -> u32 {
        self.0.store.shared().instances()
    }

    /// How many requests were decided without Redis.
    pub fn fallbacks(&self) -> FallbackCounts {
        self.0.store.counts()
    }

    /// Returns leased units, reports local counts, waits for the refunds of dropped reservations,
    /// and leaves the other instances. To be called before a program ends, when nothing is decided
    /// any more. Waits for Redis for two seconds at most, whatever [`Config::timeout`] is.
    ///
    /// What is not returned is unavailable to other instances until its lease ends, after at most
    /// 10 s; local counts of [`Mode::WriteBack`] that are not reported are lost.
    pub async fn close(&self) {
        let refunded = timeout(CLOSE_WITHIN, self.0.refunds.wait());
        let _or_given_up = tokio::join!(refunded, self.0.store.shared().close());
    }

    /// What makes the keys.
    pub(super) fn hasher(&self) -> &impl KeyHasher {
        &self.0.store
    }

    /// The clock of this process, for what responses say about the time.
    #[cfg(feature = "tower")]
    pub(crate) fn clock(&self) -> &SystemClock {
        self.0.store.local().clock()
    }

    pub(super) async fn decide(&self, charges: &[Charge<'_>]) -> Result<Verdict, StoreError> {
        self.0.store.decide(charges).await
    }

    /// Refunds units where they were charged: in Redis, or in the memory of this process because
    /// Redis had no answer.
    pub(crate) async fn refund(
        &self,
        charges: &[Charge<'_>],
        charged_by: DecidedBy,
    ) -> Result<Verdict, StoreError> {
        self.0.store.refund(charges, charged_by).await
    }

    pub(super) fn sharing(&self) -> Sharing {
        self.0.sharing
    }

    /// Whether both are the same Redis: one is a clone of the other.
    pub(super) fn is(&self, other: &Redis) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.store.shared().fmt(f)
    }
}

// === impl Builder ===

impl Builder {
    /// How the instances share limits, unless [`Limiter::mode`](super::Limiter::mode) says
    /// otherwise. Default: [`Mode::Strict`].
    #[must_use]
    pub const fn mode(mut self, mode: Mode) -> Builder {
        self.sharing.mode = mode;
        self
    }

    /// What limits do while Redis does not answer, unless
    /// [`Limiter::on_store_error`](super::Limiter::on_store_error) says otherwise. Default:
    /// [`OnStoreError::Local`].
    #[must_use]
    pub const fn on_store_error(mut self, on_store_error: OnStoreError) -> Builder {
        self.sharing.on_store_error = on_store_error;
        self
    }

    /// The number of instances that share limits, for [`OnStoreError::Local`]. Default: as many as
    /// Redis has counted when it answered last.
    #[must_use]
    pub const fn instances(mut self, instances: NonZeroU32) -> Builder {
        self.sharing.instances = Some(instances);
        self
    }

    /// Room for this many live keys in the memory of this process, which counts the shares of
    /// [`OnStoreError::Local`]; the [crate's documentation](crate#memory) says how much memory that
    /// takes. It is allocated when the Redis is opened. Default: a million ([`LOCAL_KEYS`]).
    #[must_use]
    pub const fn local_keys(mut self, keys: usize) -> Builder {
        self.local_keys = keys;
        self
    }

    /// Opens the Redis. Connects in the background, and does not wait for that.
    ///
    /// # Errors
    ///
    /// [`OpenError`].
    pub fn open(self) -> Result<Redis, OpenError> {
        let runtime = Handle::try_current().map_err(|_| OpenError::NoRuntime)?;
        let local = Memory::builder().max_keys(self.local_keys);
        let local = local
            .try_build()
            .map_err(|bytes| OpenError::TooLarge { bytes })?;
        let redis = tollgate_redis::Redis::connect(&self.config).map_err(OpenError::Config)?;
        Ok(Redis(Arc::new(Shared {
            store: Fallback::new(redis, local),
            sharing: self.sharing,
            timeout: self.config.timeout,
            refunds: Background::new(runtime, REFUNDS_MAX),
        })))
    }
}

// === impl OpenError ===

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Url(_) => f.write_str("the URL of Redis cannot be used"),
            OpenError::Config(_) => f.write_str("the settings of Redis cannot be used"),
            OpenError::NoRuntime => f.write_str(
                "there is no Tokio runtime here: open Redis in an async function that Tokio runs, \
                 or after `Runtime::enter`",
            ),
            OpenError::TooLarge { bytes } => write!(
                f,
                "the system has not the {bytes} bytes for limits without Redis; lower `local_keys`"
            ),
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            OpenError::Url(source) => Some(source),
            OpenError::Config(source) => Some(source),
            OpenError::NoRuntime | OpenError::TooLarge { .. } => None,
        }
    }
}
