//! Headroom for the elastic parts of limits: how it is reported, and which limits it concerns.

use std::collections::HashSet;

use tollgate_core::{Moment, Span};
use tollgate_rules::{HeadroomSource, RuleView};

use crate::engine::Engine;
use crate::headroom::{HeadroomError, HeadroomReport};

// === impl Engine ===

impl Engine {
    /// Reports whether there is headroom for the limits of `domain` with `while: [reported]`, in
    /// place of any earlier report. It expires after `expires_in`; then there is none.
    ///
    /// # Errors
    ///
    /// [`HeadroomError`]; nothing has changed.
    pub fn report_headroom(
        &self,
        domain: &str,
        has_headroom: bool,
        expires_in: Span,
    ) -> Result<(), HeadroomError> {
        let rules = self.rules();
        if !rules.has_domain(domain.as_bytes()) {
            return Err(HeadroomError::UnknownDomain);
        }
        if !rules.uses_headroom(domain, HeadroomSource::Reported) {
            return Err(HeadroomError::NothingElastic);
        }
        let now = self.stores().now();
        self.headroom_reports
            .insert(domain, has_headroom, expires_in, now)
    }

    /// Says whether this host has headroom, for the limits with `while: [host]` of every domain. It
    /// expires after `expires_in`; then there is none.
    pub fn set_host_headroom(&self, has_headroom: bool, expires_in: Span) {
        let until = match has_headroom {
            true => self.stores().now() + expires_in,
            false => Moment::ZERO,
        };
        self.host_headroom.set(until);
    }

    /// Says whose limits with `while: [upstream]` have headroom: those of `domains`, and of no
    /// others, in place of what was said before. It expires after `expires_in`; then none have.
    pub fn set_upstream_headroom(&self, domains: HashSet<String>, expires_in: Span) {
        let until = self.stores().now() + expires_in;
        self.upstream_headroom.set(domains, until);
    }

    /// The domains with a limit in effect whose elastic part depends on the load of upstreams.
    pub fn domains_with_upstream_headroom(&self) -> HashSet<String> {
        let rules = self.rules();
        let domains = rules.domains_with_headroom(HeadroomSource::Upstream);
        domains.map(str::to_owned).collect()
    }

    /// Whether a limit in effect has an elastic part for which `source` has to report.
    pub fn uses_headroom(&self, source: HeadroomSource) -> bool {
        let rules = self.rules();
        rules.domains_with_headroom(source).next().is_some()
    }

    /// The reports that have not expired, by domain.
    pub fn headroom_reports(&self) -> Vec<HeadroomReport> {
        self.headroom_reports.valid(self.stores().now())
    }

    /// Every rule in effect with an elastic part, and whether there is headroom for it now.
    pub fn elastic_rules(&self) -> Vec<RuleView> {
        let rules = self.rules();
        rules.elastic_rules(&self.headroom()).collect()
    }
}
