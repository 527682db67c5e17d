//! HTTP/2 frames as bytes: just enough for requests that no correct client sends.

/// The connection preface.
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The size of a frame's header.
pub(crate) const HEAD_BYTES: usize = 9;
/// The largest payload that a server must accept.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 16 * 1024;
/// HTTP/2's initial flow-control window, of a connection and of a stream.
pub(crate) const WINDOW: u32 = 65_535;
/// The method that decides.
pub(crate) const DECIDE: &[u8] = b"/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";
/// The method with a stream of decisions.
pub(crate) const CHECK: &[u8] = b"/tollgate.v1.Decisions/Check";
/// Another one with a stream of messages.
pub(crate) const REFLECT: &[u8] = b"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";

/// Frame types of RFC 9113.
pub(crate) mod kind {
    pub(crate) const DATA: u8 = 0;
    pub(crate) const HEADERS: u8 = 1;
    pub(crate) const RST_STREAM: u8 = 3;
    pub(crate) const SETTINGS: u8 = 4;
    pub(crate) const PING: u8 = 6;
    pub(crate) const GOAWAY: u8 = 7;
    pub(crate) const WINDOW_UPDATE: u8 = 8;
    pub(crate) const CONTINUATION: u8 = 9;
}

/// Frame flags of RFC 9113.
pub(crate) mod flag {
    pub(crate) const NONE: u8 = 0;
    pub(crate) const ACK: u8 = 1;
    pub(crate) const END_STREAM: u8 = 1;
    pub(crate) const END_HEADERS: u8 = 4;
}

/// The header of a received frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head {
    pub(crate) length: usize,
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
}

// === impl Head ===

impl Head {
    pub(crate) fn parse(bytes: [u8; HEAD_BYTES]) -> Head {
        let [a, b, c, kind, flags, d, e, f, g] = bytes;
        let length = u32::from_be_bytes([0, a, b, c]);
        Head {
            length: usize::try_from(length).unwrap_or(usize::MAX),
            kind,
            flags,
            stream: u32::from_be_bytes([d, e, f, g]) & (u32::MAX >> 1),
        }
    }
}

/// Appends a frame.
pub(crate) fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let length = u32::try_from(payload.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&length.to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

/// The preface and the settings, with the window for each stream's response.
pub(crate) fn hello(window: u32) -> Vec<u8> {
    let mut out = PREFACE.to_vec();
    // SETTINGS_INITIAL_WINDOW_SIZE is setting 4.
    let mut setting = vec![0, 4];
    setting.extend_from_slice(&window.to_be_bytes());
    frame(&mut out, kind::SETTINGS, flag::NONE, 0, &setting);
    out
}

/// A header block: the call that decides, and other fields.
pub(crate) fn call(fields: &[(&[u8], &[u8])]) -> Vec<u8> {
    call_of(DECIDE, fields)
}

/// A header block for any method. No field enters the dynamic table.
pub(crate) fn call_of(path: &[u8], fields: &[(&[u8], &[u8])]) -> Vec<u8> {
    // `:method: POST`, `:scheme: http`, then `:path` and `:authority` with values of their own.
    let mut block = vec![0x83, 0x86, 0x04];
    text(&mut block, path);
    block.push(0x01);
    text(&mut block, b"attack");
    for (name, value) in [
        (&b"content-type"[..], &b"application/grpc"[..]),
        (b"te", b"trailers"),
    ] {
        field(&mut block, name, value);
    }
    for (name, value) in fields {
        field(&mut block, name, value);
    }
    block
}

/// Appends a whole call: so many descriptors of the key `k` with this value.
pub(crate) fn write_call(out: &mut Vec<u8>, stream: u32, value: &[u8], descriptors: usize) {
    frame(out, kind::HEADERS, flag::END_HEADERS, stream, &call(&[]));
    let question = message(value, descriptors);
    frame(out, kind::DATA, flag::END_STREAM, stream, &question);
}

fn field(block: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    block.push(0x00);
    text(block, name);
    text(block, value);
}

/// A string of HPACK, without Huffman coding.
fn text(block: &mut Vec<u8>, text: &[u8]) {
    let length = text.len();
    match u8::try_from(length) {
        Ok(short) if short < 127 => block.push(short),
        _ => {
            block.push(127);
            let mut rest = length - 127;
            while rest >= 128 {
                block.push(u8::try_from(rest % 128).unwrap_or(0) | 128);
                rest /= 128;
            }
            block.push(u8::try_from(rest).unwrap_or(0));
        }
    }
    block.extend_from_slice(text);
}

/// A gRPC message: a length, and a request for `descriptors` of the key `k` with this value.
pub(crate) fn message(value: &[u8], descriptors: usize) -> Vec<u8> {
    let mut entry = Vec::new();
    write_field(&mut entry, 1, b"k");
    write_field(&mut entry, 2, value);
    let mut descriptor = Vec::new();
    write_field(&mut descriptor, 1, &entry);
    let mut request = Vec::new();
    write_field(&mut request, 1, b"d");
    for _ in 0..descriptors {
        write_field(&mut request, 2, &descriptor);
    }
    with_length(&request)
}

/// A gRPC message: its length, and itself.
pub(crate) fn with_length(message: &[u8]) -> Vec<u8> {
    let mut out = vec![0];
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(message);
    out
}

/// A length-delimited protobuf field.
pub(crate) fn write_field(out: &mut Vec<u8>, number: u8, bytes: &[u8]) {
    out.push(number << 3 | 2);
    let mut rest = bytes.len();
    while rest >= 128 {
        out.push(u8::try_from(rest % 128).unwrap_or(0) | 128);
        rest /= 128;
    }
    out.push(u8::try_from(rest).unwrap_or(0));
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_read_as_it_was_written() {
        let mut out = Vec::new();
        frame(&mut out, kind::PING, flag::ACK, 7, &[1; 8]);
        let head = Head::parse(out[..HEAD_BYTES].try_into().expect("nine bytes"));
        assert_eq!((head.length, head.kind), (8, kind::PING));
        assert_eq!((head.flags, head.stream), (flag::ACK, 7));
    }

    #[test]
    fn long_texts_have_long_lengths() {
        let mut block = Vec::new();
        text(&mut block, &[b'x'; 1337]);
        assert_eq!(block[..3], [127, 0b1011_1010, 9]);
        let message = message(&[b'v'; 300], 2);
        let length = message[1..5].try_into().map(u32::from_be_bytes);
        let length = length.expect("four bytes");
        assert_eq!(length, u32::try_from(message.len() - 5).expect("small"));
    }
}
