#![allow(clippy::unwrap_used)]

use std::sync::{Arc, Mutex};

use super::*;

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A line of the text log, without time and level.
fn logged(write: impl FnOnce()) -> String {
    let lines = Lines::default();
    let written = lines.clone();
    let subscriber = SubscriberBuilder::default()
        .without_time()
        .with_level(false)
        .with_target(false)
        .with_ansi(false)
        .with_writer(move || written.clone())
        .fmt_fields(fields());
    tracing::subscriber::with_default(subscriber.finish(), write);
    let bytes = lines.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

#[test]
fn fields_that_are_not_one_word_are_quoted() {
    let error = io::Error::other("no \"such\" file");
    let line = logged(|| {
        tracing::info!(count = 3, text = "a b", %error, plain = %"word", "it is so");
    });
    let expected = r#"it is so count=3 text="a b" error="no \"such\" file" plain=word"#;
    assert_eq!(line.trim(), expected);
    let line = logged(|| {
        tracing::info!(empty = %"", pair = %"a=b", two = %"\"a\" b=\"c\"", list = ?[1, 2], "m");
    });
    let expected = r#"m empty="" pair="a=b" two="\"a\" b=\"c\"" list="[1, 2]""#;
    assert_eq!(line.trim(), expected);
}

#[test]
fn no_logged_text_begins_a_line() {
    let line = logged(|| {
        let forged = "x\n2026 INFO forged\u{1b}[2J";
        tracing::info!(shown = %forged, said = forged, "{forged}");
    });
    let escaped = r"x\n2026 INFO forged\u{1b}[2J";
    assert_eq!(
        line,
        format!("{escaped} shown=\"{escaped}\" said=\"{escaped}\"\n")
    );
}
