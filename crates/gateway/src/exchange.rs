//! One request through its route: identified, decided, passed on, answered.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_TYPE, ORIGIN};
use http::request::Parts;
use http::{HeaderMap, Request, Response, StatusCode, Version};
use http_body::Body;
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use tokio::sync::Semaphore;
use tollgate_core::{Answer, Clock, Moment, Timeline};
use tollgate_engine::{Decided, Engine};
use tollgate_http::{Client, Head, Listing};

use crate::concurrency_limit::Permits;
use crate::connection_pool::Lease;
use crate::denial::{keep_denial, request_id};
use crate::failure::Failure;
use crate::forwarding::{Sender, announce_length, rewrite_request, rewrite_response};
use crate::lists::Lists;
use crate::log_record::LogRecord;
use crate::metrics::RouteMetrics;
use crate::received_body::ReceivedBody;
use crate::refund::{Refund, Refunder};
use crate::request_body::RequestBody;
use crate::reservation::{Reservation, Settler};
use crate::response_body::{InFlight, ResponseBody, has_body};
use crate::route::Route;
use crate::tunnel::{OpenTunnel, Tunnel};
use crate::upgrade::Switched;

mod arrival;
mod counted;
mod decision;
mod precheck;

pub(crate) use arrival::{Arrival, http_peer};
use counted::Counted;

/// What of a request's head a response of our own depends on, if the head has been passed on.
const ANSWERED_BY: [http::HeaderName; 2] = [CONTENT_TYPE, ORIGIN];

/// The outcome of a request that an upstream has answered.
const FORWARDED: &str = "forwarded";
/// The outcome of a request that cannot be identified.
const NOT_IDENTIFIED: &str = "not_identified";

/// The most requests that wait for their turn in a leaky bucket at once.
const HELD_MAX: usize = 4096;

/// What applies to the requests of all routes.
pub(crate) struct Terms {
    engine: Arc<Engine>,
    settler: Settler,
    refunder: Refunder,
    lists: Option<Lists>,
    clock: Arc<dyn Clock>,
    held: Semaphore,
}

/// A request that may be passed on.
struct Allowed {
    /// `None` if nothing limits it.
    answer: Option<Answer>,
    permits: Permits,
    /// What its response may release.
    reservation: Option<Reservation>,
    sender: Sender,
    lease: Lease,
}

/// Why a request is not passed on.
enum Stop {
    /// A limit denies it.
    Denied(Box<Response<String>>),
    /// It is answered before any limit is asked, with this outcome.
    Rejected(&'static str, Box<Response<String>>),
    Failed(Failure),
}

/// Answers a request that a route is for. If it is passed on, nothing is left in `head`: it is
/// moved only once, because each of the futures would have room for it.
pub(crate) async fn exchange(
    terms: &Terms,
    route: &Route,
    arrival: Arrival<'_>,
    (head, body): (&mut Parts, Incoming),
    record: &mut LogRecord,
) -> Response<ResponseBody> {
    let counted = Counted::new(&route.metrics);
    let (method, seen) = (head.method.clone(), copy_answered_by(&head.headers));
    let addresses = route.classifier.client_address();
    let passage = Passage {
        terms,
        route,
        arrival,
        client: arrival.client(addresses, &head.headers),
    };
    route
        .metrics
        .clients()
        .record(passage.client, &head.headers);
    record.set_route(route.metrics.name(), passage.client.address);
    match passage.run(head, body, record).await {
        Ok(response) => {
            record.set_outcome(FORWARDED);
            counted.end(RouteMetrics::count_forwarded);
            response
        }
        Err(Stop::Denied(response)) => {
            record.set_outcome("denied");
            counted.end(RouteMetrics::count_denial);
            (*response).map(ResponseBody::own)
        }
        Err(Stop::Rejected(outcome, response)) => {
            record.set_outcome(outcome);
            counted.end(|metrics| metrics.count_failure(outcome));
            (*response).map(ResponseBody::own)
        }
        Err(Stop::Failed(failure)) => {
            record.set_outcome(failure.kind());
            counted.end(|metrics| metrics.count_failure(failure.kind()));
            let response = route.responder.fail(&failure.problem(), &method, &seen);
            response.map(ResponseBody::own)
        }
    }
}

/// Copies [`ANSWERED_BY`]. Most requests have none of them, and an empty map is free.
fn copy_answered_by(headers: &HeaderMap) -> HeaderMap {
    let mut seen = HeaderMap::new();
    for name in ANSWERED_BY {
        if let Some(value) = headers.get(&name) {
            seen.insert(name, value.clone());
        }
    }
    seen
}

/// Moves a head out of its place.
fn take_head(head: &mut Parts) -> Parts {
    let (empty, ()) = Request::new(()).into_parts();
    std::mem::replace(head, empty)
}

/// A request's way through its route.
struct Passage<'a> {
    terms: &'a Terms,
    route: &'a Route,
    arrival: Arrival<'a>,
    client: Client,
}

