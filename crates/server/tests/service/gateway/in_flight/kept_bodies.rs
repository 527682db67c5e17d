//! A response that has ended is no longer in flight, however long its body is kept: the HTTP
//! library decides when it drops a body, which may be after the client has seen the end.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use http::{Request, Response};
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::service::Service;
use tollgate_gateway::{BodyError, Gateway, ResponseBody};
use tollgate_listen::{Connection, ConnectionCounts, Handler};

use crate::gateway::cancelled::{listen, open_gateway};
use crate::gateway::upstream::Stage;
use crate::http_client::Client;

/// A gateway none of whose bodies is ever dropped.
#[derive(Clone)]
struct Keeping {
    gateway: Arc<Gateway>,
    kept: Arc<Mutex<Vec<ResponseBody>>>,
}

struct Answering(Keeping, Arc<Connection>);

/// A body that is kept instead of dropped.
struct Kept {
    body: Option<ResponseBody>,
    kept: Arc<Mutex<Vec<ResponseBody>>>,
}

impl Body for Kept {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        Pin::new(self.body.as_mut().unwrap()).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().unwrap().is_end_stream()
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.kept.lock().unwrap().extend(self.body.take());
    }
}

impl Handler for Keeping {
    type Body = Kept;
    type Service = Answering;

    fn service(&self, connection: &Arc<Connection>) -> Answering {
        Answering(self.clone(), Arc::clone(connection))
    }
}

impl ConnectionCounts for Keeping {
    fn count_open(&self) {}

    fn count_end(&self) {}

    fn count_close(&self, _reason: &'static str) {}

    fn count_reset(&self) {}

    fn count_error(&self, _kind: &'static str) {}
}

impl Service<Request<Incoming>> for Answering {
    type Response = Response<Kept>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<Incoming>) -> Self::Future {
        let Answering(Keeping { gateway, kept }, connection) = self;
        let (gateway, connection) = (Arc::clone(gateway), Arc::clone(connection));
        let kept = Arc::clone(kept);
        Box::pin(async move {
            let response = gateway.answer(request, &connection, "http").await;
            Ok(response.map(|body| Kept {
                body: Some(body),
                kept,
            }))
        })
    }
}

#[tokio::test]
async fn the_permit_is_free_when_the_body_has_ended_and_not_when_it_is_dropped() {
    let stage = Stage::open().await;
    let (gateway, _) = open_gateway(stage.address());
    let kept: Arc<Mutex<Vec<ResponseBody>>> = Arc::default();
    let address = listen(Keeping {
        gateway: Arc::new(gateway),
        kept: Arc::clone(&kept),
    })
    .await;
    // Answers, and how each ends on its way to the client.
    let answers = [
        ("200 OK\r\ncontent-length: 4\r\n\r\ndone", "done"),
        (
            "200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\ndone\r\n0\r\n\r\n",
            "done\r\n0\r\n\r\n",
        ),
        ("204 No Content\r\n\r\n", "\r\n\r\n"),
    ];
    let serving = tokio::spawn(async move {
        let mut upstream = stage.accept().await;
        for (answer, _) in answers.iter().cycle() {
            upstream.head().await;
            upstream.send(&format!("HTTP/1.1 {answer}")).await;
        }
    });
    let rounds = answers.iter().cycle().take(2 * answers.len());
    for (answer, end) in rounds {
        let mut client = Client::to(address).await;
        client.send(b"GET / HTTP/1.1\r\nhost: h\r\n\r\n").await;
        let reply = client.read_until(end).await;
        assert!(reply.starts_with("HTTP/1.1 20"), "{answer}: {reply}");
    }
    assert!(!kept.lock().unwrap().is_empty(), "no body was dropped");
    serving.abort();
}
