//! Where logs go and what they look like.

use std::io;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::SubscriberBuilder;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::{Log, LogFormat, LogLevel};

/// Sends the logs of this process to standard error, from now on.
///
/// Logs name domains, rules and limits, never what clients send.
///
/// # Errors
///
/// If this process logs somewhere already.
pub fn init(log: &Log) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let level = match log.level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    };
    // Of other crates only what is broken: their details may repeat what clients send, and their
    // warnings are as many as clients like. What clients do wrong, our own lines say.
    let targets = Targets::new()
        .with_default(level.min(LevelFilter::ERROR))
        .with_target("tollgate", level);
    let builder = SubscriberBuilder::default()
        .with_max_level(level)
        .with_target(false)
        .with_ansi(io::IsTerminal::is_terminal(&io::stderr()))
        .with_writer(io::stderr);
    match log.format {
        LogFormat::Text => builder.finish().with(targets).try_init()?,
        LogFormat::Json => {
            let json = builder.json().flatten_event(true);
            json.finish().with(targets).try_init()?;
        }
    }
    Ok(())
}

/// Logs why the service does not start, for programs that read its log.
pub fn log_start_error(text: &str) {
    tracing::error!("{}", text.trim_end());
}
