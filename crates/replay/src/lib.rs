//! Replay: real traffic through Tollgate's engine in virtual time.
//!
//! Access logs and traces become [`Traffic`]; [`replay`] decides its events in order of time, each
//! at its own moment, by the same rules and the same algorithms as the service, and counts what
//! became of them in a [`Report`]. Nothing sleeps and no clock is read.
//!
//! Knows nothing about YAML, sockets or the command line.
//!
//! # Trade-offs
//!
//! Lines may be out of order, so all events are read before the first is decided: 16 bytes each,
//! and each distinct request once. The unbounded store grows with the keys, as an exact answer
//! needs; [`Memories::Bounded`] has the service's bound instead.
//!
//! # Example
//!
//! ```
//! use tollgate_replay::{Format, Memories, Traffic, replay};
//! use tollgate_rules::{Options, RuleSet, Source};
//!
//! let rules = "{domain: web, descriptors: [{key: client, rate_limit: 1/minute}]}";
//! let rules = RuleSet::parse(&[Source::new("rules.yaml", rules)], &Options::default()).rules;
//! let trace = br#"
//! {"at": 60.5, "domain": "web", "descriptors": [{"entries": [{"key": "client", "value": "a"}]}]}
//! {"at": 60.1, "domain": "web", "descriptors": [{"entries": [{"key": "client", "value": "a"}]}]}
//! "#;
//! let mut traffic = Traffic::new(Format::Trace);
//! traffic.read("trace.jsonl", trace.trim_ascii())?;
//! let mut decisions = Vec::new();
//! let lines: Option<&mut dyn std::io::Write> = Some(&mut decisions);
//! let report = replay(&mut traffic, &rules, Memories::Unbounded, lines, &mut |_| {})?;
//! assert_eq!((report.events, report.admitted, report.refused), (2, 1, 1));
//! let decisions = String::from_utf8(decisions)?;
//! assert!(decisions.starts_with(r#"{"line":2,"at":60.1,"allowed":true,"#));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod traffic;

mod input;

mod access_log;

mod pattern;

mod trace;

mod timestamp;

mod replay;

mod decision_line;

mod report;

mod plain;

mod error;

pub use error::Error;
pub use input::LINE_BYTES_MAX;
pub use pattern::{Field, InvalidPattern, Pattern};
pub use replay::{Memories, REFUSED_KEYS_MAX, replay};
pub use report::{RefusedKey, Report, RuleTotals, Summary};
pub use tollgate_rls::DESCRIPTORS_MAX;
pub use traffic::{
    EXCERPT_BYTES_MAX, Format, LINES_MAX, LogKind, Place, SKIPPED_SHOWN_MAX, Skipped, SkippedLine,
    Traffic,
};
