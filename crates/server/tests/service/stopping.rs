//! Health checks, and graceful shutdown.

use std::time::Duration;

use tokio::time::timeout;
use tokio_stream::StreamExt;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};

use crate::eventually::eventually;
use crate::house::House;
use crate::http_client::Client;
use crate::{decisions, grpc_client};

const RULES: &str = "domain: d\ndescriptors: [{key: k, rate_limit: 1000/day}]\n";
const GOOD: &str = r#"{"domain":"d","descriptors":[{"entries":[{"key":"k","value":"v"}]}]}"#;

pub(crate) async fn health(client: &grpc_client::Client, service: &str) -> i32 {
    let request = HealthCheckRequest {
        service: service.to_owned(),
    };
    let path = "/grpc.health.v1.Health/Check";
    let response: HealthCheckResponse = client.call(path, request).await.unwrap();
    response.status
}

#[tokio::test]
async fn every_listener_reports_that_it_is_ready() {
    let house = House::on(RULES).await;
    let mut client = Client::to(house.http()).await;
    assert_eq!(client.get("/healthz").await.status, 200);
    assert_eq!(client.get("/readyz").await.status, 200);
    assert_eq!(client.get("/healthcheck").await.status, 200);
    let mut admin = Client::to(house.admin()).await;
    assert_eq!(admin.get("/healthz").await.status, 200);
    let client = grpc_client::Client::to(house.grpc()).await;
    let service = "envoy.service.ratelimit.v3.RateLimitService";
    for service in ["", "ratelimit", service] {
        assert_eq!(health(&client, service).await, 1, "{service}");
    }
}

/// The names of the services, by one version of reflection.
macro_rules! reflected {
    ($version:ident, $channel:expr) => {{
        use tonic_reflection::pb::$version::ServerReflectionRequest;
        use tonic_reflection::pb::$version::server_reflection_client::ServerReflectionClient;
        use tonic_reflection::pb::$version::server_reflection_request::MessageRequest;
        use tonic_reflection::pb::$version::server_reflection_response::MessageResponse;

        let mut client = ServerReflectionClient::new($channel);
        let request = ServerReflectionRequest {
            host: String::new(),
            message_request: Some(MessageRequest::ListServices(String::new())),
        };
        let answers = client.server_reflection_info(tokio_stream::once(request));
        let answer = answers.await.unwrap().into_inner().message().await;
        let Some(MessageResponse::ListServicesResponse(list)) =
            answer.unwrap().unwrap().message_response
        else {
            panic!("no list");
        };
        let names = list.service.into_iter().map(|service| service.name);
        names.collect::<Vec<String>>()
    }};
}

#[tokio::test]
async fn reflection_knows_the_service_in_both_versions() {
    let house = House::on(RULES).await;
    let address = format!("http://{}", house.grpc());
    let endpoint = tonic::transport::Endpoint::from_shared(address).unwrap();
    let channel = endpoint.connect().await.unwrap();
    let listed = [
        reflected!(v1, channel.clone()),
        reflected!(v1alpha, channel),
    ];
    for names in listed {
        let own = [tollgate_rls::SERVICE, tollgate_rls::DECISIONS_SERVICE];
        for known in own.into_iter().chain(["grpc.health.v1.Health"]) {
            assert!(names.iter().any(|name| name == known), "{names:?}");
        }
    }
}

#[tokio::test]
async fn before_the_listeners_close_nothing_is_ready_and_everything_answers() {
    let house = House::with(RULES, |config| {
        config.limits.stop_delay = Duration::from_secs(1);
        config.limits.drain_timeout = Duration::from_secs(1);
    })
    .await;
    let address = house.http();
    assert_eq!(Client::to(address).await.get("/readyz").await.status, 200);
    let grpc = grpc_client::Client::to(house.grpc()).await;
    let stopping = tokio::spawn(house.running.stop());
    for path in ["/readyz", "/healthcheck"] {
        eventually(async || Client::to(address).await.get(path).await.status == 503).await;
    }
    eventually(async || health(&grpc, "ratelimit").await == 2).await;
    assert_eq!(Client::to(address).await.get("/healthz").await.status, 200);
    let mut http = Client::to(address).await;
    assert_eq!(http.post("/json", GOOD).await.status, 200);
    grpc.ask(GOOD).await.unwrap();
    stopping.await.unwrap();
}

#[tokio::test]
async fn what_is_in_flight_is_finished() {
    let house = House::on(RULES).await;
    let address = house.http();
    let mut flying = Client::to(address).await;
    let length = GOOD.len();
    let head = format!("POST /json HTTP/1.1\r\nhost: h\r\ncontent-length: {length}\r\n\r\n");
    flying.send(head.as_bytes()).await;
    flying.send(&GOOD.as_bytes()[..10]).await;
    // Once another request has been answered, the first has been accepted as well.
    let mut idle = Client::to(address).await;
    assert_eq!(idle.post("/json", GOOD).await.status, 200);
    let stopping = tokio::spawn(house.running.stop());
    assert!(idle.is_closed().await);
    eventually(async || tokio::net::TcpStream::connect(address).await.is_err()).await;
    flying.send(&GOOD.as_bytes()[10..]).await;
    assert_eq!(flying.reply().await.unwrap().status, 200);
    assert!(flying.is_closed().await);
    stopping.await.unwrap();
}

