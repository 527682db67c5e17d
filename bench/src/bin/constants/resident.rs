//! The memory of the service's process, without keys and connections.

use std::error::Error;
use std::fs;
use std::net::TcpStream;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use tollgate_bench::machine::resident_bytes_of;
use tollgate_testbed::{Folder, Process, Redis, free_port};

use crate::constant::{Constants, Unit};

const RULES: &str = "domain: plan\ndescriptors: [{key: user, rate_limit: 100/minute}]\n";
/// How often a service that has been started is tried, and how long between.
const TRIED_MOST: usize = 200;
const TRIED_EVERY: Duration = Duration::from_millis(50);
/// Until it has done what it does after it listens.
const SETTLES: Duration = Duration::from_secs(2);

/// Measures a service with its counters in memory, and one over Redis.
pub(crate) fn measure(tollgate: &Path, constants: &mut Constants) -> Result<(), Box<dyn Error>> {
    let redis = Redis::start();
    let url = format!("redis://{}", redis.address());
    for (name, store, what) in [
        ("service.idle", "memory", "counters in memory"),
        ("service.idle_with_redis", &*url, "counters in Redis"),
    ] {
        let bytes = resident(tollgate, store)?;
        let what = format!("resident memory of `tollgate serve` without keys, {what}");
        constants.put(name, bytes as f64, Unit::Bytes, &what);
    }
    Ok(())
}

/// Starts a service with room for one key, and reads how much of it is in memory.
fn resident(tollgate: &Path, store: &str) -> Result<u64, Box<dyn Error>> {
    let folder = Folder::new();
    let [http, grpc, admin] = [free_port(), free_port(), free_port()];
    fs::write(folder.file("rules.yaml"), RULES)?;
    let settings = format!(
        "rules: [rules.yaml]\nstore: {store}\nmemory: {{max_keys: 1}}\nlisten: {{http: \
         '127.0.0.1:{http}', grpc: '127.0.0.1:{grpc}', admin: '127.0.0.1:{admin}'}}\n"
    );
    let file = folder.file("tollgate.yaml");
    fs::write(&file, settings)?;
    let command = "echo started; exec \"$0\" serve \"$1\" 2>/dev/null";
    let arguments = ["-c", command, &tollgate.display().to_string(), &file].map(str::to_owned);
    let process = Process::start("sh", &arguments, "started");
    let process = process.ok_or("`tollgate serve` does not start")?;
    for _tried in 0..TRIED_MOST {
        if TcpStream::connect(("127.0.0.1", http)).is_ok() {
            sleep(SETTLES);
            return Ok(resident_bytes_of(process.number()));
        }
        sleep(TRIED_EVERY);
    }
    Err("`tollgate serve` does not listen".into())
}
