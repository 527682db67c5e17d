//! Commands of the Redis protocol of arbitrary bytes.

use tollgate_resp::{COMMAND_BYTES_MAX, Parser, ProtocolError, WORD_BYTES_MAX, WORDS_MAX};

type Found = (Vec<Vec<Vec<u8>>>, Option<ProtocolError>);

/// Parses the input, all at once and byte by byte.
///
/// # Panics
///
/// If parsing panics, if the commands differ, or if one exceeds its bounds.
pub fn commands(input: &[u8]) {
    let whole = parse(input, input.len().max(1));
    assert_eq!(parse(input, 1), whole);
}

/// Every command of the input, which arrives in pieces of this length.
fn parse(input: &[u8], piece: usize) -> Found {
    let mut parser = Parser::default();
    let (mut found, mut taken, mut arrived) = (Vec::new(), 0, 0);
    loop {
        match parser.next(&input[taken..arrived]) {
            Ok(Some(command)) => {
                assert!(command.len() <= WORDS_MAX);
                assert!(command.length() <= COMMAND_BYTES_MAX);
                assert!(command.words(0).all(|word| word.len() <= WORD_BYTES_MAX));
                found.push(command.words(0).map(<[u8]>::to_vec).collect());
                taken += command.length();
            }
            Ok(None) if arrived == input.len() => return (found, None),
            Ok(None) => arrived = input.len().min(arrived + piece),
            Err(error) => return (found, Some(error)),
        }
    }
}
