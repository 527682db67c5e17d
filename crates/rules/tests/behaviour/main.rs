//! The rules as their users see them: files in, diagnostics and decisions out.
#![allow(clippy::unwrap_used)]

mod desk;
mod files;
mod matching;
mod mistakes;
mod mutation;
mod reload;
mod replacing;
mod sharing;
