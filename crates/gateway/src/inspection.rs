//! Numbers in the body of a response, read from a copy while the body passes.
//!
//! The copy is bounded for each response, and for all of them together: what exceeds that is not
//! read, and passes all the same.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use http::HeaderMap;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use tollgate_http::{EventStream, JsonPointer, NoUnits};

/// The most bytes of a JSON text, or of one event of a stream, that are kept to be read.
const INSPECTED_BYTES_MAX: usize = 1 << 20;
/// The most bytes that are kept for all responses at once.
const INSPECTED_TOTAL_MAX: usize = 64 << 20;

/// The bytes that are kept for all responses.
#[derive(Clone, Debug, Default)]
pub(crate) struct InspectedBytes(Arc<AtomicUsize>);

/// Reads numbers in one body.
pub(crate) struct Inspection {
    pointers: Vec<JsonPointer>,
    content: Content,
    share: Share,
}

/// Why there is no number: [`crate::metrics::Unsettled`] counts it.
pub(crate) type Reason = &'static str;

/// Why a number is not known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unread {
    pub(crate) reason: Reason,
    /// The last number that came before what cannot be read; 0 if none did.
    pub(crate) at_least: u64,
}

enum Content {
    /// A JSON text, as far as it has come.
    Text(Vec<u8>),
    /// Events, and the last number of each pointer.
    Events(EventStream, Vec<Result<u64, Unread>>),
    /// Nothing more that can be read, for each pointer.
    Unreadable(Vec<Unread>),
}

/// What one body has of [`InspectedBytes`].
struct Share {
    all: InspectedBytes,
    bytes: usize,
}

// === impl Inspection ===

impl Inspection {
    /// Of a response with these headers.
    pub(crate) fn new(
        pointers: Vec<JsonPointer>,
        headers: &HeaderMap,
        all: &InspectedBytes,
    ) -> Inspection {
        let is_encoded = headers
            .get_all(CONTENT_ENCODING)
            .iter()
            .any(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity"));
        let content = if is_encoded {
            Content::Unreadable(vec!["compressed".into(); pointers.len()])
        } else if is_event_stream(headers) {
            let found = vec![Err("missing".into()); pointers.len()];
            Content::Events(EventStream::new(INSPECTED_BYTES_MAX), found)
        } else {
            Content::Text(Vec::new())
        };
        Inspection {
            pointers,
            content,
            share: Share {
                all: all.clone(),
                bytes: 0,
            },
        }
    }

    /// The next part of the body.
    pub(crate) fn add(&mut self, part: &[u8]) {
        let needed = match &self.content {
            Content::Unreadable(_) => return,
            Content::Text(text) if text.len() + part.len() > INSPECTED_BYTES_MAX => {
                return self.give_up("too_large");
            }
            Content::Text(text) => text.capacity().max(text.len() + part.len()),
            // Never more than the maximum is added.
            Content::Events(stream, _) => stream.kept_bytes() + part.len().min(INSPECTED_BYTES_MAX),
        };
        if !self.share.resize(needed) {
            return self.give_up("busy");
        }
        let pointers = &self.pointers;
        match &mut self.content {
            Content::Unreadable(_) => {}
            Content::Text(text) => text.extend_from_slice(part),
            Content::Events(stream, found) => {
                stream.add(part, |data| read_event(pointers, data, found));
            }
        }
        // Buffers grow by more than what is added.
        let kept = match &self.content {
            Content::Unreadable(_) => 0,
            Content::Text(text) => text.capacity(),
            Content::Events(stream, _) => stream.kept_bytes(),
        };
        if !self.share.resize(kept) {
            self.give_up("busy");
        }
    }

    /// What each pointer has found. `is_complete` says whether the body came to its end.
    pub(crate) fn finish(self, is_complete: bool) -> Vec<Result<u64, Unread>> {
        let Inspection {
            pointers, content, ..
        } = self;
        match content {
            Content::Unreadable(unread) => unread.into_iter().map(Err).collect(),
            Content::Text(_) if !is_complete => vec![Err("cut_off".into()); pointers.len()],
            Content::Text(text) => {
                let read =
                    |pointer: &JsonPointer| pointer.read(&text).map_err(|none| reason(none).into());
                pointers.iter().map(read).collect()
            }
            Content::Events(stream, mut found) => {
                if is_complete {
                    stream.finish(|data| read_event(&pointers, data, &mut found));
                }
                found
            }
        }
    }

    fn give_up(&mut self, reason: Reason) {
        let found = match &self.content {
            Content::Events(_, found) => found.clone(),
            _ => vec![Err(reason.into()); self.pointers.len()],
        };
        let unread = found.into_iter().map(|one| Unread::after(one, reason));
        self.content = Content::Unreadable(unread.collect());
        self.share.resize(0);
    }
}

fn is_event_stream(headers: &HeaderMap) -> bool {
    let media_type = headers
        .get(CONTENT_TYPE)
        .map_or(&b""[..], |value| value.as_bytes());
    let essence = media_type.split(|byte| *byte == b';').next();
    let essence = essence.unwrap_or_default().trim_ascii();
    essence.eq_ignore_ascii_case(b"text/event-stream")
}

/// The last event with a number counts: a stream may end with others, such as `[DONE]`.
fn read_event(pointers: &[JsonPointer], data: Option<&[u8]>, found: &mut [Result<u64, Unread>]) {
    for (pointer, found) in pointers.iter().zip(found) {
        match data {
            Some(data) => {
                if let Ok(units) = pointer.read(data) {
                    *found = Ok(units);
                }
            }
            // It may have had a later number.
            None => *found = Err(Unread::after(*found, "too_large")),
        }
    }
}

const fn reason(none: NoUnits) -> Reason {
    match none {
        NoUnits::Missing => "missing",
        NoUnits::Malformed => "malformed",
    }
}

// === impl Unread ===

impl Unread {
    /// Why the last number is not known, if this was found before.
    fn after(found: Result<u64, Unread>, reason: Reason) -> Unread {
        Unread {
            reason,
            at_least: found.unwrap_or_else(|unread| unread.at_least),
        }
    }
}

impl From<Reason> for Unread {
    fn from(reason: Reason) -> Unread {
        Unread {
            reason,
            at_least: 0,
        }
    }
}

impl fmt::Debug for Inspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Inspection");
        shown
            .field("pointers", &self.pointers)
            .finish_non_exhaustive()
    }
}

