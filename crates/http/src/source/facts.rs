//! What several sources read from one request, worked out once.

use std::cell::OnceCell;

use crate::client_address::{Client, ClientAddress};
use crate::head::Head;
use crate::path::{InvalidPath, NormalPath, PathSettings};
use crate::route::Routes;

/// A request, and what was worked out of it.
pub(crate) struct Facts<'a> {
    pub(super) head: Head<'a>,
    pub(super) routes: &'a Routes,
    addresses: &'a ClientAddress,
    paths: &'a PathSettings,
    client: OnceCell<Client>,
    path: OnceCell<Result<NormalPath, InvalidPath>>,
}

// === impl Facts ===

impl<'a> Facts<'a> {
    pub(crate) const fn new(
        head: Head<'a>,
        addresses: &'a ClientAddress,
        paths: &'a PathSettings,
        routes: &'a Routes,
    ) -> Facts<'a> {
        Facts {
            head,
            routes,
            addresses,
            paths,
            client: OnceCell::new(),
            path: OnceCell::new(),
        }
    }

    pub(super) fn client(&self) -> Client {
        *self
            .client
            .get_or_init(|| self.addresses.resolve(self.head.peer, self.head.headers))
    }

    /// The client, if it was asked for.
    pub(crate) fn known_client(&self) -> Option<Client> {
        self.client.get().copied()
    }

    pub(super) fn path(&self) -> Result<&NormalPath, InvalidPath> {
        let path = self
            .path
            .get_or_init(|| self.paths.normalize(self.head.uri.path().as_bytes()));
        path.as_ref().map_err(|invalid| *invalid)
    }
}
