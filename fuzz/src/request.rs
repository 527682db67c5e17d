//! A request in JSON of any bytes.

/// Reads the input as a request, and what was read once more.
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
    let written = serde_json::to_vec(&message).expect("a message can be written");
    let again = tollgate_rls::read(&written).expect("what was written can be read");
    assert_eq!(again, message);
    match tollgate_rls::request(&message) {
        Ok(request) => assert_eq!(request.descriptors.len(), message.descriptors.len()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}
