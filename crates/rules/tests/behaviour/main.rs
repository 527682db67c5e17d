//! The rules as their users see them: files in, diagnostics and decisions out.
#![allow(clippy::unwrap_used)]

mod diagnostics;
mod elastic;
mod enforcing;
mod explaining;
mod files;
mod fixture;
mod hints;
mod matching;
mod misplaced_settings;
mod mutation;
mod priority;
mod reload;
mod replacing;
mod sharing;
