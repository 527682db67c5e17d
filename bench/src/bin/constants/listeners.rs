//! Requests over sockets, as the comparisons of the service and of the gateway measure them.

use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tollgate_bench::latency::median;
use tollgate_testbed::Folder;

use crate::arguments::Arguments;
use crate::constant::{Constants, Unit};

/// The load of which the constants are, and another one for what a second limit adds. On many keys,
/// a decision waits for memory: that is less than a hundredth of a request over a socket.
const LOAD: &str = "hot-allowed-c64-p1";
const PIPELINED: &str = "hot-allowed-c64-p16";
/// The contenders, by the names of their constants.
const LISTENERS: [(&str, &str); 4] = [
    ("service.grpc", "tollgate grpc"),
    ("service.http", "tollgate /v1/check"),
    ("service.json", "tollgate /json"),
    ("service.redis", "tollgate TG.CHECK"),
];
const TWO_LIMITS: &str = "tollgate grpc 2";
const GATEWAY: &str = "tollgate, 1 limit";
const GATEWAY_CONNECTIONS: u64 = 64;

/// Measures a request over each listener, and what a second limit adds.
pub(crate) fn measure(
    arguments: &Arguments,
    constants: &mut Constants,
) -> Result<(), Box<dyn Error>> {
    let rounds = arguments.rounds.to_string();
    let contenders = LISTENERS.map(|(_, contender)| contender);
    let only = contenders.iter().flat_map(|name| ["--only", name]);
    let loads = ["--only", LOAD, "--only", PIPELINED];
    let options = [&loads[..], &["--seconds", "1", "--rounds", &rounds]].concat();
    let options: Vec<&str> = only.chain(options).collect();
    let service = rows(&arguments.server, arguments, &options)?;
    let micros = |load: &str, contender: &str| {
        let mut found = service.iter().filter(|row| row["is_paced"] == false);
        let row = found.find(|row| row["load"] == load && row["contender"] == contender);
        let micros = row.and_then(|row| row["server_cpu_us_per_decision"].as_f64());
        micros.ok_or_else(|| format!("`{contender}` was not measured under {load}"))
    };
    for (name, contender) in LISTENERS {
        let what = format!(
            "processor time of the service for a request with one limit, {contender}, 64 \
             connections, no pipelines, one key"
        );
        constants.put(name, micros(LOAD, contender)? * 1e3, Unit::Nanos, &what);
    }
    let mut more = Vec::new();
    for load in [LOAD, PIPELINED] {
        more.push((micros(load, TWO_LIMITS)? - micros(load, "tollgate grpc")?) * 1e3);
    }
    // What a decision alone takes, where more than that was lost in what else the machine did.
    let least = constants.value("library.token_bucket");
    let more = median(more.into_iter()).max(least);
    let what = "processor time of the service for each further limit of a request, over gRPC";
    constants.put("service.limit", more, Unit::Nanos, what);
    let gateway = rows(
        &arguments.gateway,
        arguments,
        &["--seconds", "2", "--rounds", &rounds],
    )?;
    let row = gateway
        .iter()
        .find(|row| row["contender"] == GATEWAY && row["connections"] == GATEWAY_CONNECTIONS);
    let micros = row.and_then(|row| row["cpu_us_per_request"].as_f64());
    let micros = micros.ok_or("the gateway was not measured")?;
    let what = "processor time of the gateway for a request with one limit, HTTP/1.1, 64 \
                connections, a short response";
    constants.put("service.gateway", micros * 1e3, Unit::Nanos, what);
    Ok(())
}

/// The rows that a comparison writes.
fn rows(
    program: &Path,
    arguments: &Arguments,
    options: &[&str],
) -> Result<Vec<Value>, Box<dyn Error>> {
    let folder = Folder::new();
    let json = folder.file("rows.json");
    let mut command = Command::new(program);
    command.arg("--tollgate").arg(&arguments.tollgate);
    let status = command.args(options).args(["--json", &json]).status()?;
    if !status.success() {
        return Err(format!("{} ended with {status}", program.display()).into());
    }
    let report: Value = serde_json::from_str(&fs::read_to_string(&json)?)?;
    let rows = report["rows"].as_array().or(report["proxies"].as_array());
    Ok(rows.ok_or("there are no rows")?.clone())
}
