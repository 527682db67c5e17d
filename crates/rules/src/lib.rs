//! Tollgate's rules: YAML text in, charges out.
//!
//! Reads the rule files of Envoy's ratelimit service unchanged, with more algorithms and windows of
//! any length; reports every error in them with its position and what to do; and finds, for a
//! request, the limits that apply and the keys that they count.
//! The only crate that knows YAML. Knows nothing about stores, clocks, sockets or protocols.
//!
//! # Example
//!
//! ```
//! use tollgate_core::{ChargeDenied, Cost, Descriptor, Entry, Request};
//! use tollgate_rules::{Options, RuleSet, Source};
//!
//! # struct Hasher;
//! # impl tollgate_core::KeyHasher for Hasher {
//! #     fn key<'p>(&self, parts: impl Iterator<Item = &'p [u8]>) -> tollgate_core::Key {
//! #         tollgate_core::Key::from_bits(parts.map(|part| part.len() as u128).sum())
//! #     }
//! # }
//! # let store = Hasher;
//! let text = "
//! domain: shop
//! descriptors:
//!   - key: user
//!     rate_limit: 100/minute
//! ";
//! let loaded = RuleSet::parse(&[Source::new("shop.yaml", text)], &Options::default());
//! assert!(loaded.diagnostics.is_empty());
//! let request = Request {
//!     domain: b"shop",
//!     descriptors: vec![Descriptor {
//!         entries: vec![Entry { key: b"user", value: b"ann" }].into(),
//!         ..Descriptor::default()
//!     }].into(),
//!     cost: Cost::ONE,
//!     charge_denied: ChargeDenied::Never,
//! };
//! let resolved = loaded.rules.resolve(&request, &store);
//! assert_eq!(resolved.charges()[0].limit.count(), 100);
//! ```

mod source;

mod diagnostic;

mod not_read;

mod quote;

mod nearest;

mod findings;

mod yaml;

mod misplaced_settings;

mod sharing;

mod section;

mod schema;

mod window;

mod scalar;

mod headroom;

mod draft;

mod parse;

mod written_limit;

mod check;

mod pattern;

mod domain;

mod observer;

mod walk;

mod listed;

mod build;

mod options;

mod rule_set;

mod reload;

mod replaces;

mod reserved_part;

mod resolve;

mod attempt;

mod view;

mod settings;

pub use attempt::{Attempt, MaybeSuperseded};
pub use diagnostic::{Diagnostic, Severity, escape};
pub use domain::RuleDescriptor;
pub use findings::DIAGNOSTICS_MAX;
pub use headroom::{Headroom, HeadroomSource, NoHeadroom};
pub use listed::SHOWN_MAX;
pub use nearest::nearest;
pub use not_read::warn_of_unread;
pub use options::Options;
pub use parse::{RULES_MAX, TEXT_BYTES_MAX};
pub use reload::{Changed, Changes, REMOVED_RULES_MAX};
pub use reserved_part::ReservedPart;
pub use resolve::{ChargedRule, Explained, Finding, Resolved};
pub use rule_set::{Loaded, RuleSet};
pub use schema::schema;
pub use settings::{SettingPlaces, Settings, settings};
pub use source::{
    FILE_BYTES_MAX, FILES_MAX, LOAD_BYTES_MAX, ReadError, Source, read_paths, read_regular_paths,
    rule_files,
};
pub use view::RuleView;
pub use walk::{Arrival, Candidate, CandidateOutcome, LOOK_UPS_SHOWN_MAX, LookUp, Walk};
pub use written_limit::WrittenLimit;
pub use yaml::{DEPTH_MAX, NODES_MAX};
