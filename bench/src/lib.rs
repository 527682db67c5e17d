//! What the comparisons of this crate share: where their processes run and what those cost,
//! latencies, and pictures of the results.

#![allow(
    clippy::float_arithmetic,
    reason = "computes figures for people; nothing here decides"
)]

pub mod callgrind;

pub mod chart;

pub mod check_call;

pub mod command_line;

pub mod latency;

pub mod machine;

pub mod server_process;

pub mod target;
