//! The Redis protocol.

use crate::question::{Outcomes, Question};

/// The most bytes of a reply that an error quotes.
const QUOTED_MAX: usize = 200;

/// A command as an array of strings.
pub(crate) fn command(words: &[&str]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len());
    for word in words {
        bytes += &format!("${}\r\n{word}\r\n", word.len());
    }
    bytes.into_bytes()
}

/// Reads one reply: its bytes, what it means, and its first integer. `None` if it is not complete.
///
/// # Errors
///
/// If it is an error, or means nothing.
pub(crate) fn read(
    question: Question,
    input: &[u8],
) -> Result<Option<(usize, Outcomes, i64)>, String> {
    let mut first = None;
    let Some(bytes) = skip(input, &mut first)? else {
        return Ok(None);
    };
    let outcome = first.and_then(|number| question.judge_integer(number));
    match (outcome, first) {
        (Some(outcome), Some(number)) => Ok(Some((bytes, outcome.into(), number))),
        _ => Err(quote(&input[..bytes])),
    }
}

/// The bytes of one reply, whose first integer is noted.
fn skip(input: &[u8], first: &mut Option<i64>) -> Result<Option<usize>, String> {
    let Some((kind, number, mut at)) = line(input)? else {
        return Ok(None);
    };
    match kind {
        b':' => {
            first.get_or_insert(number);
        }
        b'$' => at += usize::try_from(number).map_or(0, |length| length + 2),
        b'*' => {
            for _ in 0..number {
                let Some(bytes) = skip(&input[at..], first)? else {
                    return Ok(None);
                };
                at += bytes;
            }
        }
        _ => return Err(quote(input)),
    }
    Ok((at <= input.len()).then_some(at))
}

/// The kind of a line, its number, and its length.
fn line(input: &[u8]) -> Result<Option<(u8, i64, usize)>, String> {
    let Some((kind, rest)) = input.split_first() else {
        return Ok(None);
    };
    let (mut number, mut sign) = (0_i64, 1);
    for (index, byte) in rest.iter().enumerate() {
        match byte {
            b'0'..=b'9' => number = number * 10 + i64::from(byte - b'0'),
            b'-' if index == 0 => sign = -1,
            b'\r' if rest.len() > index + 1 => return Ok(Some((*kind, sign * number, index + 3))),
            b'\r' => return Ok(None),
            _ => return Err(quote(input)),
        }
    }
    Ok(None)
}

fn quote(input: &[u8]) -> String {
    let shown = &input[..input.len().min(QUOTED_MAX)];
    format!("the reply {:?}", String::from_utf8_lossy(shown))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_read_when_they_are_complete() {
        let reply = b"*5\r\n:1\r\n:16\r\n:0\r\n:-1\r\n$2\r\nok\r\n";
        let read = |input: &[u8]| read(Question::ClThrottle, input);
        for end in 0..reply.len() {
            assert_eq!(read(&reply[..end]), Ok(None), "{end}");
        }
        let two = [&reply[..], b":7"].concat();
        assert_eq!(read(&two), Ok(Some((reply.len(), Outcomes::DENIED, 1))));
        assert!(read(b"-ERR no\r\n").is_err());
        assert!(read(b"*1\r\n:7\r\n").is_err(), "neither allowed nor denied");
    }
}