// === impl Share ===

impl Share {
    /// Changes how much is kept for this body; `false`, and no change, if all of them have too much
    /// then.
    fn resize(&mut self, bytes: usize) -> bool {
        let InspectedBytes(all) = &self.all;
        let before = self.bytes;
        // Relaxed: a count publishes nothing else.
        let updated = all.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |total| {
            let total = total - before + bytes;
            (bytes <= before || total <= INSPECTED_TOTAL_MAX).then_some(total)
        });
        if updated.is_ok() {
            self.bytes = bytes;
        }
        updated.is_ok()
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.resize(0);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use http::HeaderValue;

    use super::*;

    fn pointers() -> Vec<JsonPointer> {
        let texts = ["/usage/total_tokens", "/n"];
        texts.map(|text| JsonPointer::parse(text).unwrap()).into()
    }

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, HeaderValue::from_static(value));
        }
        headers
    }

    fn inspect(
        fields: &[(&'static str, &'static str)],
        parts: &[&str],
    ) -> Vec<Result<u64, Reason>> {
        let all = InspectedBytes::default();
        let mut inspection = Inspection::new(pointers(), &headers(fields), &all);
        parts
            .iter()
            .for_each(|part| inspection.add(part.as_bytes()));
        let found = reasons(inspection.finish(true));
        assert_eq!(all.0.load(Ordering::Relaxed), 0);
        found
    }

    fn reasons(found: Vec<Result<u64, Unread>>) -> Vec<Result<u64, Reason>> {
        let reason = |found: Result<u64, Unread>| found.map_err(|unread| unread.reason);
        found.into_iter().map(reason).collect()
    }

    const EVENTS: [(&str, &str); 1] = [("content-type", "Text/Event-Stream; charset=utf-8")];

    #[test]
    fn a_number_is_read_from_a_text_that_comes_in_parts() {
        let parts = [r#"{"usage": {"total_"#, r#"tokens": 12"#, r#"3}}"#];
        assert_eq!(inspect(&[], &parts), [Ok(123), Err("missing")]);
        assert_eq!(inspect(&[], &["<html>"]), [Err("malformed"); 2]);
        assert_eq!(inspect(&[], &[]), [Err("malformed"); 2]);
        let encoded = [("content-encoding", "gzip")];
        assert_eq!(inspect(&encoded, &parts), [Err("compressed"); 2]);
        let plain = [("content-encoding", "Identity")];
        assert_eq!(inspect(&plain, &parts), [Ok(123), Err("missing")]);
    }

    #[test]
    fn of_events_the_last_number_counts() {
        let parts = [
            "data: {\"usage\": null, \"n\": 1}\n\ndata: {\"usage\": {\"total_to",
            "kens\": 5}}\n\ndata: {\"usage\": {\"total_tokens\": 7}}\n\n",
            "data: {\"usage\": {\"total_tokens\": \"8\"}}\n\ndata: [DONE]\n\n",
        ];
        assert_eq!(inspect(&EVENTS, &parts), [Ok(7), Ok(1)]);
        assert_eq!(
            inspect(&EVENTS, &["data: {\"n\": 4}"]),
            [Err("missing"), Ok(4)]
        );
        assert_eq!(inspect(&EVENTS, &["{\"n\": 4}"]), [Err("missing"); 2]);
    }

    #[test]
    fn an_event_that_cannot_be_read_may_have_had_a_larger_number() {
        let all = InspectedBytes::default();
        let mut events = Inspection::new(pointers(), &headers(&EVENTS), &all);
        events.add(b"data: {\"n\": 2, \"usage\": {\"total_tokens\": 1}}\n\ndata: ");
        events.add(&vec![b' '; INSPECTED_BYTES_MAX]);
        events.add(b"\n\ndata: {\"n\": 1}\n\n");
        let unread = Unread {
            reason: "too_large",
            at_least: 1,
        };
        assert_eq!(events.finish(true), [Err(unread), Ok(1)]);
    }

    #[test]
    fn what_is_cut_off_has_only_numbers_of_events_that_came() {
        let all = InspectedBytes::default();
        let mut text = Inspection::new(pointers(), &headers(&[]), &all);
        text.add(b"{\"n\": 1}");
        assert_eq!(reasons(text.finish(false)), [Err("cut_off"); 2]);
        let mut events = Inspection::new(pointers(), &headers(&EVENTS), &all);
        events.add(b"data: {\"n\": 1}\n\ndata: {\"n\": 2}");
        assert_eq!(reasons(events.finish(false)), [Err("missing"), Ok(1)]);
    }

    #[test]
    fn more_than_the_maximum_is_not_kept() {
        let all = InspectedBytes::default();
        let kept = || all.0.load(Ordering::Relaxed);
        let part = vec![b' '; 1 << 19];
        let mut text = Inspection::new(pointers(), &headers(&[]), &all);
        text.add(&part);
        text.add(&part);
        assert_eq!(kept(), INSPECTED_BYTES_MAX);
        text.add(b"{");
        assert_eq!(kept(), 0);
        assert_eq!(reasons(text.finish(true)), [Err("too_large"); 2]);
        let mut events = Inspection::new(pointers(), &headers(&EVENTS), &all);
        for _ in 0..9 {
            events.add(&part);
            assert!(kept() <= INSPECTED_BYTES_MAX);
        }
        events.add(b"\n\ndata: {\"n\": 3}\n\n");
        // What is left is the room for the next line.
        assert!(kept() < 100, "{}", kept());
        assert_eq!(reasons(events.finish(true)), [Err("too_large"), Ok(3)]);
        // Of all responses at once.
        let mut many: Vec<Inspection> = Vec::new();
        for _ in 0..INSPECTED_TOTAL_MAX / INSPECTED_BYTES_MAX {
            many.push(Inspection::new(pointers(), &headers(&[]), &all));
        }
        for text in &mut many {
            text.add(&vec![b' '; INSPECTED_BYTES_MAX]);
        }
        let mut another = Inspection::new(pointers(), &headers(&[]), &all);
        another.add(b"{\"n\": 1}");
        assert_eq!(reasons(another.finish(true)), [Err("busy"); 2]);
        drop(many);
        assert_eq!(kept(), 0);
    }

    #[test]
    fn numbers_that_came_before_there_was_no_room_are_the_least() {
        let all = InspectedBytes::default();
        let mut events = Inspection::new(pointers(), &headers(&EVENTS), &all);
        events.add(b"data: {\"n\": 2}\n\n");
        let others = INSPECTED_TOTAL_MAX - all.0.load(Ordering::Relaxed);
        all.0.fetch_add(others, Ordering::Relaxed);
        events.add(b"data: {\"n\": 3}");
        let unread = |at_least| {
            Err(Unread {
                reason: "busy",
                at_least,
            })
        };
        assert_eq!(events.finish(true), [unread(0), unread(2)]);
    }
}
