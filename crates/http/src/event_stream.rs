//! The events of a `text/event-stream`, as far as their data fits a bounded buffer.

/// What a stream may begin with.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The most bytes of a line's buffer that are kept for the next line.
const LINE_KEPT_BYTES: usize = 1024;

/// Splits a stream into the data of its events, while it passes in pieces.
///
/// # Example
///
/// ```
/// use tollgate_http::EventStream;
///
/// let (mut stream, mut found) = (EventStream::new(1024), Vec::new());
/// stream.add(b"data: one\n\ndata: t", |data| found.push(data.map(<[u8]>::to_vec)));
/// stream.add(b"wo\n\n", |data| found.push(data.map(<[u8]>::to_vec)));
/// assert_eq!(found, [Some(b"one".to_vec()), Some(b"two".to_vec())]);
/// ```
#[derive(Debug)]
pub struct EventStream {
    bytes_max: usize,
    /// The line that has not ended.
    line: Vec<u8>,
    /// The data of the event that has not ended: its lines so far.
    data: Option<Vec<u8>>,
    is_first_line: bool,
    /// The line that has not ended is not empty.
    has_text: bool,
    /// The last line ended with a carriage return, to which a line feed may belong.
    after_return: bool,
    /// The event that has not ended is larger than the buffer.
    is_too_large: bool,
}

// === impl EventStream ===

impl EventStream {
    /// A stream of which no event with more bytes than this is read.
    pub const fn new(bytes_max: usize) -> EventStream {
        EventStream {
            bytes_max,
            line: Vec::new(),
            data: None,
            is_first_line: true,
            has_text: false,
            after_return: false,
            is_too_large: false,
        }
    }

    /// The bytes of memory that are kept until the next piece.
    pub fn kept_bytes(&self) -> usize {
        self.line.capacity() + self.data.as_ref().map_or(0, Vec::capacity)
    }

    /// The bytes of the event that has not ended.
    fn event_bytes(&self) -> usize {
        self.line.len() + self.data.as_ref().map_or(0, Vec::len)
    }

    /// The next piece. `take` gets the data of each event that ends in it, or `None` for one that
    /// was too large.
    pub fn add(&mut self, piece: &[u8], mut take: impl FnMut(Option<&[u8]>)) {
        let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
        for part in piece.split_inclusive(is_end) {
            let belongs_to_return = part == b"\n" && self.after_return;
            self.after_return = part.last() == Some(&b'\r');
            if belongs_to_return {
                continue;
            }
            match part.split_last() {
                Some((end, text)) if is_end(end) => {
                    self.push(text);
                    self.end_line(&mut take);
                }
                _ => self.push(part),
            }
        }
    }

    /// The end of the stream, which ends its last event.
    pub fn finish(mut self, mut take: impl FnMut(Option<&[u8]>)) {
        self.end_line(&mut take);
        self.end_event(&mut take);
    }

    fn push(&mut self, text: &[u8]) {
        self.has_text |= !text.is_empty();
        if self.event_bytes() + text.len() > self.bytes_max {
            self.is_too_large = true;
        }
        if self.is_too_large {
            self.line = Vec::new();
            self.data = None;
        } else {
            self.line.extend_from_slice(text);
        }
    }

    /// Ends a line: an empty one ends an event, and one of data adds to it.
    fn end_line(&mut self, take: &mut impl FnMut(Option<&[u8]>)) {
        let is_first = std::mem::replace(&mut self.is_first_line, false);
        if !std::mem::take(&mut self.has_text) {
            return self.end_event(take);
        }
        let mut line = std::mem::take(&mut self.line);
        let text = match is_first {
            true => line.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&line),
            false => &line,
        };
        if let Some(value) = data_of(text) {
            match &mut self.data {
                Some(data) => {
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
                None => self.data = Some(value.to_vec()),
            }
        }
        // Its memory serves the next line, unless it is much for a stream that may rest for long.
        if line.capacity() <= LINE_KEPT_BYTES {
            line.clear();
            self.line = line;
        }
    }

