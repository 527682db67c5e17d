//! Two gateways over one Redis, under the load of `h2load`.

use std::net::SocketAddr;
use std::process::{Command, Stdio};

use tokio::task::spawn_blocking;
use tollgate_server::Config;
use tollgate_testbed::Redis;

use super::upstream::Echo;
use super::{gateway_with, section};
use crate::over_redis::at;

const COUNT: usize = 1000;
/// How many requests each of the two gateways gets: fewer than the limit, but more than half of it.
const REQUESTS: usize = 800;

const _: () = assert!(REQUESTS < COUNT && 2 * REQUESTS > COUNT);

/// The protocol of a load.
#[derive(Clone, Copy, Debug)]
enum Version {
    Http1,
    Http2,
}

/// How many of `REQUESTS` requests `h2load` saw allowed; all others must be denied.
fn count_allowed(gateway: SocketAddr, version: Version) -> usize {
    let mut command = Command::new("h2load");
    command.args(["-t", "1", "-c", "8", "-n", &REQUESTS.to_string()]);
    match version {
        Version::Http1 => command.arg("--h1"),
        Version::Http2 => command.args(["-m", "10"]),
    };
    let command = command.arg(format!("http://{gateway}/"));
    let output = command.stderr(Stdio::inherit()).output();
    let output = output.expect("h2load is installed: apt-get install nghttp2-client");
    let text = String::from_utf8(output.stdout).unwrap();
    let statuses = text
        .lines()
        .find_map(|line| line.strip_prefix("status codes: "))
        .unwrap_or_else(|| panic!("h2load printed no statuses: {text}"));
    let count = |class: &str| -> usize {
        let counts = statuses.split(", ");
        let count = counts
            .filter_map(|count| count.split_once(' '))
            .find(|(_, name)| *name == class);
        count.unwrap().0.parse().unwrap()
    };
    let [allowed, denied] = ["2xx", "4xx"].map(count);
    assert_eq!(allowed + denied, REQUESTS, "{text}");
    allowed
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_gateways_over_one_redis_allow_exactly_one_limit() {
    let redis = Redis::start();
    let upstream = Echo::start().await;
    // A day that begins with the first request, not at midnight.
    let rules = format!(
        "domain: api\ndescriptors:\n- key: remote_address\n  rate_limit: {{window: 1d, \
         requests_per_unit: {COUNT}, algorithm: fixed_window, anchor: first_request}}\n"
    );
    let change = |config: &mut Config| config.store = at(&redis);
    let one = gateway_with(&rules, section(upstream.address, ""), change).await;
    let other = gateway_with(&rules, section(upstream.address, ""), change).await;
    let [one, other] = [one.gateway(), other.gateway()];
    let (by_http1, by_http2) = tokio::join!(
        spawn_blocking(move || count_allowed(one, Version::Http1)),
        spawn_blocking(move || count_allowed(other, Version::Http2)),
    );
    let allowed = [by_http1.unwrap(), by_http2.unwrap()];
    assert_eq!(allowed.iter().sum::<usize>(), COUNT, "{allowed:?}");
    // What the clients saw is what the upstream got.
    assert_eq!(upstream.requests().len(), COUNT);
}
