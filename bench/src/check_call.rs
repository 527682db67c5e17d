//! Calls of `/v1/check` over a connection of HTTP/1.1.

use std::error::Error;
use std::io::BufRead;

/// A request with this body.
pub fn request(body: &str) -> String {
    format!(
        "POST /v1/check HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Reads an answer to its end.
///
/// # Errors
///
/// If it does not allow the request, or cannot be read.
pub fn read_allowed(input: &mut impl BufRead) -> Result<(), Box<dyn Error>> {
    let (mut length, mut line) = (0, String::new());
    input.read_line(&mut line)?;
    if !line.starts_with("HTTP/1.1 200 ") {
        return Err(format!("/v1/check answers {line:?}").into());
    }
    while line != "\r\n" {
        line.clear();
        input.read_line(&mut line)?;
        if let Some(value) = line.strip_prefix("content-length: ") {
            length = value.trim().parse()?;
        }
    }
    input.read_exact(&mut vec![0; length])?;
    Ok(())
}
