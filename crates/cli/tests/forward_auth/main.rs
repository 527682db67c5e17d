//! Real proxies with the configurations of `examples`, which ask a real `tollgate serve` about the
//! requests of a real client, curl.
#![allow(clippy::unwrap_used)]

mod client;

mod proxy;

mod site;

mod every_proxy;

mod forwarded;

mod nginx;
