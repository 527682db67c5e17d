//! The media types of bodies that are JSON.

use http::header::{CONTENT_TYPE, ORIGIN};
use http::{HeaderMap, StatusCode};

use crate::reply::Failure;

/// What the `content-type` of a body says of it.
enum MediaType {
    /// JSON: a browser asks the server first, before it sends this for a page of another site.
    Json,
    /// What `curl -d` and simple clients send with JSON. A page may send it too, to any address
    /// that its reader's browser reaches: the Fetch standard safelists these types.
    Safelisted,
    Other,
}

/// Accepts JSON, and the media types that `curl -d` and simple clients send with it; nothing else,
/// and only the former of a page in a browser.
pub(crate) fn is_json(headers: &HeaderMap) -> Result<(), Failure> {
    match media_type(headers) {
        MediaType::Json => Ok(()),
        MediaType::Safelisted => is_not_from_page(headers),
        MediaType::Other => Err(failure(
            "the body must be JSON; send `content-type: application/json`",
        )),
    }
}

/// Rejects what any page on the web can make its reader's browser send: a request with `Origin`
/// whose body does not say that it is JSON. For one that says so, the browser asks first, with
/// `OPTIONS`, and nothing here allows it.
pub(crate) fn is_not_from_page(headers: &HeaderMap) -> Result<(), Failure> {
    if !headers.contains_key(ORIGIN) || matches!(media_type(headers), MediaType::Json) {
        return Ok(());
    }
    Err(failure(
        "a request with `origin` is a browser's; send it with `content-type: application/json`, \
         from a page of this address or without `origin`",
    ))
}

fn media_type(headers: &HeaderMap) -> MediaType {
    let Some(value) = headers.get(CONTENT_TYPE) else {
        return MediaType::Safelisted;
    };
    // What nearly every client sends.
    if value == "application/json" {
        return MediaType::Json;
    }
    let text = String::from_utf8_lossy(value.as_bytes()).to_ascii_lowercase();
    match text.split(';').next().unwrap_or_default().trim() {
        "application/json" | "text/json" => MediaType::Json,
        "application/x-www-form-urlencoded" | "text/plain" => MediaType::Safelisted,
        other if other.ends_with("+json") => MediaType::Json,
        _ => MediaType::Other,
    }
}

fn failure(detail: &'static str) -> Failure {
    Failure::new("media_type", StatusCode::UNSUPPORTED_MEDIA_TYPE, detail)
}

#[cfg(test)]
mod tests;