// === impl Terms ===

impl Terms {
    pub(crate) fn new(engine: Arc<Engine>, lists: Option<Lists>, clock: Arc<dyn Clock>) -> Terms {
        Terms {
            settler: Settler::new(&engine),
            refunder: Refunder::new(&engine, &clock),
            engine,
            lists,
            clock,
            held: Semaphore::new(HELD_MAX),
        }
    }

    /// The allow and deny lists.
    pub(crate) const fn lists(&self) -> Option<&Lists> {
        self.lists.as_ref()
    }

    pub(crate) const fn engine(&self) -> &Arc<Engine> {
        &self.engine
    }

    pub(crate) const fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// The time since 1970.
    pub(crate) fn wall_clock(&self) -> Duration {
        let now = self.clock.on(Timeline::Utc);
        now.since(Moment::ZERO).into()
    }
}

// === impl Passage ===

impl Passage<'_> {
    /// Decides on a request, and passes it on if it is allowed.
    async fn run(
        &self,
        head: &mut Parts,
        body: Incoming,
        record: &mut LogRecord,
    ) -> Result<Response<ResponseBody>, Stop> {
        let Passage { terms, route, .. } = self;
        let bounds = &route.bounds;
        if body.size_hint().lower() > bounds.body_bytes {
            return Err(Failure::TooLarge(bounds.body_bytes).into());
        }
        // Before its head is that of a request to the upstream.
        let body = ReceivedBody::new(body, head.version);
        // Also while the request is held or waits for a connection.
        let in_flight = InFlight::new(self.arrival.connection);
        let requested = route.protocols.find_requested(head, &body);
        let allowed = self.allow(head, record).await?;
        let Allowed {
            answer,
            permits,
            mut reservation,
            sender,
            lease,
        } = allowed;
        let upstream = &route.upstream;
        rewrite_request(head, sender, lease.pool().address(), upstream.protocol());
        record.send_to(lease.pool().address(), &mut head.headers);
        if let Some(requested) = &requested {
            requested.announce(&mut head.headers);
        }
        let body = self.bound_body(head, body, reservation.as_mut());
        let progress = body.progress();
        let method = head.method.clone();
        // In a box, because it passes through several futures.
        let request = Box::new(Request::from_parts(take_head(head), body));
        let sending = upstream.send(lease, request, bounds.head_timeout, &terms.clock);
        let answered = sending.await;
        let (mut response, lease) = answered
            .map_err(|unanswered| decision::give_up(unanswered, reservation.as_mut(), record))?;
        // It may have been sent again, to another one.
        record.set_upstream(lease.pool().address());
        let meter = match reservation {
            Some(reserved) => reserved.settle(response.status(), response.headers()).await,
            None => None,
        };
        let server = hyper::upgrade::on(&mut response);
        let switched = Switched::of(&response);
        let (mut head, body) = response.into_parts();
        let body = ReceivedBody::new(body, head.version);
        rewrite_response(&mut head.headers, head.status, head.version);
        head.version = Version::HTTP_11;
        if let Some(answer) = &answer {
            let now = terms.wall_clock();
            route.responder.decorate(answer, now, &mut head.headers);
        }
        if let Some(switched) = switched {
            if let Some(meter) = meter {
                meter.settle_at_head();
            }
            switched.announce(&mut head.headers);
            self.begin_tunnel(server, (lease, permits), record);
            let body = ResponseBody::own(Bytes::new());
            return Ok(Response::from_parts(head, body));
        }
        let (metrics, idle) = (Arc::clone(&upstream.metrics), bounds.body_timeout);
        let body = ResponseBody::upstream(body, lease, idle, metrics, in_flight, permits);
        let body = body.with_body(has_body(&method, head.status));
        let body = body.with_request(progress).with_meter(meter);
        Ok(Response::from_parts(head, body))
    }

    /// The body of a request that is about to be sent, so that what it has reserved stays charged.
    fn bound_body(
        &self,
        head: &mut Parts,
        body: ReceivedBody,
        reservation: Option<&mut Reservation>,
    ) -> RequestBody {
        let bounds = &self.route.bounds;
        let (bytes, timeout) = (bounds.body_bytes, bounds.body_timeout);
        let mut body = RequestBody::new(body, bytes, timeout, bounds.body_rate);
        announce_length(head, body.size_hint().exact());
        if let Some(reservation) = reservation {
            reservation.send(head, &mut body);
        }
        body
    }

    /// Makes the connection a tunnel to the server, once the response 101 is written. Its end has
    /// the line in the access log.
    fn begin_tunnel(
        &self,
        server: OnUpgrade,
        (lease, permits): (Lease, Permits),
        record: &mut LogRecord,
    ) {
        let mut record = std::mem::take(record);
        record.set_status(StatusCode::SWITCHING_PROTOCOLS);
        record.set_outcome(FORWARDED);
        let tunnel = Tunnel {
            server,
            lease,
            permits,
            idle: self.route.bounds.tunnel_timeout,
            record,
            open: OpenTunnel::new(self.route.metrics.tunnels()),
        };
        let tunnel = tollgate_listen::Tunnel::new(|client| tunnel.run(client));
        self.arrival.connection.switch_protocols(tunnel);
    }

    /// Identifies a request, decides on it, and finds a connection for it. If there is none, or if
    /// the client goes away meanwhile, its permits are released. What it was charged is refunded
    /// if the client goes away before its turn, and what it has reserved if there is no connection.
    async fn allow(&self, head: &Parts, record: &mut LogRecord) -> Result<Allowed, Stop> {
        let Passage {
            terms,
            route,
            arrival,
            client,
        } = self;
        let Route {
            responder,
            upstream,
            ..
        } = route;
        let listing = self.check_address(head, record)?;
        let addresses = route.classifier.client_address();
        let described = Head::of(head, arrival.peer(addresses));
        let identity = route.classifier.identify_of(described, *client);
        let identity = identity.map_err(|rejection| {
            let response = responder.reject(&rejection, &head.method, &head.headers);
            Stop::Rejected(NOT_IDENTIFIED, Box::new(response))
        })?;
        let listing = self.check_descriptors(listing, &identity, head, record)?;
        let is_limited = listing != Some(Listing::Allow);
        // Before the rules, because a permit costs nothing if they deny.
        let permits = match is_limited {
            true => self.acquire_permits(&identity, head, record)?,
            false => Permits::default(),
        };
        let sender = arrival.sender(addresses, *client);
        let allowed = |answer, reservation, lease| Allowed {
            answer,
            permits,
            reservation,
            sender,
            lease,
        };
        let request = identity.request(route.domain.as_bytes());
        let Some(request) = request.filter(|_| is_limited) else {
            return Ok(allowed(None, None, upstream.lease().await?));
        };
        poll_fn(|cx| arrival.connection.poll_decide(0, cx)).await;
        let (decided, mut reservation) = self.decide(&request, &identity, record.span()).await?;
        let Decided {
            answer, charged_by, ..
        } = decided;
        let denial = responder.deny(&answer, terms.wall_clock(), &head.method, &head.headers);
        if let Some(mut denial) = denial {
            let (id, headers) = (request_id(&head.headers), denial.headers_mut());
            keep_denial(&terms.engine, id, &request, &answer, headers);
            record.set_denial(&answer, denial.headers());
            return Err(Stop::Denied(Box::new(denial)));
        }
        if answer.delay.is_zero()
            && let Some(lease) = upstream.try_lease()
        {
            return Ok(allowed(Some(answer), reservation, lease));
        }
        // What is reserved is released when it is dropped.
        let refund = match reservation {
            Some(_) => Refund::none(),
            None => terms.refunder.prepare(&request, &answer, charged_by),
        };
        if let Err(failure) = self.hold(answer.delay).await {
            refund.refund_all();
            return Err(failure.into());
        }
        refund.cancel();
        let lease = self.connect(reservation.as_mut()).await?;
        Ok(allowed(Some(answer), reservation, lease))
    }
}

// === impl Stop ===

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Stop {
        Stop::Failed(failure)
    }
}
