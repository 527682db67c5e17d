//! The configuration files of Tollgate, and the script for Redis.

use crate::budget::Budget;
use crate::question::DOMAIN;

/// A token bucket as the moment at which it is full again, in microseconds of Redis's clock, as
/// `CL.THROTTLE` replies.
pub(crate) const GCRA: &str = "\
local now = redis.call('TIME')
now = now[1] * 1000000 + now[2]
local limit = ARGV[1] + 1
local interval = ARGV[3] * 1000000 / ARGV[2]
local full = math.max(tonumber(redis.call('GET', KEYS[1]) or now), now)
local wait = full + interval - limit * interval - now
if wait > 0 then
  return {1, limit, 0, math.ceil(wait / 1000000), math.ceil((full - now) / 1000000)}
end
full = full + interval
redis.call('SET', KEYS[1], string.format('%.0f', full), 'PX', math.ceil((full - now) / 1000))
local left = math.floor((limit * interval - (full - now)) / interval)
return {0, limit, left, -1, math.ceil((full - now) / 1000000)}
";

/// Room in each of Tollgate's tables: the keys of all loads are live at once.
const MAX_KEYS: u32 = 4_000_000;

/// The ports of one Tollgate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ports {
    pub(crate) redis: u16,
    pub(crate) http: u16,
    pub(crate) grpc: u16,
}

/// The settings of `tollgate serve`: the defaults, but for the room for keys, and for bounds that
/// 512 connections of one address with 64 requests each exceed.
pub(crate) fn tollgate(ports: Ports) -> String {
    let Ports { redis, http, grpc } = ports;
    format!(
        "rules: [rules.yaml]
listen:
  redis: 127.0.0.1:{redis}
  http: 127.0.0.1:{http}
  grpc: 127.0.0.1:{grpc}
  admin: null
memory: {{max_keys: {MAX_KEYS}}}
redis_protocol: {{throttle_keys: {MAX_KEYS}}}
limits: {{connections_per_address: 1024, streams: 262144}}
"
    )
}

/// The rules of `tollgate serve`: one for each budget, and another for a second descriptor.
pub(crate) fn tollgate_rules() -> String {
    let mut rules = format!("domain: {DOMAIN}\ndescriptors:\n");
    for budget in Budget::ALL {
        for suffix in ["", "_1"] {
            rules += &format!(
                "  - key: {}{suffix}\n    rate_limit: {{unit: day, requests_per_unit: {}, \
                 algorithm: token_bucket, burst: {}}}\n",
                budget.rule(),
                budget.count(),
                budget.capacity()
            );
        }
    }
    rules
}
