//! Replay: recorded traffic through Tollgate's engine, in virtual time.
//!
//! Access logs and traces become [`Traffic`]; [`replay`] decides its events in order of time, each
//! at its recorded moment, with the same rules and algorithms as the service, and counts the
//! outcomes in a [`Report`]. Nothing sleeps and no clock is read.
//!
//! Knows nothing about YAML, sockets or the command line.
//!
//! # Trade-offs
//!
//! Lines may be out of order, so all events are read before the first is decided: 16 bytes each,
//! and each distinct request once. The unbounded store grows with the keys, which an exact result
//! requires; [`Memories::Bounded`] has the service's bound instead.
//!
//! # Example
//!
//! ```
//! use std::ops::ControlFlow;
//!
//! use tollgate_replay::{Format, Options, Traffic, replay};
//! use tollgate_rules::{RuleSet, Source};
//!
//! let rules = "{domain: web, descriptors: [{key: client, rate_limit: 1/minute}]}";
//! let rules = RuleSet::parse(&[Source::new("rules.yaml", rules)], &Default::default()).rules;
//! let trace = br#"
//! {"at": 60.5, "domain": "web", "descriptors": [{"entries": [{"key": "client", "value": "a"}]}]}
//! {"at": 60.1, "domain": "web", "descriptors": [{"entries": [{"key": "client", "value": "a"}]}]}
//! "#;
//! let mut traffic = Traffic::new(Format::Trace);
//! traffic.read("trace.jsonl", trace.trim_ascii())?;
//! let mut decisions = Vec::new();
//! let lines: Option<&mut dyn std::io::Write> = Some(&mut decisions);
//! let go_on = &mut |_| ControlFlow::Continue(());
//! let report = replay(&mut traffic, &rules, Options::default(), lines, go_on)?;
//! assert_eq!((report.events, report.allowed, report.denied), (2, 1, 1));
//! let decisions = String::from_utf8(decisions)?;
//! assert!(decisions.starts_with(r#"{"version":1,"line":2,"at":"1970-01-01T00:01:00.1Z","#));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod noun;

mod traffic;

mod selection;

mod reader;

mod event;

mod series;

mod random;

mod workload;

mod simulate;

mod course;

mod verdicts;

mod deviation;

mod met_limit;

mod interner;

mod notes;

mod values;

mod skipped;

mod input;

mod compression;

mod format;

mod foreign;

mod access_log;

mod prefix;

mod field;

mod record;

mod layout;

mod pattern;

mod key_shape;

mod path_template;

mod trace;

mod timestamp;

mod replay;

mod decider;

mod comparison;

mod survey;

mod page;

mod rule_cache;

mod tally;

mod denied_keys;

mod concentration;

mod decision_line;

mod outgoing;

mod report;

mod condition;

mod warning;

mod plain;

mod study;

mod error;

pub use comparison::{
    ChangedClient, ChangesOverTime, Comparison, ComparisonSummary, DirectionOverTime, RuleChange,
    compare,
};
pub use compression::{Compression, Cut};
pub use condition::{Checked, Condition, Counted, InvalidCondition};
pub use course::{Attempt, Course};
pub use deviation::{Deviation, RuleDeviation};
pub use error::Error;
pub use event::EVENTS_MAX;
pub use field::Field;
pub use foreign::{Foreign, Guess};
pub use format::{Format, LogKind};
pub use input::LINE_BYTES_MAX;
pub use key_shape::KeyShape;
pub use layout::{FieldNames, InvalidFieldNames, InvalidLogFormat, Layout, NoNames, Preset};
pub use met_limit::{MetLimit, met_limits};
pub use noun::Noun;
pub use outgoing::{Outgoing, OutgoingRequest};
pub use page::{ComparisonPage, InstancesSection, Page, SimulationSection};
pub use pattern::{InvalidPattern, Pattern};
pub use replay::{Memories, Options, TOP_KEYS, TOP_KEYS_MAX, replay};
pub use report::{DeniedKey, JSON_VERSION, Report, RuleTotals, Summary, TopKeys};
pub use selection::{Filter, InvalidFilter, Selection, parse_moment};
pub use series::{EVENTS_PER_SECOND_MAX, KEYS_MAX};
pub use simulate::{Simulation, WorkloadTotals, Workloads};
pub use skipped::{
    EXCERPT_BYTES_MAX, REASON_CHARS_MAX, REASONS_MAX, SKIPPED_SHOWN_MAX, Skipped, SkippedLine,
};
pub use study::{
    Part, Quantiles, ROUTE_EVENTS_MIN, ROUTES_MAX, SHARES, STUDY_VERSION, Study, StudyWarning,
    SuggestedLimit, WINDOWS, WindowPart,
};
pub use survey::{
    DETAILS_MAX, DISTRIBUTION_KEYS_MAX, DeniedPattern, Distribution, Most, PATTERNS_MAX,
    RULES_SHOWN_MAX, Run, SLOTS_MAX, Slot, Survey, Timeline, WAITS, survey,
};
pub use tollgate_core::DESCRIPTORS_MAX;
pub use traffic::{LINES_MAX, Place, Traffic};
pub use warning::Warning;
pub use workload::{ATTEMPTS, ATTEMPTS_MAX, InvalidWorkload, WORKLOAD_DURATION, Workload};
