//! Responses that the HTTP library writes itself.

use std::io::IoSlice;

/// The most bytes of them that are withheld. They are a status line and three headers.
const BYTES_MAX: usize = 1024;
/// What says that nothing follows.
const NO_BODY: &[u8] = b"content-length: 0\r\n";

/// What the HTTP library has written itself, which is withheld until its reason is known.
///
/// The library answers a head that it cannot parse with 400, 414 or 431 and no body, and says why
/// only when the connection has ended.
#[derive(Debug, Default)]
pub(crate) struct OwnResponse(Vec<u8>);

// === impl OwnResponse ===

impl OwnResponse {
    /// Withholds what is to be written, unless that is too much: how many bytes these are.
    pub(crate) fn withhold(&mut self, parts: &[IoSlice<'_>]) -> Option<usize> {
        let length = parts.iter().map(|part| part.len()).sum::<usize>();
        if self.0.len() + length > BYTES_MAX {
            return None;
        }
        for part in parts {
            self.0.extend_from_slice(part);
        }
        Some(length)
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The response as it is.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The response with `text` as its body, which the answer to a HEAD request only measures.
    pub(crate) fn with_body(self, text: &str, is_head: bool) -> Vec<u8> {
        let response = self.0;
        let Some(at) = find(&response, NO_BODY).filter(|_| response.ends_with(b"\r\n\r\n")) else {
            return response;
        };
        let (before, rest) = response.split_at(at);
        let length = text.len();
        let headers = format!("content-type: text/plain\r\ncontent-length: {length}\r\n");
        let body = if is_head { "" } else { text };
        let after = &rest[NO_BODY.len()..];
        [before, headers.as_bytes(), after, body.as_bytes()].concat()
    }
}

/// Where the first `part` begins.
fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A response that was written in one piece.
    fn response(text: &str) -> OwnResponse {
        let mut response = OwnResponse::default();
        let withheld = response.withhold(&[IoSlice::new(text.as_bytes())]);
        assert_eq!(withheld, Some(text.len()));
        response
    }

    #[test]
    fn a_response_without_a_body_gets_one() {
        let own = "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
        let expected = "HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\
            content-type: text/plain\r\ncontent-length: 4\r\n\r\n";
        let (head, whole) = (expected.to_owned(), format!("{expected}why\n"));
        assert_eq!(response(own).with_body("why\n", true), head.as_bytes());
        assert_eq!(response(own).with_body("why\n", false), whole.as_bytes());
    }

    #[test]
    fn any_other_response_stays_as_it_is() {
        for own in [
            "HTTP/1.1 400 Bad Request\r\ncontent-length: 4\r\n\r\nsent",
            "HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\nmore",
            "HTTP/1.1 100 Continue\r\n\r\n",
            "",
        ] {
            assert_eq!(response(own).with_body("why\n", false), own.as_bytes());
        }
    }

    #[test]
    fn no_more_is_withheld_than_such_a_response_has() {
        let half = [b' '; BYTES_MAX / 2];
        let mut response = OwnResponse::default();
        assert_eq!(
            response.withhold(&[IoSlice::new(&half), IoSlice::new(&half)]),
            Some(BYTES_MAX)
        );
        assert_eq!(response.withhold(&[IoSlice::new(b" ")]), None);
        assert_eq!(response.bytes().len(), BYTES_MAX);
    }
}
