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
const SPEED: [(&str, &str, &str, f64); 4] = [
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
        1.0,
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
        "redis INCR",
        1.0,
    ),
];

/// The targets for which there are figures.
pub(crate) fn targets(report: &Report) -> Vec<Target> {
    let mut targets = Vec::new();
    let mut add = |kind: &str, is_least, wanted: &(&str, &str, &str, f64), ratio: Option<f64>| {
        let (load, ours, other, bound) = *wanted;
        targets.extend(ratio.map(|measured| Target {
            what: format!("{load}, {kind}: {ours} / {other}"),
            is_least,
            bound,
            measured,
        }));
    };
    for wanted in &CPU {
        let ratio = report.ratio(wanted.0, wanted.1, wanted.2, |one| one.cpu_micros);
        add("CPU", false, wanted, ratio);
    }
    for wanted in &SPEED {
        let ratio = report.ratio(wanted.0, wanted.1, wanted.2, |one| one.per_second);
        add("speed", true, wanted, ratio);
    }
    targets
}
