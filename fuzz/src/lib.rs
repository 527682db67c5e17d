//! The bodies of the fuzz targets. Each panics if a promise is broken.
//!
//! `cargo xtask fuzz` runs them under libFuzzer; the test `regressions` runs the inputs that once
//! failed, and the seeds of the corpus.

mod script;

mod store;

mod rules;

mod request;

mod message;

mod check;

mod commands;

mod asks;

mod replies;

mod replay;

pub use asks::asks;
pub use check::{check, checks};
pub use commands::commands;
pub use message::{decision, message};
pub use replay::{access_log, trace};
pub use replies::{answers, replies};
pub use request::request;
pub use rules::rules;
pub use store::store;
