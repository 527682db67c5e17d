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
/// section 3.2.2).
pub(super) fn read(head: &Head<'_>) -> Result<Option<Cow<'static, [u8]>>, Flaw> {
    let parsed;
    let authority = match head.uri.authority() {
        Some(authority) => authority,
        None => {
            let Some(header) = value::header(head.headers, &HOST)? else {
                return Ok(None);
            };
            if header.is_empty() {
                return Ok(None);
            }
            parsed = Authority::try_from(header.as_ref()).map_err(|_| Flaw::BadHost)?;
            &parsed
        }
    };
    let host = authority.host();
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    Ok(Some(Cow::Owned(host.into_bytes())))
}
