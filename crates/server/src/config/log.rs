//! `log`: what is logged, and how.

use tollgate_rules::Settings;

/// What is logged, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// `level`. Default: `info`.
    pub level: LogLevel,
    /// `format`. Default: `text`.
    pub format: LogFormat,
}

/// The least severe level that is logged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogLevel {
    /// Needs an operator now.
    Error,
    /// May need an operator.
    Warn,
    /// Changes of the service's state.
    #[default]
    Info,
    /// Events of single connections.
    Debug,
}

/// The format of log lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// For programs: one JSON object per line.
    Json,
}

// === impl Log ===

impl Log {
    pub(super) fn take(map: &Settings<'_>) -> Log {
        let level = map.choice("level", &["info", "error", "warn", "debug"]);
        let format = map.choice("format", &["text", "json"]);
        Log {
            level: match level {
                Some("error") => LogLevel::Error,
                Some("warn") => LogLevel::Warn,
                Some("debug") => LogLevel::Debug,
                _ => LogLevel::Info,
            },
            format: match format {
                Some("json") => LogFormat::Json,
                _ => LogFormat::Text,
            },
        }
    }
}
