//! The behaviour that every store is held to, and the naive model behind it.
//!
//! A store's tests implement [`Subject`] and call [`store_behaves!`]: the worked examples of
//! docs/semantics.md, its promises, and random traces that must agree with core's `Ledger`. The
//! ledger itself is held to [`Model`], which is written from docs/semantics.md alone: plain lists,
//! fractions, and searches in place of formulas.
//!
//! For tests only: it panics where an answer is wrong, and no published crate depends on it.

mod random;

mod ratio;

mod model;

mod rule;

mod trace;

mod subject;

mod examples;

mod promises;

mod changed_buckets;

mod changed_windows;

mod priority;

mod elastic;

mod batch;

mod refunds;

pub use batch::a_batch_equals_its_requests_one_by_one;
pub use changed_buckets::*;
pub use changed_windows::*;
pub use elastic::*;
pub use examples::*;
pub use model::{Model, Naive};
pub use priority::*;
pub use promises::*;
pub use random::{Random, check};
pub use ratio::Ratio;
pub use refunds::*;
pub use rule::{Rule, Scale, Taste};
pub use subject::{Plain, Subject};
pub use trace::{
    Trace, agrees_with_the_ledger, agrees_with_the_ledger_while_the_wall_clock_steps, with_grain,
};
