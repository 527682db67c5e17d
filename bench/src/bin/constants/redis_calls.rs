//! What decisions over Redis cost: processor time of Redis and of the instance.

use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;
use tollgate::redis::{Config, Limiter, Mode, Redis};
use tollgate::{Limit, Span};
use tollgate_bench::latency::median;
use tollgate_bench::server_process::cpu_time_of;
use tollgate_testbed as testbed;

use crate::constant::{Constants, Unit};
use crate::library::limits;

/// Keys of strict decisions, each as likely as the others, and callers that ask for one at a time.
const KEYS: u32 = 100_000;
const CALLERS: u64 = 64;
/// How long a round lasts.
const ROUND: Duration = Duration::from_secs(1);
/// So long that load on the machine makes no decision fail.
const TIMEOUT: Span = Span::MINUTE;

/// Processor times and counts, until now.
struct Reading {
    redis: Duration,
    own: Duration,
    calls: f64,
}

/// Measures calls of each algorithm's script.
pub(crate) fn measure(rounds: u32, constants: &mut Constants) -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let mut instance = Vec::new();
        for (name, limit) in limits() {
            let server = testbed::Redis::start();
            let config = Config {
                batch: 1,
                ..config(&server)
            };
            let limiter = open(config, name, limit, Mode::Strict).await?;
            strict(&server, &limiter).await?;
            let (mut redis, mut own) = (Vec::new(), Vec::new());
            for _round in 0..rounds {
                let (of_redis, of_instance) = strict(&server, &limiter).await?;
                redis.push(of_redis);
                own.push(of_instance);
            }
            let what = format!(
                "processor time of Redis for a script call that decides once, {limit}, {KEYS} \
                 keys, {CALLERS} callers"
            );
            let nanos = median(redis.into_iter());
            constants.put(&format!("redis.cpu.{name}"), nanos, Unit::Nanos, &what);
            instance.push(median(own.into_iter()));
        }
        let what = "processor time of the instance for a call of Redis, at most of the algorithms, \
                    the caller included";
        let most = instance.into_iter().fold(0.0, f64::max);
        constants.put("redis.instance", most, Unit::Nanos, what);
        Ok(())
    })
}

fn config(server: &testbed::Redis) -> Config {
    Config {
        timeout: TIMEOUT,
        ..Config::single(server.address())
    }
}

async fn open(
    config: Config,
    name: &str,
    limit: Limit,
    mode: Mode,
) -> Result<Arc<Limiter>, Box<dyn Error>> {
    let redis = Redis::builder(config).local_keys(1).open()?;
    if !redis.until_up(Duration::from_secs(30)).await {
        return Err("Redis does not answer".into());
    }
    Ok(Arc::new(redis.limiter(name, limit)?.mode(mode)))
}

/// Nanoseconds of a decision: of Redis and of this process.
async fn strict(
    server: &testbed::Redis,
    limiter: &Arc<Limiter>,
) -> Result<(f64, f64), Box<dyn Error>> {
    let is_over = Arc::new(AtomicBool::new(false));
    let mut callers = JoinSet::new();
    let before = Reading::of(server)?;
    for caller in 0..CALLERS {
        let (limiter, is_over) = (Arc::clone(limiter), Arc::clone(&is_over));
        callers.spawn(async move {
            let (mut random, mut decisions) = (caller * 7_919 + 1, 0_u64);
            while !is_over.load(Ordering::Relaxed) {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                let key = (random >> 33) % u64::from(KEYS);
                black_box(limiter.check(&key).await.is_allowed());
                decisions += 1;
            }
            decisions
        });
    }
    tokio::time::sleep(ROUND).await;
    is_over.store(true, Ordering::Relaxed);
    let decisions: u64 = callers.join_all().await.iter().sum();
    let spent = Reading::of(server)?;
    if limiter.failures() > 0 {
        return Err(format!("{} decisions failed", limiter.failures()).into());
    }
    let calls = spent.calls - before.calls;
    if calls < decisions as f64 {
        return Err(format!("{calls} calls for {decisions} decisions").into());
    }
    let nanos = |of: Duration| of.as_secs_f64() * 1e9 / decisions as f64;
    Ok((
        nanos(spent.redis - before.redis),
        nanos(spent.own - before.own),
    ))
}

// === impl Reading ===

impl Reading {
    fn of(server: &testbed::Redis) -> Result<Reading, Box<dyn Error>> {
        let number = server.process_number().ok_or("Redis has ended")?;
        let reply = server.ask(&["INFO", "commandstats"]);
        let count = |line: &str| -> Option<f64> {
            let rest = line.strip_prefix("cmdstat_evalsha:calls=")?;
            rest.split(',').next()?.parse().ok()
        };
        let own = std::process::id().to_string();
        Ok(Reading {
            redis: cpu_time_of(&number)?,
            own: cpu_time_of(&own)?,
            calls: reply.lines().find_map(count).unwrap_or(0.0),
        })
    }
}
