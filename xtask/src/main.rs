//! `cargo xtask`: one command for each chore.

fn main() {}
