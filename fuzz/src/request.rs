//! A request in JSON, of arbitrary bytes.

use prost::Message;
use tollgate_rls::RateLimitRequest;

/// Parses the input as a request, encodes it as protobuf, and parses that.
///
/// # Panics
///
/// If parsing panics, or the second request differs from the first.
pub fn request(input: &[u8]) {
    let message = match tollgate_rls::read(input) {
        Ok(read) => read.message,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    let written = message.encode_to_vec();
    let again = RateLimitRequest::decode(written.as_slice());
    assert_eq!(again.as_ref(), Ok(&message));
    match tollgate_rls::request(&message) {
        Ok(request) => assert_eq!(request.descriptors.len(), message.descriptors.len()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