    fn end_event(&mut self, take: &mut impl FnMut(Option<&[u8]>)) {
        let data = self.data.take();
        if std::mem::take(&mut self.is_too_large) {
            take(None);
        } else if let Some(data) = data {
            take(Some(&data));
        }
    }
}

/// The value of a line `data: VALUE`; `None` for other lines.
fn data_of(line: &[u8]) -> Option<&[u8]> {
    let rest = line.strip_prefix(b"data")?;
    if rest.is_empty() {
        return Some(rest);
    }
    let value = rest.strip_prefix(b":")?;
    Some(value.strip_prefix(b" ").unwrap_or(value))
}

#[cfg(test)]
mod tests {
    use tollgate_behaviour::check;

    use super::*;

    /// The data of each event of a stream that comes in these pieces; `None` for one that was too
    /// large.
    fn events<'p>(bytes_max: usize, pieces: impl Iterator<Item = &'p [u8]>) -> Vec<Option<String>> {
        let (mut stream, mut found) = (EventStream::new(bytes_max), Vec::new());
        let mut take = |data: Option<&[u8]>| {
            found.push(data.map(|data| String::from_utf8_lossy(data).into_owned()));
        };
        for piece in pieces {
            stream.add(piece, &mut take);
            assert!(stream.event_bytes() <= bytes_max);
        }
        stream.finish(&mut take);
        found
    }

    fn some(data: &[&str]) -> Vec<Option<String>> {
        data.iter().map(|data| Some((*data).to_owned())).collect()
    }

    #[test]
    fn events_are_the_same_in_whatever_pieces_they_come() {
        let stream: &[u8] =
            b"\xef\xbb\xbfdata: 1\n\n: comment\nevent: x\ndata:2\r\ndata:  3\r\n\r\n\
            id: 7\n\ndata\rdata: 4\r\rdatax: 5\ndata : 6\n\n\n\n data: 7\n\ndata: [DONE]\ndata: 8";
        let expected = some(&["1", "2\n 3", "\n4", "[DONE]\n8"]);
        assert_eq!(events(100, [stream].into_iter()), expected);
        assert_eq!(events(100, stream.chunks(1)), expected);
        check("pieces of an event stream", 50, |random| {
            let (mut rest, mut pieces) = (stream, Vec::new());
            while !rest.is_empty() {
                let length = usize::try_from(random.between(0, 9)).unwrap_or(0);
                let (piece, next) = rest.split_at(length.min(rest.len()));
                pieces.push(piece);
                rest = next;
            }
            assert_eq!(events(100, pieces.into_iter()), expected);
        });
    }

    #[test]
    fn a_stream_keeps_little_memory_after_a_long_line() {
        let mut stream = EventStream::new(1 << 20);
        stream.add(b"data: short\n", |_| ());
        assert!(stream.kept_bytes() > 0);
        stream.add(&[b':'; 1 << 19], |_| ());
        assert!(stream.kept_bytes() >= 1 << 19);
        stream.add(b"\n\n", |_| ());
        assert!(stream.kept_bytes() <= LINE_KEPT_BYTES);
        assert!(stream.line.capacity() <= LINE_KEPT_BYTES);
    }

    #[test]
    fn an_event_that_is_too_large_is_left_out_as_a_whole() {
        let long = "y".repeat(30);
        for large in [
            format!("data: {long}\ndata: 1\n\n"),
            format!("{long}\ndata: 1\n\n"),
            "data: 123456789\ndata: 123456789\ndata: 1\n\n".to_owned(),
        ] {
            let stream = format!("data: a\n\n{large}data: b\n\n");
            let expected = [some(&["a"]), vec![None], some(&["b"])].concat();
            assert_eq!(events(20, [stream.as_bytes()].into_iter()), expected);
            assert_eq!(events(20, stream.as_bytes().chunks(3)), expected, "{large}");
        }
    }
}
