//! What is spoken on a listener.

/// The protocol of a listener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// HTTP/1.0 and HTTP/1.1.
    Http1,
    /// HTTP/2 with prior knowledge, as gRPC has it.
    Http2,
    /// Either of them: a connection that begins with HTTP/2's preface speaks it.
    Any,
    /// That of a [`StreamHandler`](crate::StreamHandler).
    Other,
}
