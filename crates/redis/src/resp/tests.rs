#![allow(clippy::unwrap_used)]
use super::*;

fn taken(text: &[u8]) -> Result<Option<Reply>, Malformed> {
    take(&mut BytesMut::from(text))
}

#[test]
fn a_command_is_an_array_of_bulk_strings() {
    let mut out = BytesMut::new();
    command(&mut out, 2);
    word_of(&mut out, &[b"G", b"ET"]);
    number(&mut out, 1_205);
    assert_eq!(&out[..], b"*2\r\n$3\r\nGET\r\n$4\r\n1205\r\n");
}

#[test]
fn every_kind_of_reply_is_read() {
    let text = b"*6\r\n+OK\r\n-ERR no\r\n:-7\r\n$2\r\n\r\n\r\n$-1\r\n*-1\r\n";
    let elements = vec![
        Reply::Simple(Bytes::from("OK")),
        Reply::Error(Bytes::from("ERR no")),
        Reply::Integer(-7),
        Reply::Bulk(Bytes::from("\r\n")),
        Reply::Nil,
        Reply::Nil,
    ];
    assert_eq!(taken(text), Ok(Some(Reply::Array(elements))));
}

#[test]
fn a_reply_in_pieces_is_waited_for() {
    let whole = b"*2\r\n$5\r\nhello\r\n:12\r\n";
    for cut in 0..whole.len() {
        assert_eq!(taken(&whole[..cut]), Ok(None), "cut at {cut}");
    }
    let mut two = BytesMut::from(&[&whole[..], b"+next\r\n"].concat()[..]);
    assert!(matches!(take(&mut two), Ok(Some(Reply::Array(_)))));
    assert_eq!(take(&mut two), Ok(Some(Reply::Simple(Bytes::from("next")))));
    assert!(two.is_empty());
}

#[test]
fn what_is_no_reply_is_an_error() {
    let long = [b"+".as_slice(), &vec![b'a'; LINE_BYTES_MAX + 1]].concat();
    let deep = b"*1\r\n".repeat(DEPTH_MAX + 2);
    let bad: [&[u8]; 7] = [
        b"?\r\n",
        b"\r\n",
        b"+OK\n",
        b"$-2\r\n",
        b"$99999999999\r\n",
        &deep,
        &long,
    ];
    for text in bad {
        assert!(taken(text).is_err(), "{:?}", &text[..text.len().min(20)]);
    }
}
