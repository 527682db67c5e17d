#![allow(clippy::unwrap_used)]

use super::*;

type Words = Vec<Vec<u8>>;

/// Every command of the input, and the error that ends it, if one does.
fn commands(input: &[u8]) -> (Vec<Words>, Option<ProtocolError>) {
    let mut parser = Parser::default();
    let (mut found, mut rest) = (Vec::new(), input);
    loop {
        match parser.next(rest) {
            Ok(Some(command)) => {
                found.push(command.words(0).map(<[u8]>::to_vec).collect());
                rest = &rest[command.length()..];
            }
            Ok(None) => return (found, None),
            Err(error) => return (found, Some(error)),
        }
    }
}

/// The only command of the input.
fn command(input: &[u8]) -> Words {
    match commands(input) {
        (mut found, None) if found.len() == 1 => found.remove(0),
        other => panic!("{other:?}"),
    }
}

fn words(words: &[&[u8]]) -> Words {
    words.iter().map(|word| word.to_vec()).collect()
}

#[test]
fn words_are_any_bytes() {
    let input = b"*3\r\n$4\r\nECHO\r\n$0\r\n\r\n$4\r\n\0\r\n\xff\r\n";
    assert_eq!(command(input), words(&[b"ECHO", b"", b"\0\r\n\xff"]));
    let long = vec![b'x'; WORD_BYTES_MAX];
    let input = [b"*1\r\n$65536\r\n", &long[..], b"\r\n"].concat();
    assert_eq!(command(&input), words(&[&long]));
}

#[test]
fn commands_without_words_have_no_reply() {
    for input in [
        &b"*0\r\n"[..],
        b"*-1\r\n",
        b"*-9\r\n",
        b"\r\n",
        b"\n",
        b"  \n",
    ] {
        assert!(command(input).is_empty(), "{input:?}");
    }
}

#[test]
fn people_type_lines() {
    let cases: [(&[u8], &[&[u8]]); 9] = [
        (b"PING\r\n", &[b"PING"]),
        (b" set  k \tv \n", &[b"set", b"k", b"v"]),
        (b"a \"b c\" ''\n", &[b"a", b"b c", b""]),
        (b"\"\\x41\\n\\\"\\q\\xg\"\n", &[b"A\n\"qxg"]),
        (b"'it\\'s' '\\x41'\n", &[b"it's", b"\\x41"]),
        (b"a\"b\" c\n", &[b"ab", b"c"]),
        (b"a\0b\n", &[b"a", b"b"]),
        (b"\xff\xfe\r\n", &[b"\xff\xfe"]),
        (b"$5\r\n", &[b"$5"]),
    ];
    for (input, expected) in cases {
        assert_eq!(command(input), words(expected), "{input:?}");
    }
}

/// What arrives, and the error that it is.
const MALFORMED: [(&[u8], ProtocolError, &str); 12] = [
    (b"*x\r\n", ProtocolError::WordCount, COUNT),
    (b"*\r\n", ProtocolError::WordCount, COUNT),
    (b"*+1\r\n", ProtocolError::WordCount, COUNT),
    (b"*01\r\n", ProtocolError::WordCount, COUNT),
    (b"*1\rx", ProtocolError::WordCount, COUNT),
    (b"*1025\r\n", ProtocolError::WordCount, COUNT),
    (
        b"*99999999999999999999\r\n",
        ProtocolError::WordCount,
        COUNT,
    ),
    (b"*1\r\n$-1\r\n", ProtocolError::WordLength, LENGTH),
    (b"*1\r\n$65537\r\n", ProtocolError::WordLength, LENGTH),
    (b"*1\r\n$2\r\nabc\r\n", ProtocolError::NoEnd, "no line end"),
    (b"a \"b\n", ProtocolError::Quotes, QUOTES),
    (b"\"a\"b\n", ProtocolError::Quotes, QUOTES),
];
const COUNT: &str = "invalid multibulk length";
const LENGTH: &str = "invalid bulk length";
const QUOTES: &str = "unbalanced quotes in request";

