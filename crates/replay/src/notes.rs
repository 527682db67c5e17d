//! What is kept of each line of an access log beside its event: client, path, user agent.

use crate::field::{Field, Fields};
use crate::interner::{Full, Interner};

/// The most distinct paths, and the most distinct user agents, that are kept; further ones are
/// [`OTHER`].
const NAMES_MAX: usize = 1 << 20;
/// The most bytes of a path or a user agent that are kept for a report.
const DETAIL_BYTES_MAX: usize = 200;
/// The number of a name that is not kept.
const OTHER: u32 = u32::MAX;

/// What is kept, as far as it is asked for.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    clients: Option<Column>,
    paths: Option<Column>,
    user_agents: Option<Column>,
}

/// What is noted of a line of an access log beside its request; all of it empty for other lines.
#[derive(Debug, Default)]
pub(crate) struct Noted {
    client: Vec<u8>,
    /// The path, at most [`DETAIL_BYTES_MAX`].
    path: Vec<u8>,
    /// The user agent, at most [`DETAIL_BYTES_MAX`].
    user_agent: Vec<u8>,
    /// Whether path and user agent are noted.
    has_details: bool,
}

/// A value of each line of all inputs.
#[derive(Debug, Default)]
struct Column {
    names: Interner,
    /// The number of the value; arbitrary for a line that is not an event.
    of_lines: Vec<u32>,
}

// === impl Notes ===

impl Notes {
    /// Also keeps clients, if there are any.
    pub(crate) fn with_clients(self, is_log: bool) -> Notes {
        Notes {
            clients: is_log.then(Column::default),
            ..self
        }
    }

    /// Also keeps paths and user agents, if there are any.
    pub(crate) fn with_details(self, is_log: bool) -> Notes {
        Notes {
            paths: is_log.then(Column::default),
            user_agents: is_log.then(Column::default),
            ..self
        }
    }

    /// Whether paths and user agents are kept.
    pub(crate) const fn has_details(&self) -> bool {
        self.paths.is_some()
    }

    /// Adds those of the next line.
    pub(crate) fn add(&mut self, noted: &Noted) -> Result<(), Full> {
        if let Some(clients) = &mut self.clients {
            let client = clients.names.intern(&noted.client);
            clients.of_lines.push(client?);
        }
        if let Some(paths) = &mut self.paths {
            paths.add_bounded(&noted.path);
        }
        if let Some(user_agents) = &mut self.user_agents {
            user_agents.add_bounded(&noted.user_agent);
        }
        Ok(())
    }

    /// The number of a line's client, if clients are kept.
    pub(crate) fn client_of(&self, line: u32) -> Option<u32> {
        self.clients.as_ref()?.number_of(line)
    }

    /// The number of a line's path, if paths are kept.
    pub(crate) fn path_of(&self, line: u32) -> Option<u32> {
        self.paths.as_ref()?.number_of(line)
    }

    /// The number of a line's user agent, if they are kept.
    pub(crate) fn user_agent_of(&self, line: u32) -> Option<u32> {
        self.user_agents.as_ref()?.number_of(line)
    }

    /// The client of a number.
    pub(crate) fn client(&self, number: u32) -> &[u8] {
        self.clients
            .as_ref()
            .map_or(b"", |column| column.name(number))
    }

    /// The path of a number.
    pub(crate) fn path(&self, number: u32) -> &[u8] {
        self.paths
            .as_ref()
            .map_or(b"", |column| column.name(number))
    }

    /// The user agent of a number.
    pub(crate) fn user_agent(&self, number: u32) -> &[u8] {
        let user_agents = self.user_agents.as_ref();
        user_agents.map_or(b"", |column| column.name(number))
    }
}

// === impl Noted ===

impl Noted {
    /// Notes the path and the user agent as well, if `has_details`.
    pub(crate) fn with_details(has_details: bool) -> Noted {
        Noted {
            has_details,
            ..Noted::default()
        }
    }

    pub(crate) fn clear(&mut self) {
        self.client.clear();
        self.path.clear();
        self.user_agent.clear();
    }

    pub(crate) fn set(&mut self, line: &Fields<'_>) {
        let cut = |text: &mut Vec<u8>, of: &[u8]| {
            text.extend_from_slice(&of[..of.len().min(DETAIL_BYTES_MAX)]);
        };
        self.client.extend_from_slice(line.get(Field::Client));
        if self.has_details {
            cut(&mut self.path, line.get(Field::Path));
            cut(&mut self.user_agent, line.get(Field::UserAgent));
        }
    }
}

// === impl Column ===

impl Column {
    fn add_bounded(&mut self, name: &[u8]) {
        let number = match self.names.find(name) {
            Some(known) => known,
            None if self.names.len() >= NAMES_MAX => OTHER,
            None => self.names.intern(name).unwrap_or(OTHER),
        };
        self.of_lines.push(number);
    }

    fn number_of(&self, line: u32) -> Option<u32> {
        self.of_lines.get(usize::try_from(line).ok()?).copied()
    }

    fn name(&self, number: u32) -> &[u8] {
        match number {
            OTHER => b"(others)",
            number => self.names.get(number),
        }
    }
}
