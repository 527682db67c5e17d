//! Any bytes, in any pieces.

use redis_protocol::resp2::decode::decode;
use redis_protocol::resp2::types::OwnedFrame;
use tollgate_behaviour::{Random, check};
use tollgate_resp::{Parser, ProtocolError};

type Words = Vec<Vec<u8>>;
type Found = (Vec<Words>, Option<ProtocolError>);

/// Every command of the input, which arrives in pieces of these lengths.
fn commands(input: &[u8], mut piece: impl FnMut() -> usize) -> Found {
    let mut parser = Parser::default();
    let (mut found, mut taken, mut arrived) = (Vec::new(), 0, 0);
    loop {
        match parser.next(&input[taken..arrived]) {
            Ok(Some(command)) => {
                found.push(command.words(0).map(<[u8]>::to_vec).collect());
                taken += command.length();
            }
            Ok(None) if arrived == input.len() => return (found, None),
            Ok(None) => arrived = input.len().min(arrived + piece()),
            Err(error) => return (found, Some(error)),
        }
    }
}

fn word(random: &mut Random) -> Vec<u8> {
    let bytes = random.small(0, 12);
    (0..bytes)
        .map(|_| random.pick(b"\0\r\n$*:aZ0 \"'\\\xff"))
        .collect()
}

/// A command as clients write it, sometimes with a byte replaced.
fn written(random: &mut Random) -> Vec<u8> {
    let words: Vec<Vec<u8>> = (0..random.small(0, 5)).map(|_| word(random)).collect();
    if random.chance(20) {
        let line = words.concat();
        return [&line[..], b"\r\n"].concat();
    }
    let mut out = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(&word);
        out.extend_from_slice(b"\r\n");
    }
    if random.chance(10) {
        let last = u64::try_from(out.len() - 1).expect("short");
        let at = usize::try_from(random.between(0, last)).expect("short");
        out[at] = random.pick(b"\0\r\n$*-+01239x");
    }
    out
}

fn input(random: &mut Random) -> Vec<u8> {
    (0..random.small(1, 6))
        .flat_map(|_| written(random))
        .collect()
}

#[test]
fn the_pieces_in_which_bytes_arrive_make_no_difference() {
    check("pieces", 20_000, |random| {
        let input = input(random);
        let whole = commands(&input, || input.len());
        assert_eq!(commands(&input, || 1), whole, "{}", input.escape_ascii());
        let pieces = commands(&input, || {
            usize::try_from(random.between(1, 9)).expect("short")
        });
        assert_eq!(pieces, whole, "{}", input.escape_ascii());
    });
}

/// The words of a frame that is an array of bulk strings.
fn words_of(frame: OwnedFrame) -> Option<Words> {
    let OwnedFrame::Array(frames) = frame else {
        return None;
    };
    let words = frames.into_iter().map(|frame| match frame {
        OwnedFrame::BulkString(word) => Some(word),
        _ => None,
    });
    words.collect()
}

#[test]
fn another_parser_finds_the_same_arrays() {
    let mut compared = 0;
    check("another parser", 20_000, |random| {
        let input = input(random);
        let mut parser = Parser::default();
        let mut rest = &input[..];
        while rest.first() == Some(&b'*') {
            let expected = decode(rest);
            match (parser.next(rest), expected) {
                (Ok(Some(command)), Ok(Some((frame, bytes)))) => {
                    let words: Words = command.words(0).map(<[u8]>::to_vec).collect();
                    assert_eq!(Some(words), words_of(frame), "{}", rest.escape_ascii());
                    assert_eq!(command.length(), bytes, "{}", rest.escape_ascii());
                    compared += 1;
                    rest = &rest[bytes..];
                }
                (Ok(None), Ok(None)) => return,
                // The other one wants no line end behind a word, and takes every kind of frame and
                // every spelling of a number.
                (Err(_), _) => return,
                // Redis ignores arrays with a negative number of words; clients send none.
                (Ok(Some(command)), _) if command.is_empty() => return,
                (found, expected) => {
                    panic!("{found:?} and {expected:?}: {}", rest.escape_ascii())
                }
            }
        }
    });
    assert!(compared > 10_000, "{compared}");
}
