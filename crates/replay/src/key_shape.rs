//! The values of keys as the gateway makes them: the client behind trusted proxies, the network
//! of an address, the template of a path.
//!
//! The decisions are those of [`tollgate_http`]; here is only what a log has instead of a request.

use std::net::IpAddr;

use http::{HeaderMap, HeaderName, HeaderValue};
use tollgate_http::{
    AddressSource, ClientAddress, ClientAddressSettings, InvalidSetting, InvalidSettings,
    PathSettings, Peer, Routes,
};

use crate::field::{Field, Fields};

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
/// What nginx and HAProxy write for a client of a Unix socket.
const UNIX: [&[u8]; 2] = [b"unix:", b"unix"];

/// Which values of an access log's lines are replaced by those that the gateway would use.
#[derive(Clone, Debug, Default)]
pub struct KeyShape {
    clients: Option<ClientShape>,
    templates: Option<Templates>,
}

#[derive(Clone, Debug)]
struct ClientShape {
    addresses: ClientAddress,
    /// Whether the lines' `X-Forwarded-For` is read.
    reads_forwarded_for: bool,
}

#[derive(Clone, Debug)]
struct Templates {
    texts: Vec<String>,
    paths: PathSettings,
    routes: Routes,
}

/// The values that replace those of one line, in buffers that are reused for every line.
#[derive(Debug)]
pub(crate) struct ShapedLine<'s> {
    shape: &'s KeyShape,
    headers: HeaderMap,
    client: Option<String>,
    template: Option<&'s str>,
}

// === impl KeyShape ===

impl KeyShape {
    /// `{client}` becomes the client as the gateway finds it with these settings, whose source is
    /// [`AddressSource::Peer`] or [`AddressSource::XForwardedFor`], cut to its prefix.
    ///
    /// # Errors
    ///
    /// Every setting that cannot be used; another source is one.
    pub fn with_clients(
        self,
        settings: &ClientAddressSettings,
    ) -> Result<KeyShape, InvalidSettings> {
        let reads_forwarded_for = match settings.source {
            AddressSource::Peer => false,
            AddressSource::XForwardedFor => true,
            _ => {
                let problem = "access logs have no such source";
                let instead = "write `peer` or `x-forwarded-for`";
                return Err(InvalidSetting::new("source", problem, instead).into());
            }
        };
        let clients = ClientShape {
            addresses: ClientAddress::new(settings)?,
            reads_forwarded_for,
        };
        Ok(KeyShape {
            clients: Some(clients),
            ..self
        })
    }

    /// `{path}` becomes the template that the gateway finds for it. A path without one stays.
    ///
    /// # Errors
    ///
    /// Every template that cannot be used.
    pub fn with_templates(self, templates: &[String]) -> Result<KeyShape, InvalidSettings> {
        let paths = PathSettings::default();
        let routes = Routes::new(templates, &paths)?;
        Ok(KeyShape {
            templates: Some(Templates {
                texts: templates.to_vec(),
                paths,
                routes,
            }),
            ..self
        })
    }

    /// Its templates of paths.
    pub(crate) fn templates(&self) -> &[String] {
        let templates = self.templates.as_ref();
        templates.map_or(&[], |templates| templates.texts.as_slice())
    }

    /// Whether a path is one of its templates.
    pub(crate) fn is_template(&self, path: &[u8]) -> bool {
        let mut templates = self.templates().iter();
        templates.any(|template| template.as_bytes() == path)
    }

    /// The fields that it reads of every line.
    pub(crate) fn fields(&self) -> impl Iterator<Item = Field> {
        let clients = self.clients.as_ref();
        let client = clients.map(|_| Field::Client);
        let list = clients.filter(|clients| clients.reads_forwarded_for);
        let path = self.templates.as_ref().map(|_| Field::Path);
        let list = list.map(|_| Field::ForwardedFor);
        client.into_iter().chain(list).chain(path)
    }
}

// === impl ClientShape ===

impl ClientShape {
    /// The key of a line's client; `None` if the client is not an address and stays as it is,
    /// because a name is not a peer that the gateway could have.
    fn key(&self, line: &Fields<'_>, headers: &mut HeaderMap) -> Option<String> {
        let peer = peer(line.get(Field::Client))?;
        headers.clear();
        // A value that no header can have came in no header: the peer counts, as in the gateway.
        let list = line.get(Field::ForwardedFor);
        if self.reads_forwarded_for
            && !list.is_empty()
            && let Ok(list) = HeaderValue::from_bytes(list)
        {
            headers.insert(X_FORWARDED_FOR, list);
        }
        let address = self.addresses.resolve(peer, headers).address?;
        Some(self.addresses.prefix().key(address))
    }
}

/// The peer that a line's client is: an address, or a Unix socket.
fn peer(client: &[u8]) -> Option<Peer> {
    if UNIX.contains(&client) {
        return Some(Peer::default());
    }
    let address: IpAddr = std::str::from_utf8(client).ok()?.parse().ok()?;
    Some(Peer::from(address))
}

// === impl ShapedLine ===

impl<'s> ShapedLine<'s> {
    /// `None` if every value stays as it is.
    pub(crate) fn new(shape: &'s KeyShape) -> Option<ShapedLine<'s>> {
        (shape.clients.is_some() || shape.templates.is_some()).then(|| ShapedLine {
            shape,
            headers: HeaderMap::new(),
            client: None,
            template: None,
        })
    }

    /// The fields of a line, with the values that the shape makes of them.
    pub(crate) fn of<'a>(&'a mut self, mut line: Fields<'a>) -> Fields<'a> {
        let shape = self.shape;
        let clients = shape.clients.as_ref();
        self.client = clients.and_then(|clients| clients.key(&line, &mut self.headers));
        let templates = shape.templates.as_ref();
        self.template = templates.and_then(|Templates { paths, routes, .. }| {
            let path = paths.normalize(line.get(Field::Path)).ok()?;
            routes.find(&path)
        });
        if let Some(client) = &self.client {
            line.set(Field::Client, client.as_bytes());
        }
        if let Some(template) = self.template {
            line.set(Field::Path, template.as_bytes());
        }
        line
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
