//! Several instances that share limits over Redis: their options, and what the report says of them.

use serde_json::{Value, json};
use tollgate_core::{Mode, OnStoreError, Sharing, Span};
use tollgate_replay::{Deviation, InstancesSection};
use tollgate_simulation::{
    Fleet, INCIDENTS_MAX, INSTANCES_MAX, Incident, Load, SYNC_INTERVAL_MAX, SYNC_INTERVAL_MIN,
    TIMEOUT_MAX, TIMEOUT_MIN,
};

use crate::replay::failure::Failure;

/// The longest delay of a message.
const DELAY_MAX: Span = Span::from_secs(60);
/// The most that a clock is ahead of the one before.
const SKEW_MAX: Span = Span::HOUR;
/// The bounds of a timeout, as of the service's setting `timeout`.
const TIMEOUTS: [Span; 2] = [TIMEOUT_MIN, TIMEOUT_MAX];
/// The bounds of the time between two reports of local counts, as of the service's setting
/// `sync_interval`.
const SYNCS: [Span; 2] = [SYNC_INTERVAL_MIN, SYNC_INTERVAL_MAX];

/// Instances that share limits, and what happens to them.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Several instances")]
pub(super) struct InstancesArgs {
    /// Simulate N instances that share each limit over one Redis; each attempt goes to one of them
    /// at random.
    ///
    /// The instances run the same code as the service, over a simulated network, and a simulated
    /// Redis that executes the same scripts. The report is of what they decide, and has
    /// beside it what a single instance decides, and what Redis has to do.
    #[arg(long, value_name = "N", value_parser = instances)]
    instances: Option<usize>,
    /// How instances share limits whose rules set no mode: strict (default), leased, write_back.
    #[arg(long, value_name = "MODE", value_parser = mode)]
    mode: Option<Mode>,
    /// What limits do without Redis, unless their rules say it: local (default), allow, deny or
    /// error.
    #[arg(long, value_name = "CHOICE", value_parser = on_store_error)]
    on_store_error: Option<OnStoreError>,
    /// The longest delay of a message between an instance and Redis, such as 2ms; each message has
    /// one at random. Default: 1ms.
    #[arg(long, value_name = "TIME", value_parser = millis)]
    delay: Option<Span>,
    /// How long a decision may take before it is made without Redis, 1ms to 10s. Default: 15ms.
    #[arg(long, value_name = "TIME", value_parser = millis)]
    timeout: Option<Span>,
    /// How much further each instance's clock is ahead than that of the one before it. Default: 0s.
    #[arg(long, value_name = "TIME", value_parser = millis)]
    skew: Option<Span>,
    /// How often local counts are reported to Redis in mode write_back, 10ms to 10s. Default:
    /// 100ms.
    #[arg(long, value_name = "TIME", value_parser = millis)]
    sync: Option<Span>,
    /// An instance ends at this time, and starts again a second later; may be repeated, each time
    /// with the next instance.
    #[arg(long, value_name = "AT", value_parser = time)]
    crash: Vec<Span>,
    /// Redis does not answer from this time on, for so long, such as 20s,5s; may be repeated.
    #[arg(long, value_name = "AT,LENGTH", value_parser = two_times)]
    outage: Vec<(Span, Span)>,
    /// The primary of Redis ends at this time; a second later its replica takes over, which has
    /// missed the writes of the last moments, such as 20s,500ms; may be repeated.
    #[arg(long, value_name = "AT,LOST", value_parser = two_times)]
    failover: Vec<(Span, Span)>,
}

/// What came of the instances beside their decisions.
pub(super) struct InstancesReport {
    pub(super) instances: usize,
    pub(super) deviation: Deviation,
    pub(super) load: Load,
    /// What is to be said of limits whose mode has no effect.
    pub(super) notes: Vec<String>,
}

// === impl InstancesArgs ===

