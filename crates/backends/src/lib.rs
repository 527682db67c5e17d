//! The shared stores that a settings file can name.
//!
//! A [`Backend`] is implemented by the type of its settings, in a module of its own, and has an
//! entry in [`BACKENDS`]. The service and the `tollgate` command know only this list.

mod inspector;

mod backend;

mod any_backend;

mod redis;

pub use any_backend::{AnyBackend, SharedConfig};
pub use backend::{Backend, InvalidUrl, OpenError, Reservations};
pub use inspector::Inspector;

/// Every backend that a settings file can name.
pub const BACKENDS: &[AnyBackend] = &[AnyBackend::of::<tollgate_redis::Config>()];

/// The backends' names, for messages: `Redis`.
pub fn backend_names() -> String {
    let names: Vec<&str> = BACKENDS.iter().map(|backend| backend.name).collect();
    names.join(" or ")
}
