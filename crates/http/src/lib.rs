//! HTTP requests as descriptors; answers as status, headers and bodies.
//!
//! * [`Classifier`]: the settings of `identity`, and the descriptors of a request.
//!   The feature `jwt` adds the claims of JSON Web Tokens.
//! * [`ClientAddress`]: the address of the client behind trusted proxies, and with [`Prefix`] the
//!   network that makes its key.
//! * [`ProxyHeader`]: PROXY protocol 1 and 2.
//! * [`PathSettings`] normalise paths; [`Routes`] find the template of a path.
//! * [`OriginalSource`]: the request that a proxy asks about: nginx's `auth_request`, forward auth
//!   of others.
//! * [`AccessList`]: clients that no limit applies to, and clients that are always denied.
//! * [`check_framing`]: whether all servers and proxies read a request in the same way.
//! * [`status`]: 200 or 429.
//! * [`headers`]: `RateLimit` and `RateLimit-Policy` as in draft-ietf-httpapi-ratelimit-headers-11,
//!   `Retry-After`, `x-tollgate-delay-ms` and `x-tollgate-store`.
//! * [`Responder`]: the settings of `responses`; headers in several [`Dialect`]s, bodies, CORS;
//!   `RESOURCE_EXHAUSTED` for requests of gRPC.
//! * [`EventStream`]: the events of `text/event-stream`, each bounded.
//! * [`Problem`]: a denial or an error as `application/problem+json` (RFC 9457).
//!
//! Pure functions of a request's head and of a [`tollgate_core::Answer`]. Knows nothing about
//! sockets, rules or stores.

mod setting;

mod address_text;

mod peer;

mod proxy_protocol;

mod prefix;

mod entry_value;

mod client_address;

mod path;

mod route;

mod head;

mod framing;

mod original_request;

mod access_list;

mod rejection;

mod source;

#[cfg(feature = "jwt")]
mod token;

mod json_pointer;

mod event_stream;

mod classifier;

mod policy;

mod policy_texts;

mod headers;

mod problem;

mod dialect;

mod grpc;

mod media_range;

mod responder;

pub use access_list::{
    AccessList, InvalidEntry, LIST_ENTRIES_MAX, LIST_ERRORS_MAX, LIST_LINE_BYTES_MAX,
    ListedDescriptor, Listing, listed_descriptors,
};
pub use address_text::address_text;
pub use classifier::{
    Classifier, CostSettings, CostSource, CountWhenSettings, DescriptorCost, DescriptorSettings,
    EntrySettings, FALLBACKS_MAX, Identity, IdentityDescriptor, IdentityEntry, IdentitySettings,
    IfMissing, ResponseCost, STATUS_RANGES_MAX, StatusRange, read_units,
};
pub use client_address::{
    AddressSource, Client, ClientAddress, ClientAddressSettings, ENTRY_BYTES_MAX, HOPS_MAX, Origin,
    TRUSTED_PROXIES_MAX, Unusable,
};
pub use dialect::Dialect;
pub use entry_value::EntryValue;
pub use event_stream::EventStream;
pub use framing::{InvalidFraming, check_framing, list_members};
pub use grpc::{GRPC_MESSAGE, GRPC_RETRY_PUSHBACK_MS, GRPC_STATUS};
pub use head::Head;
pub use headers::{
    DELAY_MS, RATE_LIMIT, RATE_LIMIT_POLICY, STORE, STORE_UNAVAILABLE, delay_ms, headers, status,
};
pub use json_pointer::{JsonPointer, NoUnits, POINTER_STEPS_MAX};
pub use media_range::{MEDIA_RANGES_MAX, accepts_by_name};
pub use original_request::{InvalidOriginal, OriginalFlaw, OriginalSource};
pub use path::{
    EncodedSlash, InvalidPath, NormalPath, PATH_BYTES_MAX, PathParameters, PathSettings,
    TrailingSlash, remove_dot_segments,
};
pub use peer::Peer;
pub use policy::{NAME_BYTES_MAX, POLICIES_MAX};
pub use prefix::{NAT64_PREFIXES_MAX, Prefix};
pub use problem::{MEDIA_TYPE, Problem, QUOTA_EXCEEDED, REDUCED_CAPACITY};
pub use proxy_protocol::{InvalidProxyHeader, PROXY_HEADER_BYTES_MAX, ProxyHeader};
pub use rejection::{Flaw, Rejection};
pub use responder::{
    BODIES_MAX, BODY_BYTES_MAX, BodySettings, CORS_ORIGINS_MAX, CorsSettings, HeadersOn, Responder,
    ResponseSettings,
};
pub use route::{ROUTES_MAX, Routes};
pub use setting::{InvalidSetting, InvalidSettings};
pub use source::{
    PAIRS_MAX, PATTERN_BYTES_MAX, SourceSettings, USER_AGENT_PATTERNS_MAX, UserAgentPattern,
    VALUE_BYTES_MAX, is_respelled, is_same_to_cgi,
};
#[cfg(feature = "jwt")]
pub use token::{
    KEYS_FILE_BYTES_MAX, KEYS_MAX, LEEWAY_SECS_MAX, TOKEN_BYTES_MAX, TokenSettings, TokenSource,
    Verify,
};
