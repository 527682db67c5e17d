//! What several sources read from one request, worked out once.

#[cfg(feature = "jwt")]
use std::borrow::Cow;
use std::cell::OnceCell;

use crate::client_address::{Client, ClientAddress};
use crate::head::Head;
use crate::path::{InvalidPath, NormalPath, PathSettings};
#[cfg(feature = "jwt")]
use crate::rejection::Flaw;
use crate::route::Routes;
#[cfg(feature = "jwt")]
use crate::token::{self, Claims, Token};

/// A request, and what was worked out of it.
pub(crate) struct Facts<'a> {
    pub(super) head: Head<'a>,
    pub(super) routes: &'a Routes,
    addresses: &'a ClientAddress,
    paths: &'a PathSettings,
    client: OnceCell<Client>,
    path: OnceCell<Result<NormalPath, InvalidPath>>,
    #[cfg(feature = "jwt")]
    token: Option<&'a Token>,
    #[cfg(feature = "jwt")]
    claims: OnceCell<Result<Option<Claims>, Flaw>>,
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
            #[cfg(feature = "jwt")]
            token: None,
            #[cfg(feature = "jwt")]
            claims: OnceCell::new(),
        }
    }

    /// The same with the client, if it was found before.
    pub(crate) fn with_client(self, client: Option<Client>) -> Facts<'a> {
        let client = client.map_or_else(OnceCell::new, OnceCell::from);
        Facts { client, ..self }
    }

    pub(super) fn client(&self) -> Client {
        *self
            .client
            .get_or_init(|| self.addresses.resolve(self.head.peer, self.head.headers))
    }

    /// The same with what reads the request's token.
    #[cfg(feature = "jwt")]
    pub(crate) fn with_token(self, token: Option<&'a Token>) -> Facts<'a> {
        Facts { token, ..self }
    }

    /// A claim of the request's token, which is verified once.
    #[cfg(feature = "jwt")]
    pub(super) fn claim(&self, name: &str) -> Result<Option<Cow<'a, [u8]>>, Flaw> {
        let claims = self.claims.get_or_init(|| {
            let claims = self.token.map(|token| token.claims(&self.head));
            claims.unwrap_or(Ok(None))
        });
        let claims = claims.as_ref().map_err(|flaw| *flaw)?;
        let claim = claims
            .as_ref()
            .and_then(|claims| token::text(claims.get(name)?));
        Ok(claim.map(|text| Cow::Owned(text.into_bytes())))
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