impl InstancesArgs {
    /// The instances, if they are to be simulated, for traffic that ends at `end`. `None`: that is
    /// not known.
    pub(super) fn fleet(&self, end: Option<Span>) -> Result<Option<Fleet>, Failure> {
        let usage = |message: String| Err(Failure::Message(message));
        let Some(instances) = self.instances else {
            return match self.first_option() {
                Some(option) => usage(format!(
                    "{option}: only for instances that share limits over Redis; add --instances N, \
                     or leave it out"
                )),
                None => Ok(None),
            };
        };
        let crashes = self.crash.iter().map(|at| (*at, Incident::Crash));
        let outages = self.outage.iter();
        let outages = outages.map(|(at, length)| (*at, Incident::Outage(*length)));
        let failovers = self.failover.iter();
        let failovers = failovers.map(|(at, lost)| (*at, Incident::Failover(*lost)));
        let incidents: Vec<_> = crashes.chain(outages).chain(failovers).collect();
        if incidents.len() > INCIDENTS_MAX {
            return usage(format!(
                "more than {INCIDENTS_MAX} times --crash, --outage and --failover; that is the most"
            ));
        }
        self.check_times(end)?;
        let usual = Fleet::new(instances);
        let within = |option: &str, given: Option<Span>, [least, most]: [Span; 2], usual: u64| {
            let millis = |span: Span| span.as_nanos() / 1_000_000;
            match given {
                None => Ok(usual),
                Some(given) if (least..=most).contains(&given) => Ok(millis(given)),
                Some(given) => Err(Failure::Message(format!(
                    "{option} {given}: must be from {}ms to {most}",
                    millis(least)
                ))),
            }
        };
        let skew = within("--skew", self.skew, [Span::ZERO, SKEW_MAX], 0)?;
        let delays = [Span::ZERO, DELAY_MAX];
        Ok(Some(Fleet {
            delay_ms: within("--delay", self.delay, delays, usual.delay_ms)?,
            timeout_ms: within("--timeout", self.timeout, TIMEOUTS, usual.timeout_ms)?,
            sync_ms: within("--sync", self.sync, SYNCS, usual.sync_ms)?,
            skew_ms: i64::try_from(skew).unwrap_or(i64::MAX),
            incidents,
            ..usual
        }))
    }

    /// Fails if something is to happen when the traffic is over.
    fn check_times(&self, end: Option<Span>) -> Result<(), Failure> {
        let crashes = self.crash.iter().map(|at| ("--crash", *at));
        let outages = self.outage.iter().map(|(at, _)| ("--outage", *at));
        let failovers = self.failover.iter().map(|(at, _)| ("--failover", *at));
        let mut all = crashes.chain(outages).chain(failovers);
        let late = end.and_then(|end| Some((all.find(|(_, at)| *at >= end)?, end)));
        match late {
            None => Ok(()),
            Some(((option, at), end)) => Err(Failure::Message(format!(
                "{option} {at}: the traffic ends at {end}; write an earlier time, or `for` with a \
                 longer one in --traffic"
            ))),
        }
    }

    /// How instances share limits whose rules do not say it.
    pub(super) fn sharing(&self) -> Sharing {
        Sharing {
            mode: self.mode.unwrap_or_default(),
            on_store_error: self.on_store_error.unwrap_or_default(),
            ..Sharing::default()
        }
    }

    /// An option that is given and needs `--instances`.
    fn first_option(&self) -> Option<&'static str> {
        let options = [
            ("--mode", self.mode.is_some()),
            ("--on-store-error", self.on_store_error.is_some()),
            ("--delay", self.delay.is_some()),
            ("--timeout", self.timeout.is_some()),
            ("--skew", self.skew.is_some()),
            ("--sync", self.sync.is_some()),
            ("--crash", !self.crash.is_empty()),
            ("--outage", !self.outage.is_empty()),
            ("--failover", !self.failover.is_empty()),
        ];
        let given = options.into_iter().find(|(_, is_given)| *is_given);
        given.map(|(name, _)| name)
    }
}

