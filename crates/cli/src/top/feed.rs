//! Snapshots from the service, also after it was restarted.

use std::collections::VecDeque;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::mpsc::Sender;
use tokio::time::{sleep, timeout};
use tollgate_http::EventStream;

use super::snapshot::{Snapshot, VERSION};
use crate::admin_client::{AdminClient, Failure, NotAnswered};
use crate::printable::Printable;

/// No snapshot is larger: one has at most 100 rules and twice 20 keys.
const EVENT_BYTES_MAX: usize = 4 << 20;
/// How long a service that sends a snapshot a second may send none.
const SILENCE_MAX: Duration = Duration::from_secs(10);
/// The first pause before a new connection; each following one is twice as long.
const PAUSE_MIN: Duration = Duration::from_millis(500);
/// The longest pause before a new connection.
const PAUSE_MAX: Duration = Duration::from_secs(8);

/// A stream of snapshots from one connection.
pub(super) struct Feed {
    client: AdminClient,
    body: Incoming,
    events: EventStream,
    /// Events that arrived together.
    ready: VecDeque<Option<Vec<u8>>>,
}

/// What the feed sends to the screen.
#[derive(Debug)]
pub(super) enum Update {
    Snapshot(Box<Snapshot>),
    /// There is no connection; the next attempt is after this pause.
    Lost(Failure, Duration),
    /// There will be no connection.
    Failed(Failure),
}

/// Sends updates until the service cannot be followed, or the receiver is gone.
pub(super) async fn follow(client: AdminClient, updates: Sender<Update>) {
    let mut pause = PAUSE_MIN;
    loop {
        let failure = match Feed::open(&client).await {
            Err(failure) => failure,
            Ok(mut feed) => loop {
                match feed.next().await {
                    Err(failure) => break failure,
                    Ok((snapshot, _)) => {
                        pause = PAUSE_MIN;
                        let update = Update::Snapshot(Box::new(snapshot));
                        if updates.send(update).await.is_err() {
                            return;
                        }
                    }
                }
            },
        };
        let is_temporary = failure.is_temporary();
        let update = match is_temporary {
            true => Update::Lost(failure, pause),
            false => Update::Failed(failure),
        };
        if updates.send(update).await.is_err() || !is_temporary {
            return;
        }
        sleep(pause).await;
        pause = (pause * 2).min(PAUSE_MAX);
    }
}

// === impl Feed ===

impl Feed {
    /// Connects to the service.
    pub(super) async fn open(client: &AdminClient) -> Result<Feed, Failure> {
        let response = client.get("/v1/dashboard/events", "text/event-stream");
        Ok(Feed {
            client: client.clone(),
            body: response.await?.into_body(),
            events: EventStream::new(EVENT_BYTES_MAX),
            ready: VecDeque::new(),
        })
    }

    /// The next snapshot, and the document that it was read from.
    pub(super) async fn next(&mut self) -> Result<(Snapshot, Value), Failure> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                let event = event.ok_or(NotAnswered::EventTooLarge(EVENT_BYTES_MAX));
                let snapshot = event.and_then(|event| read(&event));
                return snapshot.map_err(|why| self.client.fail(why));
            }
            let why = match timeout(SILENCE_MAX, self.body.frame()).await {
                Err(_) => NotAnswered::Silent(SILENCE_MAX.as_secs()),
                Ok(None) => NotAnswered::Ended,
                Ok(Some(Err(error))) => NotAnswered::Http(error),
                Ok(Some(Ok(frame))) => {
                    let ready = &mut self.ready;
                    if let Some(data) = frame.data_ref() {
                        let take =
                            |event: Option<&[u8]>| ready.push_back(event.map(<[u8]>::to_vec));
                        self.events.add(data, take);
                    }
                    continue;
                }
            };
            return Err(self.client.fail(why));
        }
    }
}

/// Reads a snapshot of the version that is known.
fn read(event: &[u8]) -> Result<(Snapshot, Value), NotAnswered> {
    let document: Value = serde_json::from_slice(event).map_err(|_| NotAnswered::NotTollgate)?;
    match document["version"].as_u64() {
        Some(VERSION) => {}
        Some(other) => return Err(NotAnswered::Version(other)),
        None => return Err(NotAnswered::NotTollgate),
    }
    let snapshot = Snapshot::deserialize(&document);
    let snapshot = snapshot.map_err(|error| {
        let error = Printable::from(&*error.to_string());
        NotAnswered::Snapshot(error)
    })?;
    Ok((snapshot, document))
}
