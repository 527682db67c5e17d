//! A collector of OpenTelemetry for tests: it receives OTLP over HTTP, and decodes it with the
//! messages that OpenTelemetry publishes.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use flate2::read::GzDecoder;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTracePartialSuccess, ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;

pub use opentelemetry_proto::tonic::metrics::v1::{Metric, metric::Data, number_data_point};

/// Longer than anything takes that a test waits for.
const DEADLINE: Duration = Duration::from_secs(30);

/// How the collector answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Behaviour {
    /// It takes everything.
    Take,
    /// It takes everything, but for so many spans of each export.
    Reject(i64),
    /// It takes everything, after so many interim responses to each export.
    Interim(usize),
    /// It takes nothing, with a status, and further fields of the head.
    Fail(u16, &'static str),
    /// It answers with a status, and with a body that is longer than anyone reads.
    Long(u16),
    /// It answers with a status, and hangs in the middle of the body.
    Cut(u16),
    /// It never answers.
    Hang,
    /// It closes the connection.
    Close,
}

/// A request to the collector.
#[derive(Clone, Debug)]
pub struct Export {
    /// Its request line and headers, in lower case.
    pub head: String,
    /// Its body, not compressed.
    pub body: Vec<u8>,
    /// Whether the collector has taken it.
    pub is_taken: bool,
}

/// A collector on a free port, until it is dropped.
pub struct Collector {
    address: SocketAddr,
    state: Arc<State>,
    accepting: Option<JoinHandle<()>>,
}

struct State {
    inner: Mutex<Inner>,
    changed: Condvar,
}

struct Inner {
    behaviour: Behaviour,
    exports: Vec<Export>,
    connections: Vec<TcpStream>,
    is_open: bool,
}

// === impl Behaviour ===

impl Behaviour {
    /// Whether what is sent to it arrives.
    const fn takes(&self) -> bool {
        matches!(
            self,
            Self::Take | Self::Interim(_) | Self::Reject(_) | Self::Long(200) | Self::Cut(200)
        )
    }
}

// === impl Collector ===

impl Collector {
    /// A collector that takes everything.
    pub fn start() -> Collector {
        Collector::at("127.0.0.1:0".parse().expect("an address"))
    }

