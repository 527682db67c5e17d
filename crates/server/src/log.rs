//! The log's destination and format.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::fmt::{self, Debug};
use std::io;
use std::panic::{self, PanicHookInfo};

use tracing::field::Field;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::field::MakeExt as _;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::{Writer, debug_fn};
use tracing_subscriber::fmt::{FormatFields, SubscriberBuilder};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{Log, LogFormat, LogLevel};

pub use output::LogGuard;
pub(crate) use output::lost_lines;

mod output;

/// Sends the logs of this process to standard error, and panics to the log, from now on.
///
/// Logs name domains, rules and limits, never what clients send. A reader of the log that is slow
/// or gone loses lines, and delays nothing: the metric `log_dropped` counts them.
///
/// # Errors
///
/// If the process already has a logger, or the system has no thread for the log.
pub fn init(log: &Log) -> Result<LogGuard, Box<dyn std::error::Error + Send + Sync>> {
    let level = match log.level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    };
    let targets = targets(level);
    let (lines, guard) = output::start()?;
    let builder = SubscriberBuilder::default()
        .with_max_level(level)
        .with_target(false)
        .with_ansi(io::IsTerminal::is_terminal(&io::stderr()))
        // They would be printed, and a print that fails is a panic.
        .log_internal_errors(false)
        .with_writer(move || lines.clone());
    match log.format {
        LogFormat::Text => {
            let text = builder.fmt_fields(fields());
            text.finish().with(targets).try_init()?;
        }
        LogFormat::Json => {
            let json = builder.json().flatten_event(true);
            json.finish().with(targets).try_init()?;
        }
    }
    panic::set_hook(Box::new(log_panic));
    Ok(guard)
}

/// Logs a panic, with a backtrace if the environment demands one. The standard library's own
/// message would wait for a reader of standard error.
fn log_panic(panic: &PanicHookInfo<'_>) {
    let backtrace = Backtrace::capture();
    let backtrace = match backtrace.status() {
        BacktraceStatus::Captured => Some(backtrace),
        _ => None,
    };
    tracing::error!(
        backtrace = backtrace.as_ref().map(tracing::field::display),
        "a part of the program has failed, please report it: {panic}"
    );
}

/// From other crates only errors: their details may repeat what clients send, and clients can cause
/// any number of their warnings. Our own lines report what clients do wrong.
fn targets(level: LevelFilter) -> Targets {
    Targets::new()
        .with_default(level.min(LevelFilter::ERROR))
        .with_target("tollgate", level)
}

/// Logs why the service does not start, for programs that read its log.
pub fn log_start_error(text: &str) {
    tracing::error!("{}", text.trim_end());
}

/// The message and then the fields as `name=value`, so that lines can be parsed.
fn fields() -> impl for<'writer> FormatFields<'writer> + 'static {
    debug_fn(write_field).delimited(" ")
}

fn write_field(writer: &mut Writer<'_>, field: &Field, value: &dyn Debug) -> fmt::Result {
    let text = format!("{value:?}");
    match field.name() {
        "message" => write_message(writer, &text),
        name => {
            write!(writer, "{name}=")?;
            match is_word(&text) || is_quoted(&text) {
                true => writer.write_str(&text),
                false => write!(writer, "{text:?}"),
            }
        }
    }
}

/// Escapes control characters, so that no message begins another line or controls a terminal.
fn write_message(writer: &mut Writer<'_>, text: &str) -> fmt::Result {
    text.chars().try_for_each(|char| match char.is_control() {
        true => write!(writer, "{}", char.escape_debug()),
        false => writer.write_char(char),
    })
}

fn is_word(text: &str) -> bool {
    let ends = |char: char| char.is_whitespace() || char.is_control() || "\"=".contains(char);
    !text.is_empty() && !text.contains(ends)
}

/// Whether it is one quoted string, as `Debug` of a string writes it.
fn is_quoted(text: &str) -> bool {
    let inner = text
        .strip_prefix('"')
        .and_then(|text| text.strip_suffix('"'));
    let Some(inner) = inner else { return false };
    let mut is_escaped = false;
    for char in inner.chars() {
        if char.is_control() || (char == '"' && !is_escaped) {
            return false;
        }
        is_escaped = char == '\\' && !is_escaped;
    }
    !is_escaped
}

#[cfg(test)]
mod tests;
