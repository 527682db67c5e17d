//! What a table leaves to the one that replaces it.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::RouteTable;
use crate::metrics::OwnerName;

impl RouteTable {
    /// What series of metrics belong to.
    pub(crate) fn owner_names(&self) -> BTreeSet<OwnerName> {
        let mut names = BTreeSet::new();
        for route in &self.routes {
            names.insert(OwnerName::Route(route.metrics.name().to_owned()));
            let limits = route.in_flight.names();
            names.extend(limits.map(|name| OwnerName::InFlight(name.to_owned())));
        }
        for (name, upstream) in &self.upstreams {
            names.insert(OwnerName::Upstream(name.clone()));
            let addresses = upstream.checked_addresses();
            names.extend(addresses.map(|address| OwnerName::Checked {
                upstream: name.clone(),
                address: address.to_owned(),
            }));
        }
        names
    }

    /// Ends what goes on for upstreams that `successor` does not have. Requests in flight may keep
    /// such upstreams for long.
    pub(crate) fn retire(&self, successor: &RouteTable) {
        for (name, upstream) in &self.upstreams {
            match successor.upstreams.get(name) {
                Some(stays) if Arc::ptr_eq(stays, upstream) => {}
                Some(_replaced) => upstream.stop_checks(),
                None => {
                    upstream.stop_checks();
                    upstream.load.rest();
                }
            }
        }
    }
}