    /// The same at an address, such as that of one that is gone.
    pub fn at(address: SocketAddr) -> Collector {
        let listener = TcpListener::bind(address).expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let state = Arc::new(State {
            inner: Mutex::new(Inner {
                behaviour: Behaviour::Take,
                exports: Vec::new(),
                connections: Vec::new(),
                is_open: true,
            }),
            changed: Condvar::new(),
        });
        let shared = Arc::clone(&state);
        let accepting = thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                let mut inner = shared.lock();
                if !inner.is_open {
                    return;
                }
                inner.connections.extend(stream.try_clone());
                let shared = Arc::clone(&shared);
                thread::spawn(move || shared.serve(stream));
            }
        });
        Collector {
            address,
            state,
            accepting: Some(accepting),
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The URL of `OTEL_EXPORTER_OTLP_ENDPOINT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Answers like this from now on.
    pub fn set_behaviour(&self, behaviour: Behaviour) {
        self.state.lock().behaviour = behaviour;
    }

    /// Every request so far, also those that it has not taken.
    pub fn exports(&self) -> Vec<Export> {
        self.state.lock().exports.clone()
    }

    /// Waits until the requests so far are as wanted, and returns them.
    pub fn wait_for(&self, is_wanted: impl Fn(&[Export]) -> bool) -> Vec<Export> {
        let inner = self.state.lock();
        let wait = |inner: &mut Inner| !is_wanted(&inner.exports);
        let waited = self.state.changed.wait_timeout_while(inner, DEADLINE, wait);
        let (inner, timed_out) = waited.unwrap_or_else(PoisonError::into_inner);
        let exports = inner.exports.clone();
        drop(inner);
        assert!(!timed_out.timed_out(), "not as wanted: {exports:?}");
        exports
    }

    /// Waits until it has taken so many spans, and returns them.
    pub fn wait_for_spans(&self, count: usize) -> Vec<TakenSpan> {
        spans(&self.wait_for(|exports| spans(exports).len() >= count))
    }

    /// How many spans it has taken.
    pub fn count_spans(&self) -> usize {
        spans(&self.state.lock().exports).len()
    }

    /// Waits for the first metrics that are as wanted.
    pub fn wait_for_metrics(&self, is_wanted: impl Fn(&TakenMetrics) -> bool) -> TakenMetrics {
        let find = |exports: &[Export]| metrics(exports).into_iter().find(&is_wanted);
        let exports = self.wait_for(|exports| find(exports).is_some());
        find(&exports).expect("it was waited for")
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        let mut inner = self.state.lock();
        inner.is_open = false;
        for connection in inner.connections.drain(..) {
            let _ended_already = connection.shutdown(std::net::Shutdown::Both);
        }
        drop(inner);
        // Wakes the thread that accepts, which closes the port when it ends.
        let _closed_already = TcpStream::connect(self.address);
        let _panicked = self.accepting.take().map(JoinHandle::join);
    }
}

// === impl State ===

impl State {
    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves a connection until it ends, or until the behaviour ends it.
    fn serve(&self, stream: TcpStream) -> Option<()> {
        let mut output = stream.try_clone().ok()?;
        let mut input = BufReader::new(stream);
        loop {
            let mut head = String::new();
            while !head.ends_with("\r\n\r\n") {
                if input.read_line(&mut head).ok()? == 0 {
                    return None;
                }
            }
            let head = head.to_ascii_lowercase();
            let length = field(&head, "content-length")?.parse().ok()?;
            let mut sent = vec![0; length];
            input.read_exact(&mut sent).ok()?;
            let mut body = Vec::new();
            match field(&head, "content-encoding") {
                Some("gzip") => drop(GzDecoder::new(&*sent).read_to_end(&mut body).ok()?),
                _ => body = sent,
            }
            let mut inner = self.lock();
            let behaviour = inner.behaviour.clone();
            inner.exports.push(Export {
                head,
                body,
                is_taken: behaviour.takes(),
            });
            drop(inner);
            self.changed.notify_all();
            output.write_all(&answer(&behaviour)?).ok()?;
        }
    }
}

/// The bytes of a response; `None` to close the connection. A collector that hangs writes nothing.
fn answer(behaviour: &Behaviour) -> Option<Vec<u8>> {
    let respond = |status: u16, fields: &str, body: &[u8]| {
        let length = body.len();
        let head = format!("HTTP/1.1 {status} X\r\n{fields}content-length: {length}\r\n\r\n");
        Some([head.as_bytes(), body].concat())
    };
    match behaviour {
        Behaviour::Take => respond(200, "", b""),
        Behaviour::Interim(count) => {
            let mut answer = b"HTTP/1.1 100 Continue\r\n\r\n".repeat(*count);
            answer.extend(respond(200, "", b"")?);
            Some(answer)
        }
        Behaviour::Reject(rejected_spans) => {
            let response = ExportTraceServiceResponse {
                partial_success: Some(ExportTracePartialSuccess {
                    rejected_spans: *rejected_spans,
                    error_message: "too\nodd".to_owned(),
                }),
            };
            respond(200, "", &response.encode_to_vec())
        }
        Behaviour::Fail(status, fields) => respond(*status, fields, b"no"),
        Behaviour::Long(status) => respond(*status, "", &[b'x'; 100_000]),
        Behaviour::Cut(status) => {
            Some(format!("HTTP/1.1 {status} X\r\ncontent-length: 9\r\n\r\nno").into_bytes())
        }
        Behaviour::Hang => Some(Vec::new()),
        Behaviour::Close => None,
    }
}

fn field<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    let mut fields = head.lines().filter_map(|line| line.split_once(": "));
    fields
        .find(|(found, _)| *found == name)
        .map(|(_, value)| value)
}

/// A span, and the process that sent it.
#[derive(Clone, Debug)]
pub struct TakenSpan {
    /// The process.
    pub resource: Resource,
    /// The span.
    pub span: Span,
}

/// The metrics of an export.
#[derive(Clone, Debug)]
pub struct TakenMetrics {
    /// The process that sent them.
    pub resource: Resource,
    /// The metrics.
    pub metrics: Vec<Metric>,
}

/// All spans that a collector has taken, in their order.
fn spans(exports: &[Export]) -> Vec<TakenSpan> {
    let mut spans = Vec::new();
    let is_trace = |export: &&Export| export.is_taken && export.head.contains("/v1/traces ");
    for export in exports.iter().filter(is_trace) {
        let request = ExportTraceServiceRequest::decode(&*export.body).expect("OTLP");
        for of_resource in request.resource_spans {
            let resource = of_resource.resource.unwrap_or_default();
            for span in of_resource
                .scope_spans
                .into_iter()
                .flat_map(|scope| scope.spans)
            {
                let resource = resource.clone();
                spans.push(TakenSpan { resource, span });
            }
        }
    }
    spans
}

fn metrics(exports: &[Export]) -> Vec<TakenMetrics> {
    let is_metrics = |export: &&Export| export.is_taken && export.head.contains("/v1/metrics ");
    let requests = exports.iter().filter(is_metrics).map(|export| {
        let request = ExportMetricsServiceRequest::decode(&*export.body).expect("OTLP");
        let of_resource = request
            .resource_metrics
            .into_iter()
            .next()
            .expect("a resource");
        let scopes = of_resource.scope_metrics.into_iter();
        TakenMetrics {
            resource: of_resource.resource.unwrap_or_default(),
            metrics: scopes.flat_map(|scope| scope.metrics).collect(),
        }
    });
    requests.collect()
}

// === impl TakenSpan ===

impl TakenSpan {
    /// The trace's id.
    pub fn trace(&self) -> String {
        hexadecimal(&self.span.trace_id)
    }

    /// Its own id.
    pub fn id(&self) -> String {
        hexadecimal(&self.span.span_id)
    }

    /// The id of its parent, or nothing.
    pub fn parent(&self) -> String {
        hexadecimal(&self.span.parent_span_id)
    }

    /// An attribute as text; a list as its texts with commas.
    pub fn attribute(&self, key: &str) -> Option<String> {
        find_attribute(&self.span.attributes, key)
    }

    /// An attribute of its process.
    pub fn resource(&self, key: &str) -> Option<String> {
        find_attribute(&self.resource.attributes, key)
    }
}

/// An attribute as text.
pub fn find_attribute(attributes: &[KeyValue], key: &str) -> Option<String> {
    let found = attributes.iter().find(|attribute| attribute.key == key)?;
    show(found.value.as_ref()?.value.as_ref()?)
}

fn show(value: &any_value::Value) -> Option<String> {
    match value {
        any_value::Value::StringValue(text) => Some(text.clone()),
        any_value::Value::IntValue(number) => Some(number.to_string()),
        any_value::Value::DoubleValue(number) => Some(number.to_string()),
        any_value::Value::BoolValue(flag) => Some(flag.to_string()),
        any_value::Value::ArrayValue(array) => {
            let values = array.values.iter().map(|value| show(value.value.as_ref()?));
            let values: Option<Vec<String>> = values.collect();
            Some(values?.join(","))
        }
        _ => None,
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
