//! Fields of encoded messages.

use prost::DecodeError;
use prost::encoding::{self, DecodeContext, WireType};

/// A field of a message.
pub(crate) struct Field<'m> {
    pub(crate) number: u32,
    /// All of it.
    pub(crate) bytes: &'m [u8],
    /// Its value, if that has a length of its own.
    pub(crate) value: Option<&'m [u8]>,
}

/// Says where an error is, as the library does.
pub(crate) fn within(
    message: &'static str,
    field: &'static str,
) -> impl FnOnce(DecodeError) -> DecodeError {
    move |mut error| {
        error.push(message, field);
        error
    }
}

// === impl Field ===

impl<'m> Field<'m> {
    /// The first field of a message, which is left without it; `None` if it begins with none.
    pub(crate) fn take(message: &mut &'m [u8]) -> Option<Field<'m>> {
        let mut rest = *message;
        let (number, kind) = encoding::decode_key(&mut rest).ok()?;
        let mut value = rest;
        encoding::skip_field(kind, number, &mut rest, DecodeContext::default()).ok()?;
        let bytes = &message[..message.len() - rest.len()];
        *message = rest;
        let has_length = kind == WireType::LengthDelimited;
        Some(Field {
            number,
            bytes,
            value: has_length.then(|| {
                let length = encoding::decode_varint(&mut value);
                debug_assert!(length.is_ok(), "it was skipped");
                &value[..value.len() - rest.len()]
            }),
        })
    }
}
