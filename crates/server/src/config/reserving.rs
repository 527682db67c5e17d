//! Whether the stores of the gateway's domains can reserve what responses decide about.

use tollgate_backends::Reservations;
use tollgate_core::Mode;
use tollgate_http::InvalidSetting;
use tollgate_rules::{Settings, WrittenLimit, read_regular_paths};

use super::{Config, Place};

// === impl Config ===

impl Config {
    /// Reports identities of the gateway whose requests cannot be reserved by their domain's store.
    pub(super) fn check_reserving(&self, top: &Settings<'_>) {
        for InvalidSetting {
            at,
            problem,
            instead,
        } in self.find_unreservable()
        {
            top.report_error_at("gateway", &at, problem, &instead);
        }
    }

    /// Checks that the gateway's requests can be reserved, also under the rules that the files have
    /// now: settings of the gateway can change without the rules.
    ///
    /// # Errors
    ///
    /// [`InvalidSetting`] is the first identity for which that is not so.
    pub(crate) fn check_reservable(&self) -> Result<(), InvalidSetting> {
        if let Some(invalid) = self.find_unreservable().into_iter().next() {
            return Err(invalid);
        }
        let needed = self
            .gateway
            .iter()
            .flat_map(|one| one.reserving_identities());
        if needed.count() == 0 {
            return Ok(());
        }
        let sources = read_regular_paths(&self.rules).unwrap_or_default();
        let loaded = self.load(&sources);
        let unfit = loaded.diagnostics.iter().find(|found| {
            let (domain, mode) = (found.domain.as_deref(), "`mode: write_back`");
            found.code == "unfit-limit" && domain.is_some() && found.message.contains(mode)
        });
        unfit.map_or(Ok(()), |found| {
            let problem = format!("{}:{}: {}", found.file, found.line, found.message);
            Err(InvalidSetting::new(
                "identity",
                problem,
                found.help.clone().unwrap_or_default(),
            ))
        })
    }

    /// What is wrong with identities whose requests cannot be reserved by their domain's store.
    fn find_unreservable(&self) -> Vec<InvalidSetting> {
        let mut found = Vec::new();
        for (at, domain, identity) in self
            .gateway
            .iter()
            .flat_map(|one| one.reserving_identities())
        {
            let (name, place) = self.store_of(domain);
            let Place::Shared(config) = place else {
                continue;
            };
            let backend = config.backend().name;
            let (problem, help) = match (config.reservations(), identity.descriptors.len()) {
                (Reservations::All, _) | (Reservations::InOneSlot, ..=1) => continue,
                (Reservations::None, _) => (
                    format!("{backend} reserves no units until a response comes"),
                    "remove `count_when` and costs that a response has",
                ),
                (Reservations::InOneSlot, count) => (
                    format!(
                        "the limits of its {count} descriptors may be in several slots of a \
                         {backend} Cluster, and one reservation cannot"
                    ),
                    "give these requests a route of their own whose `identity` has one descriptor",
                ),
            };
            let message = format!(
                "`{at}` is charged by its responses (`count_when`, `cost`), and the store `{name}` \
                 of the domain `{domain}` cannot reserve for it: {problem}"
            );
            let help = format!("{help}, or serve the domain from memory or a single Redis");
            found.push(InvalidSetting::new(at, message, help));
        }
        found
    }

    /// Why the store of a limit's domain cannot reserve units of it, although requests of the
    /// gateway need that.
    pub(super) fn unreservable(&self, written: &WrittenLimit<'_>) -> Option<String> {
        let WrittenLimit {
            domain,
            keys,
            limit,
            sharing,
        } = written;
        let is_written_back = sharing.mode == Mode::WriteBack && Mode::WriteBack.suits(limit);
        let (_, Place::Shared(config)) = self.store_of(domain) else {
            return None;
        };
        if !is_written_back {
            return None;
        }
        let mut reserving = self
            .gateway
            .iter()
            .flat_map(|one| one.reserving_identities());
        let (at, ..) = reserving.find(|(_, of, identity)| {
            let mut descriptors = identity.descriptors.iter();
            of == domain && descriptors.any(|descriptor| descriptor.may_have_keys(keys))
        })?;
        let backend = config.backend().name;
        Some(format!(
            "a limit in `mode: write_back` cannot be reserved, because {backend} does not know all \
             of its units, and `gateway.{at}` is charged by its responses (`count_when`, \
             `cost`): write `mode: strict` or `mode: leased`"
        ))
    }
}
