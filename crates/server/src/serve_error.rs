//! Why the service does not run.

use std::fmt;
use std::io;

use tollgate_backends::OpenError;
use tollgate_http::InvalidSettings;
use tollgate_listen::{Address, InvalidTls};
use tollgate_rules::{Diagnostic, ReadError};
use tollgate_telemetry::InvalidTelemetry;

/// Why the service does not run.
#[derive(Debug)]
#[non_exhaustive]
pub enum ServeError {
    /// The rules cannot be read.
    Unreadable(ReadError),
    /// Every domain has errors: all of them, by file and line.
    NoRules(Vec<Diagnostic>),
    /// The system has not as much memory as a store would take.
    Memory {
        /// The setting that makes it so large.
        setting: &'static str,
        /// What it would take.
        bytes: usize,
    },
    /// The settings of a store cannot be used.
    Store {
        /// Its name in the settings, or `default`.
        name: String,
        /// What is wrong.
        source: OpenError,
    },
    /// Settings of `auth` cannot be used.
    Auth(InvalidSettings),
    /// Settings of `gateway` cannot be used.
    Gateway(InvalidSettings),
    /// The tokens of the admin listener cannot be used. The text contains none.
    AdminTokens(String),
    /// A setting of `telemetry`, or a variable of the environment for it, cannot be used.
    Telemetry(InvalidTelemetry),
    /// A listener cannot be opened.
    Listen {
        /// Its name in the settings.
        listener: &'static str,
        /// Its address in the settings.
        address: Address,
        /// The system's error.
        source: io::Error,
    },
    /// The certificate of a listener, its key or the authorities of its clients cannot be used.
    Tls {
        /// The listener's name in the settings.
        listener: &'static str,
        /// Which file, and what is wrong with it.
        source: InvalidTls,
    },
    /// The system has no random numbers, which comparing passwords needs.
    NoRandomness,
    /// Signals cannot be received.
    Signals(io::Error),
}

// === impl ServeError ===

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ServeError::Unreadable(error) => write!(f, "the setting `rules`: {error}"),
            ServeError::NoRules(diagnostics) => {
                for diagnostic in diagnostics {
                    write!(f, "{diagnostic}")?;
                }
                f.write_str("no domain has valid rules, so there is nothing to serve")
            }
            ServeError::Memory { setting, bytes } => write!(
                f,
                "the system has no {bytes} bytes of memory, which `{setting}` asks for; reduce it"
            ),
            ServeError::Store { name, .. } => write!(f, "the store `{name}` cannot be used"),
            ServeError::Auth(invalid) | ServeError::Gateway(invalid) => write!(f, "{invalid}"),
            ServeError::AdminTokens(invalid) => f.write_str(invalid),
            ServeError::Telemetry(invalid) => write!(f, "{invalid}"),
            ServeError::Listen {
                listener, address, ..
            } => write!(
                f,
                "the {listener} listener cannot use {address}; \
                 choose another address with `listen.{listener}`"
            ),
            ServeError::Tls { listener, source } => write!(f, "listen.{listener}.tls: {source}"),
            ServeError::NoRandomness => f.write_str(
                "the system has no random numbers, which comparing passwords needs; \
                 check /dev/urandom",
            ),
            ServeError::Signals(_) => f.write_str("cannot listen for signals"),
        }
    }
}

impl std::error::Error for ServeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            ServeError::Unreadable(error) => error.source(),
            ServeError::NoRules(_)
            | ServeError::Auth(_)
            | ServeError::Gateway(_)
            | ServeError::AdminTokens(_)
            | ServeError::Telemetry(_)
            | ServeError::NoRandomness
            | ServeError::Memory { .. }
            | ServeError::Tls { .. } => None,
            ServeError::Store { source, .. } => Some(source.as_ref()),
            ServeError::Listen { source, .. } | ServeError::Signals(source) => Some(source),
        }
    }
}
