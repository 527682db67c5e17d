//! What a backend must offer to be named in a settings file.

use std::error::Error;
use std::fmt;
use std::path::Path;

use tollgate_core::{Limit, SharedStore};
use tollgate_rules::Settings;

use crate::inspector::Inspector;

/// A backend of shared stores, implemented by the type of its settings.
///
/// In a settings file, a store is a map below [`Backend::KEY`], or a URL in place of that map.
/// Neither a message nor `Debug` may show a password.
pub trait Backend: Clone + Eq + fmt::Debug + Send + Sync + 'static {
    /// Its name in messages and log lines: `Redis`.
    const NAME: &'static str;
    /// Its key below `store`: `redis`.
    const KEY: &'static str;
    /// What its URLs begin with, without `://`. A text that begins so is meant for this backend,
    /// even if the rest is invalid.
    const SCHEMES: &'static [&'static str];
    /// A URL for the help in messages: `redis://localhost:6379`. Valid below its key `url`, too.
    const EXAMPLE_URL: &'static str;

    /// The capacity of the smallest limit that it leases; 0 if it leases every limit or none.
    const LEASE_CAPACITY_MIN: u32;

    /// The store.
    type Store: SharedStore + 'static;

    /// The settings of the store at a URL: the default of every other setting.
    ///
    /// # Errors
    ///
    /// [`InvalidUrl`].
    fn from_url(url: &str) -> Result<Self, InvalidUrl>;

    /// Reads the map below [`Backend::KEY`], in which paths are relative to `directory`. Errors are
    /// reported to `map`, with a default in place of a value that is wrong.
    fn from_map(map: &Settings<'_>, directory: &Path) -> Self;

    /// Why the store cannot keep a limit, and what to do instead; `None` if it can.
    fn unfit(&self, limit: &Limit) -> Option<String>;

    /// Which requests it keeps reservations of; none, unless this says otherwise.
    fn reservations(&self) -> Reservations {
        Reservations::None
    }

    /// The servers, for the log: `localhost:6379`.
    fn servers(&self) -> String;

    /// Whether connections are encrypted.
    fn is_encrypted(&self) -> bool;

    /// Opens the store, which connects in the background. Called within a Tokio runtime.
    ///
    /// # Errors
    ///
    /// Why no store can be opened with these settings, whether or not its servers answer.
    fn open(&self) -> Result<Self::Store, OpenError>;

    /// Opens the store for `tollgate keys`, as an operator needs it, who waits longer than a
    /// request. `None` if its keys cannot be inspected. Called within a Tokio runtime.
    ///
    /// # Errors
    ///
    /// As [`Backend::open`].
    fn open_inspector(&self) -> Option<Result<Inspector, OpenError>>;
}

/// Which requests a shared store keeps reservations of ([`SharedStore::reserve`]). None of them has
/// a limit in mode `write_back`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reservations {
    /// None.
    None,
    /// Those whose limits are all in one slot. With one descriptor, a request always is.
    InOneSlot,
    /// All.
    All,
}

/// Why a store cannot be opened with its settings.
pub type OpenError = Box<dyn Error + Send + Sync>;

/// What is wrong with a URL. Neither text repeats the URL, which may hold a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidUrl {
    /// What is wrong.
    pub message: &'static str,
    /// What to write instead.
    pub help: &'static str,
}
