//! The requests of a log as the HTTP API of a service takes them.

use tollgate_core::Moment;

use crate::decision_line::{descriptors, string};
use crate::format::Format;
use crate::traffic::Traffic;

/// The resolution of the times of most access logs, in nanoseconds.
const SECOND: u64 = 1_000_000_000;

/// The requests of some traffic, in order of time, for a service that decides on them.
///
/// Access logs whose times are all whole seconds would send all requests of a second at its
/// beginning, as no client did: these are spread evenly over their second.
pub struct Outgoing<'t> {
    traffic: &'t Traffic,
    is_spread: bool,
}

/// One of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutgoingRequest {
    /// When it came.
    pub at: Moment,
    number: u32,
}

// === impl Traffic ===

impl Traffic {
    /// The requests for a service.
    pub fn outgoing_requests(&mut self) -> Outgoing<'_> {
        self.put_in_order();
        let is_log = matches!(self.format(), Format::AccessLog { .. });
        let mut events = self.kept_events().iter();
        let is_spread = is_log && events.all(|event| event.at.as_nanos().is_multiple_of(SECOND));
        Outgoing {
            traffic: self,
            is_spread,
        }
    }
}

// === impl Outgoing ===

impl Outgoing<'_> {
    /// The moments of the first request and of the last.
    pub fn bounds(&self) -> Option<(Moment, Moment)> {
        let (first, _) = self.traffic.bounds()?;
        let last = self.iter().last()?;
        Some((first, last.at))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.traffic.events()
    }

    /// The requests, in order of time.
    pub fn iter(&self) -> impl Iterator<Item = OutgoingRequest> {
        let is_spread = self.is_spread;
        let kept = self.traffic.kept_events().chunk_by(move |one, other| {
            // Without spreading, a moment has no neighbours.
            is_spread && one.at == other.at
        });
        let kept = kept.flat_map(|same| {
            let count = u64::try_from(same.len()).unwrap_or(u64::MAX);
            (0..).zip(same).map(move |(index, event)| OutgoingRequest {
                at: after(event.at, offset(index, count)),
                number: event.request,
            })
        });
        let generated = self
            .traffic
            .generated_events()
            .map(|event| OutgoingRequest {
                at: event.at,
                number: event.request,
            });
        kept.chain(generated)
    }

    /// Where requests are sent: a trace is in Envoy's protocol, anything else is not.
    pub fn path(&self) -> &'static str {
        match self.traffic.format() {
            Format::Trace => "/json",
            Format::AccessLog { .. } | Format::Counts { .. } => "/v1/check",
        }
    }

    /// The body of a request. Bytes that are not UTF-8 are escaped, as in decisions.
    pub fn body(&self, request: OutgoingRequest) -> Vec<u8> {
        if let Format::Trace = self.traffic.format() {
            return self.traffic.identity(request.number).to_vec();
        }
        self.traffic.request(request.number, |request| {
            let mut body = vec![b'{'];
            let written = descriptors(request, &mut body);
            body.extend_from_slice(b"\"domain\":");
            let written = written.and_then(|()| string(request.domain, &mut body));
            written.expect("writing to memory cannot fail");
            body.push(b'}');
            body
        })
    }
}

/// How long after its second the request of this index among so many is sent.
fn offset(index: u64, count: u64) -> u64 {
    let nanos = u128::from(index) * u128::from(SECOND) / u128::from(count.max(1));
    u64::try_from(nanos).unwrap_or(0)
}

const fn after(at: Moment, nanos: u64) -> Moment {
    Moment::from_nanos(at.as_nanos().saturating_add(nanos))
}
