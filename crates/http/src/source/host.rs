//! The host that a request is for.

use std::borrow::Cow;

use http::header::HOST;
use http::uri::Authority;

use super::value;
use crate::head::Head;
use crate::rejection::Flaw;

/// The host, in small letters, without port and without the dot that may end it.
///
/// The request target's, if it has one (`:authority` in HTTP/2), or else the header's (RFC 9112,
/// section 3.2.2). If both are there they must agree: whichever counted here, what answers the
/// request might read the other one.
pub(super) fn read(head: &Head<'_>) -> Result<Option<Cow<'static, [u8]>>, Flaw> {
    let header = value::header(head.headers, &HOST)?;
    let named = match header.filter(|header| !header.is_empty()) {
        None => None,
        Some(header) => {
            let authority = Authority::try_from(header.as_ref()).map_err(|_| Flaw::BadHost)?;
            Some(name(&authority))
        }
    };
    let target = head.uri.authority().map(name);
    match (target, named) {
        (Some(target), Some(named)) if target != named => Err(Flaw::Repeated),
        (target, named) => Ok(target.or(named).map(|name| Cow::Owned(name.into_bytes()))),
    }
}

fn name(authority: &Authority) -> String {
    let host = authority.host();
    host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase()
}