fn fails(input: &[u8], expected: ProtocolError, text: &str) {
    let (_, error) = commands(input);
    let shown = input[..input.len().min(30)].escape_ascii();
    assert_eq!(error, Some(expected), "{shown}");
    let shown = expected.to_string();
    assert!(shown.starts_with("Protocol error: "), "{shown}");
    assert!(shown.contains(text), "{shown}");
}

#[test]
fn errors_are_those_of_redis() {
    for (input, expected, text) in MALFORMED {
        fails(input, expected, text);
    }
    let kind = ProtocolError::NoBulkString(b':');
    fails(b"*1\r\n:1\r\n", kind, "expected '$', got ':'");
}

#[test]
fn what_is_too_long_is_an_error() {
    let digits = [b"*".to_vec(), vec![b'1'; LINE_BYTES_MAX + 1]].concat();
    fails(&digits, ProtocolError::LongWordCount, "too big mbulk count");
    let ended = [&digits[..], b"\r\n"].concat();
    fails(&ended, ProtocolError::LongWordCount, "too big mbulk count");
    let word = vec![b'x'; WORD_BYTES_MAX];
    let half = [format!("${WORD_BYTES_MAX}\r\n").as_bytes(), &word, b"\r\n"].concat();
    let whole = [b"*3\r\n", &half[..], &half[..], b"$1\r\n"].concat();
    fails(&whole, ProtocolError::LongCommand, "too big command");
    let line = |length| [vec![b'a'; length], b"\n".to_vec()].concat();
    let longer = line(LINE_BYTES_MAX + 1);
    fails(&longer, ProtocolError::LongLine, "too big inline request");
    assert_eq!(command(&line(LINE_BYTES_MAX))[0].len(), LINE_BYTES_MAX);
}

#[test]
fn what_never_ends_is_not_waited_for() {
    let mut parser = Parser::default();
    for endless in [&b"a"[..], b"*1", b"*1\r\n$1"] {
        let mut input = endless.to_vec();
        let mut bytes = endless.len();
        let error = loop {
            input.resize(bytes, b'1');
            match parser.next(&input) {
                Ok(Some(command)) => panic!("{command:?}"),
                Ok(None) => bytes += 1000,
                Err(error) => break error,
            }
        };
        assert!(bytes <= LINE_BYTES_MAX + 2000, "{error}");
        parser = Parser::default();
    }
}

#[test]
fn a_line_has_as_many_words_as_an_array() {
    let line = |word: &[u8], count: usize| [word.repeat(count), b"\r\n".to_vec()].concat();
    for word in [&b"a "[..], b"'' ", b"\"a\" "] {
        assert_eq!(command(&line(word, WORDS_MAX)).len(), WORDS_MAX);
        fails(&line(word, WORDS_MAX + 1), ProtocolError::WordCount, COUNT);
    }
}

/// A connection is idle for hours.
#[test]
fn a_parser_keeps_little_of_what_it_has_read() {
    let many = b"'a' ".repeat(WORDS_MAX);
    let long = [b"'".to_vec(), vec![b'a'; LINE_BYTES_MAX - 2], b"'".to_vec()].concat();
    let array = [b"*1024\r\n".to_vec(), b"$1\r\na\r\n".repeat(WORDS_MAX)].concat();
    let mut parser = Parser::default();
    for input in [
        [many, b"\n".to_vec()].concat(),
        [long, b"\n".to_vec()].concat(),
        array,
    ] {
        let length = parser.next(&input).unwrap().unwrap().length();
        assert!(parser.next(&input[length..]).unwrap().is_none());
        let kept = parser.places.capacity() * size_of::<Place>() + parser.unquoted.capacity();
        assert!(kept <= 2048, "{kept}");
    }
}
