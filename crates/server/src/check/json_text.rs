//! Values of JSON, appended to bytes. Most of an answer is texts that never change and need no
//! escape; a serialiser would take several calls for each of them.

use tollgate_core::{Escaped, Span};
use tollgate_rls::DurationText;

/// Appends a text, in quotes.
pub(super) fn write_text(text: &str, out: &mut Vec<u8>) {
    if !text.bytes().all(is_plain) {
        serde_json::to_writer(out, text).expect("a text can be written to memory");
        return;
    }
    write_plain(text.as_bytes(), out);
}

/// Appends bytes of a client as [`Escaped`] displays them, in quotes.
pub(super) fn write_escaped(bytes: &[u8], out: &mut Vec<u8>) {
    // What `Escaped` leaves as it is, and JSON too.
    let is_displayed = |byte: u8| is_plain(byte) && (b' '..=b'~').contains(&byte);
    if !bytes.iter().copied().all(is_displayed) {
        write_text(&Escaped(bytes).to_string(), out);
        return;
    }
    write_plain(bytes, out);
}

/// Appends a whole number.
pub(super) fn write_number(number: impl itoa::Integer, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Appends a time as proto3 writes it, in quotes.
pub(super) fn write_duration(span: Span, out: &mut Vec<u8>) {
    out.push(b'"');
    DurationText(span).write(out);
    out.push(b'"');
}

/// Appends a time as rules files have it, in quotes.
pub(super) fn write_span(span: Span, out: &mut Vec<u8>) {
    out.push(b'"');
    if span.is_zero() {
        out.extend_from_slice(b"0s");
    }
    for (number, unit) in span.units() {
        write_number(number, out);
        out.extend_from_slice(unit.as_bytes());
    }
    out.push(b'"');
}

pub(super) fn write_flag(flag: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(if flag { b"true" } else { b"false" });
}

/// Appends a text that needs no escape, in quotes.
pub(super) fn write_plain(text: &[u8], out: &mut Vec<u8>) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    out.extend_from_slice(text);
    out.push(b'"');
}

/// Whether JSON has a byte of a text as it is.
const fn is_plain(byte: u8) -> bool {
    byte >= b' ' && byte != b'"' && byte != b'\\'
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = b"x".to_vec();
        write(&mut out);
        String::from_utf8(out.split_off(1)).expect("JSON is text")
    }

    #[test]
    fn times_are_written_as_they_are_displayed() {
        let mut nanos = 1u64;
        let mut spans = vec![Span::ZERO, Span::from_nanos(u64::MAX)];
        for step in 0..200 {
            nanos = nanos
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            spans.push(Span::from_nanos(nanos >> (step % 64)));
            spans.push(Span::from_secs(step * 3600));
        }
        for span in spans {
            assert_eq!(written(|out| write_span(span, out)), format!("\"{span}\""));
        }
    }

    #[test]
    fn texts_are_written_as_a_serialiser_writes_them() {
        let mut texts: Vec<String> = (0..=0x250)
            .filter_map(char::from_u32)
            .map(String::from)
            .collect();
        texts.extend(
            [
                "",
                "plain",
                "a\"b\\c",
                "caf\u{e9}\u{2028}",
                "\u{202e}x\u{1f600}",
            ]
            .map(String::from),
        );
        for text in &texts {
            let around = format!("a{text}b");
            let expected = serde_json::to_string(&around).expect("texts can be written");
            assert_eq!(written(|out| write_text(&around, out)), expected);
            let shown = Escaped(around.as_bytes()).to_string();
            let expected = serde_json::to_string(&shown).expect("texts can be written");
            assert_eq!(
                written(|out| write_escaped(around.as_bytes(), out)),
                expected
            );
        }
        for byte in 0..=u8::MAX {
            let shown = Escaped(&[b'a', byte]).to_string();
            let expected = serde_json::to_string(&shown).expect("texts can be written");
            assert_eq!(written(|out| write_escaped(&[b'a', byte], out)), expected);
        }
    }
}
