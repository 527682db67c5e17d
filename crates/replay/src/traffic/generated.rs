//! Events that a simulation generates one by one.

use tollgate_core::{Answer, Moment};

use crate::error::Error;
use crate::event::{EVENTS_MAX, Event};
use crate::traffic::Traffic;
use crate::verdicts::Verdicts;

const MANY_EVENTS: Error = Error::ManyEvents { max: EVENTS_MAX };

impl Traffic {
    /// Adds a generated event, which is not before the last one: a request, by its identity.
    pub(crate) fn generate(&mut self, at: Moment, identity: &[u8]) -> Result<Event, Error> {
        let request = self.requests.intern(identity);
        self.repeat(at, request.map_err(|_| MANY_EVENTS)?)
    }

    /// Adds a generated event with a request that is known.
    pub(crate) fn repeat(&mut self, at: Moment, request: u32) -> Result<Event, Error> {
        let line = u32::try_from(self.events.len()).map_err(|_| MANY_EVENTS)?;
        let event = Event { at, line, request };
        self.events.push(event);
        Ok(event)
    }

    /// The events are decided elsewhere, and their verdicts are kept here.
    pub(crate) fn with_verdicts(self, verdicts: Verdicts) -> Traffic {
        Traffic {
            verdicts: Some(verdicts),
            ..self
        }
    }

    /// Keeps the answer to the event of this line, if the events are decided elsewhere.
    pub(crate) fn keep_verdict(&mut self, line: u32, answer: &Answer) -> Result<(), Error> {
        match &mut self.verdicts {
            Some(verdicts) => verdicts.add(line, answer),
            None => Ok(()),
        }
    }

    /// What came of the events, if they were decided elsewhere.
    pub(crate) const fn verdicts(&self) -> Option<&Verdicts> {
        self.verdicts.as_ref()
    }

    /// Whether the events were generated one by one, and no line was read.
    pub(crate) const fn is_simulated(&self) -> bool {
        self.lines == 0 && !self.events.is_empty()
    }
}
