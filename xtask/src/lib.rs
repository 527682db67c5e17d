//! What `cargo xtask` and the tidy tests know about the project: its crates, its source files, the
//! graphs that both form, and the words that nobody uses any more.
//!
//! Knows nothing about the chores, which are the program's.

pub mod source;

pub mod function;

pub mod workspace;

pub mod module;

pub mod file_graph;

pub mod architecture;

pub mod lexicon;

pub mod participle;
