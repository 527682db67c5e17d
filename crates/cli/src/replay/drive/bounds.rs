//! How long a request may take and wait.

use std::time::Duration;

/// How long a request whose time has come waits for its turn; after that it is not sent.
pub(super) const LATE_MAX: Duration = Duration::from_secs(1);
/// How long a connection may take, with its TLS handshake.
pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a request may take, from its connection to the end of its response.
pub(super) const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
