//! What the results should be.

use tollgate_bench::target::Target;

use crate::report::Report;

/// Ratios of processor time per decision: load, ours, the other's, and how large it may be.
const CPU: [(&str, &str, &str, f64); 7] = [
    (
        "uniform-allowed-c64-p64",
        "tollgate CL.THROTTLE",
        "redis INCR",
        0.5,
    ),
    (
        "uniform-allowed-c64-p1",
        "tollgate CL.THROTTLE",
        "throttlecrab redis",
        0.5,
    ),
    (
        "uniform-allowed-c64-p1",
        "tollgate /v1/check",
        "throttlecrab http",
        0.9,
    ),
    (
        "uniform-allowed-c64-p1",
        "tollgate grpc",
        "throttlecrab grpc",
        1.0,
    ),
    (
        "uniform-allowed-c64-p1",
        "tollgate grpc",
        "floor grpc",
        1.15,
    ),
    (
        "uniform-allowed-c64-p1",
        "tollgate grpc 2",
        "floor grpc 2",
        1.15,
    ),
    (
        "uniform-allowed-c64-p1",
        "tollgate /v1/check",
        "floor http",
        1.15,
    ),
];

/// Ratios of decisions per second: load, ours, the other's, and how large it should be.
const SPEED: [(&str, &str, &str, f64); 5] = [
    (
        "uniform-allowed-c64-p1",
        "tollgate CL.THROTTLE",
        "redis INCR",
        1.0,
    ),
    (
        "uniform-allowed-c64-p16",
        "tollgate CL.THROTTLE",
        "redis-cell CL.THROTTLE",
        3.5,
    ),
    (
        "uniform-allowed-c64-p16",
        "tollgate CL.THROTTLE",
        "redis INCR",
        1.0,
    ),
    (
        "uniform-allowed-c64-p64",
        "tollgate CL.THROTTLE",
        "redis-cell CL.THROTTLE",
        3.5,
    ),
    (
        "uniform-allowed-c64-p64",
        "tollgate CL.THROTTLE",
        "redis INCR",
        1.0,
    ),
];

/// Contenders of which one processor should decide a million times a second.
const MILLION: [&str; 2] = ["tollgate /v1/check list", "tollgate grpc stream"];
/// The load without pipelines, over 64 connections.
const ONE_AT_A_TIME: &str = "uniform-allowed-c64-p1";
/// The longest p99 of gRPC with two descriptors, with 64 requests in flight.
const GRPC_P99_MICROS: f64 = 3_000.0;

/// All targets, with what was measured of each.
pub(crate) fn targets(report: &Report) -> Vec<Target> {
    let ratio = |kind: &str, is_least, wanted: &(&str, &str, &str, f64), figure| {
        let (load, ours, other, bound) = *wanted;
        Target {
            what: format!("{load}, {kind}: {ours} / {other}"),
            is_least,
            bound,
            measured: report.ratio(load, ours, other, figure),
        }
    };
    let cpu = CPU
        .iter()
        .map(|wanted| ratio("CPU", false, wanted, |one| one.cpu_micros));
    let speed = SPEED
        .iter()
        .map(|wanted| ratio("speed", true, wanted, |one| one.per_second));
    let millions = MILLION.iter().map(|ours| Target {
        what: format!("{ONE_AT_A_TIME}: {ours}, decisions per second"),
        is_least: true,
        bound: 1e6,
        measured: report.find(ONE_AT_A_TIME, ours).map(|one| one.per_second),
    });
    let grpc = report.find(ONE_AT_A_TIME, "tollgate grpc 2");
    let tail = Target {
        what: format!("{ONE_AT_A_TIME}: tollgate grpc 2, p99 in us"),
        is_least: false,
        bound: GRPC_P99_MICROS,
        measured: grpc.map(|one| one.p99_micros),
    };
    cpu.chain(speed).chain(millions).chain([tail]).collect()
}
