//! Concurrency limits: how many requests of one key may be in flight at once.

use std::collections::HashMap;
use std::sync::Arc;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use serde::Deserialize;
use tollgate_http::{Identity, IdentityEntry, IdentitySettings, InvalidSetting, InvalidSettings};

use crate::metrics::Metrics;
use crate::permit_table::{NoPermit, Permit, PermitRequest, PermitTable};

/// The most concurrency limits of a route.
pub const IN_FLIGHT_LIMITS_MAX: usize = 16;
/// The most requests of one key in flight that a limit may allow.
pub const IN_FLIGHT_REQUESTS_MAX: u32 = 65_536;

/// A concurrency limit in the settings.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InFlightSettings {
    /// Its name in answers and metrics. The keys of `per`, with dots between them.
    #[serde(default)]
    pub name: Option<String>,
    /// The keys of a descriptor of `identity`, in its order. Requests whose descriptor has the same
    /// values count together.
    pub per: Vec<String>,
    /// How many of them may be in flight, 1 to 65536.
    pub requests: u32,
}

/// Those that apply to the requests of a route.
#[derive(Clone, Debug)]
pub(crate) struct ConcurrencyLimits {
    table: Arc<PermitTable>,
    limits: Vec<Arc<ConcurrencyLimit>>,
}

/// Reads those of a gateway, and of its routes one by one.
#[derive(Debug)]
pub(crate) struct ConcurrencyLimitReader<'a> {
    of_gateway: ConcurrencyLimits,
    /// How many limits there are with each identity, but for the last part of it.
    counts: HashMap<Vec<u8>, u32>,
    metrics: &'a Metrics,
}

/// One of them. Routes without their own share those of the gateway.
#[derive(Debug)]
struct ConcurrencyLimit {
    /// Keeps its keys apart from those of others. The same after a reload, whatever becomes of the
    /// others.
    identity: Box<[u8]>,
    name: String,
    per: Vec<String>,
    most: u32,
    gauge: Gauge,
    denied: Counter,
}

/// What a request in flight holds. Dropping it releases all.
#[derive(Debug, Default)]
pub(crate) struct Permits(Vec<Permit>);

/// Why a request may not be in flight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Exceeded {
    /// The limit of this name has as many requests of a key in flight as it allows.
    Limit { name: String, most: u32 },
    /// More keys would have requests in flight than may.
    Keys,
}

// === impl ConcurrencyLimitReader ===

impl<'a> ConcurrencyLimitReader<'a> {
    /// Without limits of the gateway.
    pub(crate) fn new(
        table: &Arc<PermitTable>,
        metrics: &'a Metrics,
    ) -> ConcurrencyLimitReader<'a> {
        let of_gateway = ConcurrencyLimits {
            table: Arc::clone(table),
            limits: Vec::new(),
        };
        ConcurrencyLimitReader {
            of_gateway,
            counts: HashMap::new(),
            metrics,
        }
    }

    /// Reads those of the gateway.
    ///
    /// # Errors
    ///
    /// Every setting that cannot be used.
    pub(crate) fn read_gateway(
        &mut self,
        settings: &[InFlightSettings],
    ) -> Result<(), InvalidSettings> {
        self.of_gateway = self.read(None, settings)?;
        Ok(())
    }

    /// Those of the route `name`, whose requests `identity` describes: its own, or those of the
    /// gateway.
    ///
    /// # Errors
    ///
    /// Every setting that cannot be used.
    pub(crate) fn of_route(
        &mut self,
        name: &str,
        own: Option<&[InFlightSettings]>,
        identity: &IdentitySettings,
    ) -> Result<ConcurrencyLimits, InvalidSettings> {
        let limits = match own {
            Some(own) => self.read(Some(name), own)?,
            None => self.of_gateway.clone(),
        };
        limits.check(identity)?;
        Ok(limits)
    }

    /// Reads those of a route, or those of the gateway.
    fn read(
        &mut self,
        route: Option<&str>,
        settings: &[InFlightSettings],
    ) -> Result<ConcurrencyLimits, InvalidSettings> {
        let (at, found) = ("in_flight", settings.len());
        InvalidSetting::check_at_most(at, found, "limits", IN_FLIGHT_LIMITS_MAX)?;
        let mut errors = InvalidSettings::default();
        let limits = errors.take_each(at, settings, |one| {
            let identity = self.identify(route, one);
            ConcurrencyLimit::new(one, identity, self.metrics).map(Arc::new)
        });
        errors.check()?;
        Ok(ConcurrencyLimits {
            table: Arc::clone(&self.of_gateway.table),
            limits,
        })
    }

    /// What a limit has and no other does: its route, its name, its keys, and how many have all of
    /// that before it.
    fn identify(&mut self, route: Option<&str>, settings: &InFlightSettings) -> Box<[u8]> {
        let names = [route, settings.name.as_deref()];
        let parts = names
            .into_iter()
            .chain(settings.per.iter().map(|key| Some(key.as_str())));
        let mut identity = Vec::new();
        for part in parts {
            // A missing name differs from an empty one.
            identity.push(u8::from(part.is_some()));
            append(&mut identity, part.unwrap_or_default().as_bytes());
        }
        let count = self.counts.entry(identity.clone()).or_default();
        append(&mut identity, &count.to_le_bytes());
        *count += 1;
        identity.into()
    }
}

