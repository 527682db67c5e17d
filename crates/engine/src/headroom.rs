//! Whether there is headroom for the elastic parts of limits, as it is reported: by programs for a
//! domain, for the host by what measures its load, and for domains by what measures the load of
//! their upstreams. A report expires by itself, so a reporter that has stopped leaves the limits as
//! they are without headroom.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::{ArcSwap, ArcSwapOption};
use tollgate_core::{Moment, Span};
use tollgate_rules::{Headroom, HeadroomSource};

use crate::stores::Stores;

/// The longest time after which a report expires.
pub const HEADROOM_REPORT_MAX: Span = Span::from_secs(3600);
/// The most domains with reports that have not expired.
pub const HEADROOM_REPORTS_MAX: usize = 1024;

/// A report for one domain that has not expired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeadroomReport {
    /// The domain.
    pub domain: Arc<str>,
    /// Whether there is headroom.
    pub has_headroom: bool,
    /// How long the report is valid from now on.
    pub expires_in: Span,
}

/// Why a report has no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HeadroomError {
    /// The domain has no rules.
    UnknownDomain,
    /// The domain has no rule with an elastic part that a report concerns.
    NothingElastic,
    /// It would expire at once, or after more than [`HEADROOM_REPORT_MAX`].
    Expiry,
    /// There are [`HEADROOM_REPORTS_MAX`] of other domains.
    Full,
}

/// The reports of all domains.
#[derive(Debug, Default)]
pub(crate) struct HeadroomReports(ArcSwap<HashMap<Arc<str>, Report>>);

/// Until when the host has headroom, by the clock of the stores in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct HostHeadroom(AtomicU64);

/// Of which domains all upstreams have headroom.
#[derive(Debug, Default)]
pub(crate) struct UpstreamHeadroom(ArcSwapOption<MeasuredDomains>);

#[derive(Debug)]
struct MeasuredDomains {
    names: HashSet<String>,
    until: Moment,
}

/// The reports, and the clock by which they expire.
#[derive(Debug)]
pub(crate) struct CurrentHeadroom<'e> {
    pub(crate) reports: &'e HeadroomReports,
    pub(crate) host: &'e HostHeadroom,
    pub(crate) upstreams: &'e UpstreamHeadroom,
    pub(crate) stores: &'e Stores,
}

#[derive(Clone, Copy, Debug)]
struct Report {
    has_headroom: bool,
    expires: Moment,
}

// === impl CurrentHeadroom ===

impl Headroom for CurrentHeadroom<'_> {
    fn has_headroom(&self, domain: &str, source: &HeadroomSource) -> bool {
        match source {
            HeadroomSource::Reported => self.reports.has_headroom(domain, self.stores),
            HeadroomSource::Host => self.host.has_headroom(self.stores),
            HeadroomSource::Upstream => self.upstreams.has_headroom(domain, self.stores),
            _ => false,
        }
    }
}

// === impl HostHeadroom ===

impl HostHeadroom {
    pub(crate) fn set(&self, until: Moment) {
        // Relaxed: the word is the whole report and publishes nothing else.
        self.0.store(until.as_nanos(), Ordering::Relaxed);
    }

    fn has_headroom(&self, stores: &Stores) -> bool {
        let until = self.0.load(Ordering::Relaxed);
        // The clock is only read if it matters.
        until != 0 && stores.now() < Moment::from_nanos(until)
    }
}

// === impl UpstreamHeadroom ===

impl UpstreamHeadroom {
    pub(crate) fn set(&self, names: HashSet<String>, until: Moment) {
        self.0
            .store(Some(Arc::new(MeasuredDomains { names, until })));
    }

    fn has_headroom(&self, domain: &str, stores: &Stores) -> bool {
        let measured = self.0.load();
        let measured = measured.as_ref().filter(|one| one.names.contains(domain));
        // The clock is only read if it matters.
        measured.is_some_and(|measured| stores.now() < measured.until)
    }
}

// === impl HeadroomReports ===

impl HeadroomReports {
    /// Adds a report, and drops those that have expired.
    pub(crate) fn insert(
        &self,
        domain: &str,
        has_headroom: bool,
        expires_in: Span,
        now: Moment,
    ) -> Result<(), HeadroomError> {
        if expires_in.is_zero() || expires_in > HEADROOM_REPORT_MAX {
            return Err(HeadroomError::Expiry);
        }
        let report = Report {
            has_headroom,
            expires: now + expires_in,
        };
        let mut is_full = false;
        self.0.rcu(|reports| {
            let valid = reports.iter().filter(|(_, report)| report.is_valid(now));
            let mut next: HashMap<Arc<str>, Report> = valid
                .map(|(domain, report)| (Arc::clone(domain), *report))
                .collect();
            is_full = next.len() >= HEADROOM_REPORTS_MAX && !next.contains_key(domain);
            if !is_full {
                next.insert(domain.into(), report);
            }
            next
        });
        match is_full {
            true => Err(HeadroomError::Full),
            false => Ok(()),
        }
    }

    /// Those that have not expired, by domain.
    pub(crate) fn valid(&self, now: Moment) -> Vec<HeadroomReport> {
        let reports = self.0.load();
        let valid = reports.iter().filter(|(_, report)| report.is_valid(now));
        let valid = valid.map(|(domain, report)| HeadroomReport {
            domain: Arc::clone(domain),
            has_headroom: report.has_headroom,
            expires_in: report.expires.since(now),
        });
        let mut valid: Vec<HeadroomReport> = valid.collect();
        valid.sort_by(|one, other| one.domain.cmp(&other.domain));
        valid
    }

    fn has_headroom(&self, domain: &str, stores: &Stores) -> bool {
        let reports = self.0.load();
        let report = reports.get(domain).filter(|report| report.has_headroom);
        // The clock is only read if it matters.
        report.is_some_and(|report| report.is_valid(stores.now()))
    }
}

// === impl Report ===

impl Report {
    fn is_valid(&self, now: Moment) -> bool {
        now < self.expires
    }
}

// === impl HeadroomError ===

impl std::error::Error for HeadroomError {}

impl fmt::Display for HeadroomError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HeadroomError::UnknownDomain => f.write_str("no rules are in effect for this domain"),
            HeadroomError::NothingElastic => f.write_str(
                "no limit of this domain has an `elastic` part with \
                 `while: [reported]`, so a report would change nothing",
            ),
            HeadroomError::Expiry => {
                write!(
                    f,
                    "a report expires after more than 0s and at most {HEADROOM_REPORT_MAX}"
                )
            }
            HeadroomError::Full => write!(
                f,
                "{HEADROOM_REPORTS_MAX} domains have reports, and that is the most; retry when \
                 some have expired"
            ),
        }
    }
}