fn instances(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count) if (1..=INSTANCES_MAX).contains(&count) => Ok(count),
        _ => Err(format!("must be a whole number from 1 to {INSTANCES_MAX}")),
    }
}

fn mode(text: &str) -> Result<Mode, String> {
    let modes = [Mode::Strict, Mode::Leased, Mode::WriteBack];
    let found = modes.into_iter().find(|mode| mode.to_string() == text);
    found.ok_or_else(|| "write strict, leased or write_back".to_owned())
}

fn on_store_error(text: &str) -> Result<OnStoreError, String> {
    let known = [
        OnStoreError::Allow,
        OnStoreError::Deny,
        OnStoreError::Error,
        OnStoreError::Local,
    ];
    let found = known.into_iter().find(|one| one.to_string() == text);
    found.ok_or_else(|| "write allow, deny, error or local".to_owned())
}

/// Parses a time of whole milliseconds.
fn millis(text: &str) -> Result<Span, String> {
    let span: Span = time(text)?;
    match span.as_nanos().is_multiple_of(1_000_000) {
        true => Ok(span),
        false => Err("must be whole milliseconds, such as 2ms".to_owned()),
    }
}

fn two_times(text: &str) -> Result<(Span, Span), String> {
    let (first, second) = text
        .split_once(',')
        .ok_or("write two times such as 20s,5s")?;
    Ok((time(first)?, time(second)?))
}

fn time(text: &str) -> Result<Span, String> {
    text.trim()
        .parse()
        .map_err(|error| format!("{error}; write a time such as 20s or 500ms"))
}

// === impl InstancesReport ===

impl InstancesReport {
    /// The part for people.
    pub(super) fn to_text(&self) -> String {
        let InstancesSection {
            title,
            deviation,
            counts,
            notes,
        } = self.to_section();
        let counts = counts
            .iter()
            .map(|(_, what, count)| format!("{count:>12} {what}\n"));
        let counts: String = counts.collect();
        let notes = notes.iter().map(|note| format!("note: {note}\n"));
        let notes: String = notes.collect();
        let gap = if notes.is_empty() { "" } else { "\n" };
        format!("{title}\n\n{deviation}\n{counts}{gap}{notes}\n")
    }

    /// The part for the page.
    pub(super) fn to_section(&self) -> InstancesSection {
        let load = &self.load;
        let instances = match self.instances {
            1 => "1 instance".to_owned(),
            many => format!("{many} instances"),
        };
        let (requests, writes) = (load.per_second(load.to_redis), load.per_second(load.writes));
        let (most, end) = (load.redis_most, load.redis_end);
        InstancesSection {
            title: format!("{instances} over Redis"),
            deviation: self.deviation.clone(),
            counts: vec![
                ("no-answer", "without an answer", load.failed),
                ("no-redis", "decided without Redis", load.without_redis),
                ("redis-requests", "requests to Redis per second", requests),
                ("redis-writes", "writes to Redis per second", writes),
                ("redis-most-keys", "keys in Redis at most", most.keys),
                ("redis-most-bytes", "bytes of keys at most", most.bytes),
                ("redis-end-keys", "keys in Redis at the end", end.keys),
                ("redis-end-bytes", "bytes of keys at the end", end.bytes),
            ],
            notes: self.notes.clone(),
        }
    }

    /// The part for programs.
    pub(super) fn to_json(&self) -> Value {
        let load = &self.load;
        let mut json = self.deviation.to_json();
        json["count"] = json!(self.instances);
        json["failed"] = json!(load.failed);
        json["withoutRedis"] = json!(load.without_redis);
        json["notes"] = json!(self.notes);
        json["redis"] = json!({
            "requests": load.to_redis,
            "requestsPerSecond": load.per_second(load.to_redis),
            "writes": load.writes,
            "writesPerSecond": load.per_second(load.writes),
            "scriptCalls": load.calls,
            "mostKeys": load.redis_most.keys,
            "mostBytes": load.redis_most.bytes,
            "keys": load.redis_end.keys,
            "bytes": load.redis_end.bytes,
        });
        json
    }
}
