//! Events that a simulation generates one by one.

use tollgate_core::Moment;

use crate::error::Error;
use crate::event::Event;
use crate::traffic::Traffic;

impl Traffic {
    /// Adds a generated event, which is not before the last one: a request, by its identity.
    pub(crate) fn generate(&mut self, at: Moment, identity: &[u8]) -> Result<Event, Error> {
        let request = self.requests.intern(identity);
        self.repeat(at, request.map_err(|_| Error::ManyEvents)?)
    }

    /// Adds a generated event with a request that is known.
    pub(crate) fn repeat(&mut self, at: Moment, request: u32) -> Result<Event, Error> {
        let line = u32::try_from(self.events.len()).map_err(|_| Error::ManyEvents)?;
        let event = Event { at, line, request };
        self.events.push(event);
        Ok(event)
    }

    /// Whether the events were generated one by one, and no line was read.
    pub(crate) const fn is_simulated(&self) -> bool {
        self.lines == 0 && !self.events.is_empty()
    }
}
