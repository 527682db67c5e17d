//! A request in JSON of any bytes.

use prost::Message;
use tollgate_rls::RateLimitRequest;

/// Reads the input as a request, and what was read once more in its binary form.
///
/// # Panics
///
/// If reading does, or what was read and written is not read as the same.
pub fn request(input: &[u8]) {
    let message = match tollgate_rls::read(input) {
        Ok(message) => message,
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
