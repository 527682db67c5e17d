#![allow(clippy::unwrap_used)]

use std::sync::{Arc, Mutex};

use tollgate_testbed::Journal;

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
    logged_at(LevelFilter::INFO, write)
}

/// What the text log has at this level, without time and level.
fn logged_at(level: LevelFilter, write: impl FnOnce()) -> String {
    Journal::keep_enabled();
    let lines = Lines::default();
    let written = lines.clone();
    let subscriber = SubscriberBuilder::default()
        .without_time()
        .with_max_level(level)
        .with_level(false)
        .with_target(false)
        .with_ansi(false)
        .with_writer(move || written.clone())
        .fmt_fields(fields());
    let subscriber = subscriber.finish().with(targets(level));
    tracing::subscriber::with_default(subscriber, write);
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

/// A peer that resets streams as fast as it can makes h2 warn of each of them.
#[test]
fn libraries_log_errors_and_nothing_else_at_any_level() {
    let write = || {
        tracing::error!(target: "h2::proto::streams", "error of a library");
        tracing::warn!(target: "h2::proto::streams", "warning of a library");
        tracing::info!(target: "rustls::server", "news of a library");
        tracing::debug!(target: "hyper::proto", "detail of a library");
        tracing::error!(target: "tollgate_listen::accept", "our error");
        tracing::warn!(target: "tollgate_listen::accept", "our warning");
        tracing::info!(target: "tollgate_listen::accept", "our news");
        tracing::debug!(target: "tollgate", "our detail");
    };
    let lines = [
        "error of a library",
        "our error",
        "our warning",
        "our news",
        "our detail",
    ];
    for (level, count) in [
        (LevelFilter::ERROR, 2),
        (LevelFilter::WARN, 3),
        (LevelFilter::INFO, 4),
        (LevelFilter::DEBUG, 5),
    ] {
        let text = logged_at(level, write);
        let written: Vec<&str> = text.lines().map(str::trim).collect();
        assert_eq!(written, lines[..count], "{level}");
    }
}
