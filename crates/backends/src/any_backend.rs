//! Backends of any type, so that they can be in one list.

use std::any::Any;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use tollgate_core::Limit;
use tollgate_engine::AnyShared;
use tollgate_rules::Settings;

use crate::backend::{Backend, InvalidUrl, OpenError, Reservations};
use crate::inspector::Inspector;

/// A [`Backend`] of any type.
#[derive(Clone, Copy, Debug)]
pub struct AnyBackend {
    /// [`Backend::NAME`].
    pub name: &'static str,
    /// [`Backend::KEY`].
    pub key: &'static str,
    /// [`Backend::SCHEMES`].
    pub schemes: &'static [&'static str],
    /// [`Backend::EXAMPLE_URL`].
    pub example_url: &'static str,
    /// [`Backend::LEASE_CAPACITY_MIN`].
    pub lease_capacity_min: u32,
    from_url: fn(&str) -> Result<SharedConfig, InvalidUrl>,
    from_map: fn(&Settings<'_>, &Path) -> SharedConfig,
}

/// The settings of one shared store, of any backend. They are equal if they are of the same backend
/// and it finds them equal.
#[derive(Clone)]
pub struct SharedConfig(Arc<dyn Erased>);

/// [`Backend`] without constants and associated types, which a trait object cannot have.
trait Erased: Any + fmt::Debug + Send + Sync {
    fn backend(&self) -> AnyBackend;
    fn is_equal(&self, other: &dyn Any) -> bool;
    fn unfit(&self, limit: &Limit) -> Option<String>;
    fn reservations(&self) -> Reservations;
    fn servers(&self) -> String;
    fn is_encrypted(&self) -> bool;
    fn open(&self) -> Result<AnyShared, OpenError>;
    fn open_inspector(&self) -> Option<Result<Inspector, OpenError>>;
}

impl<B: Backend> Erased for B {
    fn backend(&self) -> AnyBackend {
        AnyBackend::of::<B>()
    }

    fn is_equal(&self, other: &dyn Any) -> bool {
        other.downcast_ref().is_some_and(|other| self == other)
    }

    fn unfit(&self, limit: &Limit) -> Option<String> {
        Backend::unfit(self, limit)
    }

    fn reservations(&self) -> Reservations {
        Backend::reservations(self)
    }

    fn servers(&self) -> String {
        Backend::servers(self)
    }

    fn is_encrypted(&self) -> bool {
        Backend::is_encrypted(self)
    }

    fn open(&self) -> Result<AnyShared, OpenError> {
        Backend::open(self).map(|store| AnyShared::new(B::NAME, store))
    }

    fn open_inspector(&self) -> Option<Result<Inspector, OpenError>> {
        Backend::open_inspector(self)
    }
}

// === impl AnyBackend ===

impl AnyBackend {
    /// Hides the type of a backend.
    pub const fn of<B: Backend>() -> AnyBackend {
        AnyBackend {
            name: B::NAME,
            key: B::KEY,
            schemes: B::SCHEMES,
            example_url: B::EXAMPLE_URL,
            lease_capacity_min: B::LEASE_CAPACITY_MIN,
            from_url: |url| B::from_url(url).map(SharedConfig::new),
            from_map: |map, directory| SharedConfig::new(B::from_map(map, directory)),
        }
    }

    /// Whether a text is meant to be a URL of this backend, valid or not.
    pub fn is_url(&self, text: &str) -> bool {
        let begins = |scheme: &&str| {
            let rest = text.strip_prefix(*scheme);
            rest.is_some_and(|rest| rest.starts_with("://"))
        };
        self.schemes.iter().any(begins)
    }

    /// [`Backend::from_url`].
    ///
    /// # Errors
    ///
    /// [`InvalidUrl`].
    pub fn from_url(&self, url: &str) -> Result<SharedConfig, InvalidUrl> {
        (self.from_url)(url)
    }

    /// [`Backend::from_map`].
    pub fn from_map(&self, map: &Settings<'_>, directory: &Path) -> SharedConfig {
        (self.from_map)(map, directory)
    }
}

// === impl SharedConfig ===

impl SharedConfig {
    /// Hides the type of `config`.
    pub fn new(config: impl Backend) -> SharedConfig {
        SharedConfig(Arc::new(config))
    }

    /// The settings, if they are of this backend.
    pub fn downcast_ref<B: Backend>(&self) -> Option<&B> {
        let config: &dyn Any = &*self.0;
        config.downcast_ref()
    }

    /// Their backend.
    pub fn backend(&self) -> AnyBackend {
        self.0.backend()
    }

    /// [`Backend::unfit`].
    pub fn unfit(&self, limit: &Limit) -> Option<String> {
        self.0.unfit(limit)
    }

    /// [`Backend::reservations`].
    pub fn reservations(&self) -> Reservations {
        self.0.reservations()
    }

    /// [`Backend::servers`].
    pub fn servers(&self) -> String {
        self.0.servers()
    }

    /// [`Backend::is_encrypted`].
    pub fn is_encrypted(&self) -> bool {
        self.0.is_encrypted()
    }

    /// [`Backend::open`].
    ///
    /// # Errors
    ///
    /// Why no store can be opened with these settings, whether or not its servers answer.
    pub fn open(&self) -> Result<AnyShared, OpenError> {
        self.0.open()
    }

    /// [`Backend::open_inspector`].
    ///
    /// # Errors
    ///
    /// As [`SharedConfig::open`].
    pub fn open_inspector(&self) -> Option<Result<Inspector, OpenError>> {
        self.0.open_inspector()
    }
}

impl fmt::Debug for SharedConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl PartialEq for SharedConfig {
    fn eq(&self, other: &SharedConfig) -> bool {
        let other: &dyn Any = &*other.0;
        self.0.is_equal(other)
    }
}

impl Eq for SharedConfig {}