/// Appends bytes behind their length, so that no two lists of them are the same.
fn append(list: &mut Vec<u8>, bytes: &[u8]) {
    list.extend(bytes.len().to_le_bytes());
    list.extend(bytes);
}

// === impl ConcurrencyLimits ===

impl ConcurrencyLimits {
    /// The names of all.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.limits.iter().map(|limit| &*limit.name)
    }

    /// Reports each limit that never counts a request, because none has its descriptor.
    fn check(&self, identity: &IdentitySettings) -> Result<(), InvalidSettings> {
        let counts = |limit: &ConcurrencyLimit| {
            let mut descriptors = identity.descriptors.iter();
            let keys: Vec<&str> = limit.per.iter().map(String::as_str).collect();
            descriptors.any(|descriptor| descriptor.may_have_keys(&keys))
        };
        let mut errors = InvalidSettings::default();
        errors.take_each("in_flight", &self.limits, |limit| {
            if counts(limit) {
                return Ok(());
            }
            let keys = limit.per.join(", ");
            Err(InvalidSetting::new(
                "per",
                format!("no descriptor of `identity` has the keys [{keys}], so nothing is counted"),
                "name all keys of a descriptor, in its order, or add such a descriptor; a route \
                 with its own `identity` may need its own `in_flight`",
            ))
        });
        errors.check()
    }

    /// Takes the permits of a request, or none.
    ///
    /// # Errors
    ///
    /// [`Exceeded`] if one of them is not to be had.
    pub(crate) fn acquire(&self, identity: &Identity<'_>) -> Result<Permits, Exceeded> {
        if self.limits.is_empty() {
            return Ok(Permits::default());
        }
        let mut wanted: Vec<(&ConcurrencyLimit, PermitRequest)> = Vec::new();
        for limit in &self.limits {
            for descriptor in &identity.descriptors {
                let Some(request) = limit.request(&descriptor.entries) else {
                    continue;
                };
                // Two equal descriptors are one request.
                if !wanted.iter().any(|(_, other)| other.key == request.key) {
                    wanted.push((limit, request));
                }
            }
        }
        let (limits, requests): (Vec<_>, Vec<_>) = wanted.into_iter().unzip();
        match self.table.acquire(&requests) {
            Ok(permits) => Ok(Permits(permits)),
            Err(NoPermit::TableFull) => Err(Exceeded::Keys),
            Err(NoPermit::Taken(index)) => {
                let limit = limits[index];
                limit.denied.inc();
                Err(Exceeded::Limit {
                    name: limit.name.clone(),
                    most: limit.most,
                })
            }
        }
    }
}

// === impl Permits ===

impl Permits {
    /// Ends them now.
    pub(crate) fn release(&mut self) {
        self.0.clear();
    }
}

// === impl ConcurrencyLimit ===

impl ConcurrencyLimit {
    /// Checks its settings. `identity` is its own.
    fn new(
        settings: &InFlightSettings,
        identity: Box<[u8]>,
        metrics: &Metrics,
    ) -> Result<ConcurrencyLimit, InvalidSettings> {
        let mut errors = InvalidSettings::default();
        let InFlightSettings {
            name,
            per,
            requests,
        } = settings;
        if per.is_empty() {
            let instead = "write the keys of a descriptor, such as `[remote_address]`";
            errors.push(InvalidSetting::new("per", "it has no keys", instead));
        }
        if !(1..=IN_FLIGHT_REQUESTS_MAX).contains(requests) {
            errors.push(InvalidSetting::new(
                "requests",
                format!("{requests} requests in flight"),
                format!("write 1 to {IN_FLIGHT_REQUESTS_MAX}"),
            ));
        }
        errors.check()?;
        let name = name.clone().unwrap_or_else(|| per.join("."));
        Ok(ConcurrencyLimit {
            identity,
            per: per.clone(),
            most: *requests,
            gauge: metrics.in_flight(&name),
            denied: metrics.in_flight_denied(&name),
            name,
        })
    }

    /// The permit that a request with this descriptor needs; `None` if the limit is for others.
    fn request(&self, entries: &[IdentityEntry<'_>]) -> Option<PermitRequest> {
        let keys = entries.iter().map(|entry| entry.key);
        keys.eq(self.per.iter().map(String::as_str))
            .then(|| PermitRequest {
                key: self.key(entries),
                most: self.most,
                gauge: self.gauge.clone(),
            })
    }

    /// Differs for other limits and for other values: each value is behind its length.
    fn key(&self, entries: &[IdentityEntry<'_>]) -> Arc<[u8]> {
        let mut key = Vec::new();
        append(&mut key, &self.identity);
        for entry in entries {
            append(&mut key, &entry.value);
        }
        key.into()
    }
}

#[cfg(test)]
mod tests;
