//! HTTP/1.1.

use crate::question::{Outcomes, Question};
use crate::template::KEY;

/// A response whose head is larger than this is not read.
const HEAD_BYTES_MAX: usize = 8 * 1024;

/// A request with a JSON body.
pub(crate) fn post(path: &str, body: &str) -> Vec<u8> {
    debug_assert!(body.contains(KEY), "the body has the key");
    format!(
        "POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// Reads one response: its bytes and what it means. `None` if it is not complete.
///
/// # Errors
///
/// If it means nothing.
pub(crate) fn read(
    question: Question,
    input: &[u8],
) -> Result<Option<(usize, Outcomes, i64)>, String> {
    let Some(head) = input.windows(4).position(|end| end == b"\r\n\r\n") else {
        return match input.len() <= HEAD_BYTES_MAX {
            true => Ok(None),
            false => Err("a response without an end of its head".to_owned()),
        };
    };
    let quote = |end: usize| format!("the response {:?}", String::from_utf8_lossy(&input[..end]));
    let (status, length) = parse_head(&input[..head]).ok_or_else(|| quote(head))?;
    let end = head + 4 + length;
    let Some(body) = input.get(head + 4..end) else {
        return Ok(None);
    };
    let outcomes = question.judge_response(status, body);
    let outcomes = outcomes.ok_or_else(|| quote(end))?;
    Ok(Some((end, outcomes, 0)))
}

/// The status and the length of the body.
fn parse_head(head: &[u8]) -> Option<(u16, usize)> {
    let status = str::from_utf8(head.get(9..12)?).ok()?.parse().ok()?;
    let name = b"content-length:";
    let mut lines = head.split(|byte| *byte == b'\n');
    let value = lines.find_map(|line| {
        let (found, value) = line.split_at_checked(name.len())?;
        found.eq_ignore_ascii_case(name).then_some(value)
    });
    let length = str::from_utf8(value?).ok()?.trim().parse().ok()?;
    Some((status, length))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn responses_are_read_when_they_are_complete() {
        let response = b"HTTP/1.1 429 Too Many\r\nA: b\r\nContent-length: 2\r\n\r\n{}";
        let read = |input: &[u8]| read(Question::Check, input);
        for end in 0..response.len() {
            assert_eq!(read(&response[..end]), Ok(None), "{end}");
        }
        let two = [&response[..], b"HTTP"].concat();
        assert_eq!(read(&two), Ok(Some((response.len(), Outcomes::DENIED, 0))));
        assert!(read(b"HTTP/1.1 503 x\r\nContent-Length: 0\r\n\r\n").is_err());
        assert!(read(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").is_err());
    }
}
