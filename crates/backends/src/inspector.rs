//! Stores of any type whose keys can be inspected.

use std::fmt;
use std::pin::Pin;

use tollgate_core::{
    Charge, InspectStore, Key, KeyHasher, KeyState, SharedStore, Span, StoreError,
};

/// An [`InspectStore`] of any type.
pub struct Inspector(Box<dyn Erased>);

type Boxed<'a, T> = Pin<Box<dyn Future<Output = Result<T, StoreError>> + Send + 'a>>;

/// [`InspectStore`] without generics and opaque types, which a trait object cannot have.
trait Erased: Send + Sync {
    fn key(&self, parts: &mut dyn Iterator<Item = &[u8]>) -> Key;
    fn name_of(&self, key: Key) -> String;
    fn inspect<'a>(&'a self, charge: &'a Charge<'a>) -> Boxed<'a, KeyState>;
    fn reset(&self, key: Key) -> Boxed<'_, bool>;
    fn denial_cache_max(&self) -> Span;
    fn trouble(&self) -> Option<String>;
}

impl<S: InspectStore> Erased for S {
    fn key(&self, parts: &mut dyn Iterator<Item = &[u8]>) -> Key {
        KeyHasher::key(self, parts)
    }

    fn name_of(&self, key: Key) -> String {
        InspectStore::name_of(self, key)
    }

    fn inspect<'a>(&'a self, charge: &'a Charge<'a>) -> Boxed<'a, KeyState> {
        Box::pin(InspectStore::inspect(self, charge))
    }

    fn reset(&self, key: Key) -> Boxed<'_, bool> {
        Box::pin(InspectStore::reset(self, key))
    }

    fn denial_cache_max(&self) -> Span {
        InspectStore::denial_cache_max(self)
    }

    fn trouble(&self) -> Option<String> {
        SharedStore::trouble(self)
    }
}

// === impl Inspector ===

impl Inspector {
    /// Hides the type of `store`.
    pub fn new(store: impl InspectStore + 'static) -> Inspector {
        Inspector(Box::new(store))
    }

    /// [`InspectStore::name_of`].
    pub fn name_of(&self, key: Key) -> String {
        self.0.name_of(key)
    }

    /// [`InspectStore::inspect`].
    ///
    /// # Errors
    ///
    /// As [`InspectStore::inspect`].
    pub async fn inspect(&self, charge: &Charge<'_>) -> Result<KeyState, StoreError> {
        self.0.inspect(charge).await
    }

    /// [`InspectStore::reset`].
    ///
    /// # Errors
    ///
    /// As [`InspectStore::reset`].
    pub async fn reset(&self, key: Key) -> Result<bool, StoreError> {
        self.0.reset(key).await
    }

    /// [`InspectStore::denial_cache_max`].
    pub fn denial_cache_max(&self) -> Span {
        self.0.denial_cache_max()
    }

    /// [`SharedStore::trouble`].
    pub fn trouble(&self) -> Option<String> {
        self.0.trouble()
    }
}

impl fmt::Debug for Inspector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inspector").finish_non_exhaustive()
    }
}

impl KeyHasher for Inspector {
    fn key<'p>(&self, mut parts: impl Iterator<Item = &'p [u8]>) -> Key {
        self.0.key(&mut parts)
    }
}