#[tokio::test]
async fn requests_that_never_end_are_cut_off() {
    let house = House::with(RULES, |config| {
        config.limits.drain_timeout = Duration::from_millis(50);
    })
    .await;
    let mut flying = Client::to(house.http()).await;
    flying
        .send(b"POST /json HTTP/1.1\r\nhost: h\r\ncontent-length: 99\r\n\r\n{")
        .await;
    let stopped = timeout(Duration::from_secs(9), house.running.stop()).await;
    assert!(stopped.is_ok(), "the drain has an end");
    assert!(flying.reply().await.is_none());
}

#[tokio::test]
async fn a_client_that_watches_health_does_not_delay_shutdown() {
    // Requests in flight may take an hour, but a stream without an end must not.
    let house = House::with(RULES, |config| {
        config.limits.drain_timeout = Duration::from_secs(3600);
    })
    .await;
    let client = grpc_client::Client::to(house.grpc()).await;
    let mut watch = client.watch_health("ratelimit").await;
    assert_eq!(watch.message().await.unwrap().unwrap().status, 1);
    let stopping = tokio::spawn(house.running.stop());
    assert_eq!(watch.message().await.unwrap().unwrap().status, 2);
    let end = watch.message().await.unwrap_err();
    assert_eq!(end.code(), tonic::Code::Unavailable, "{end:?}");
    timeout(Duration::from_secs(20), stopping)
        .await
        .expect("the end comes")
        .unwrap();
}

#[tokio::test]
async fn calls_without_an_end_are_ended_when_their_connection_is_old() {
    let house = House::with(RULES, |config| {
        config.limits.connection_age = Duration::from_millis(500);
        // How often ages are looked at.
        config.limits.write_timeout = Duration::from_millis(100);
        config.limits.drain_timeout = Duration::from_secs(3600);
    })
    .await;
    let watching = grpc_client::Client::to(house.grpc()).await;
    let mut watch = watching.watch_health("ratelimit").await;
    let deciding = grpc_client::Client::to(house.grpc()).await;
    let check = decisions::check_in("d", decisions::entry("k", b"v"));
    let requests = tokio_stream::once(check).chain(tokio_stream::pending());
    let mut answers = decisions::call(&deciding, requests).await.unwrap();
    let ends = async {
        assert_eq!(watch.message().await.unwrap().unwrap().status, 1);
        assert!(answers.message().await.unwrap().unwrap().allowed);
        [
            watch.message().await.unwrap_err(),
            answers.message().await.unwrap_err(),
        ]
    };
    let ends = timeout(Duration::from_secs(20), ends).await;
    for end in ends.expect("the ends come") {
        assert_eq!(end.code(), tonic::Code::Unavailable, "{end:?}");
        assert!(end.message().contains("a new one"), "{end:?}");
    }
}

#[tokio::test]
async fn clients_with_persistent_connections_are_moved_before_the_listeners_close() {
    let house = House::with(RULES, |config| {
        config.limits.stop_delay = Duration::from_secs(3600);
    })
    .await;
    let address = house.http();
    let mut clients = Vec::new();
    for _ in 0..16 {
        let mut client = Client::to(address).await;
        let reply = client.post("/json", GOOD).await;
        assert_eq!((reply.status, reply.header("connection")), (200, None));
        clients.push(client);
    }
    let stopping = tokio::spawn(house.running.stop());
    eventually(async || Client::to(address).await.get("/readyz").await.status == 503).await;
    for mut client in clients {
        let reply = client.post("/json", GOOD).await;
        assert_eq!(
            (reply.status, reply.header("connection")),
            (200, Some("close"))
        );
        assert!(client.is_closed().await);
    }
    stopping.abort();
}

/// A thread that reads a file or looks up a name can take for ever. Here, all of the runtime's are
/// taken, so that a reload waits.
#[test]
fn a_reload_that_does_not_end_delays_no_end() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(1)
        .build()
        .unwrap();
    let (free, taken) = std::sync::mpsc::sync_channel::<()>(0);
    let stopped = runtime.block_on(async {
        let house = House::on(RULES).await;
        tokio::task::spawn_blocking(move || taken.recv());
        let reload = house.running.reload();
        assert!(timeout(Duration::from_millis(50), reload).await.is_err());
        timeout(Duration::from_secs(30), house.running.stop()).await
    });
    drop(free);
    assert!(stopped.is_ok(), "it waits for the reload");
}
