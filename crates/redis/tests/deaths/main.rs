//! Instances of Tollgate that are killed while they hold leased and reserved units.
//!
//! This program starts itself once more for each instance, which is why it has a `main` of its own.
//! `cargo test -p tollgate-redis --test deaths` prints the row of `docs/fault-tests.md`.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod log;

mod instance;

use std::path::Path;
use std::thread::park_timeout;
use std::time::{Duration, Instant};

use tollgate_core::{Cost, Mode, Sharing, Span};
use tollgate_redis::{Config, LEASE_LASTS, Redis};
use tollgate_testbed as testbed;

use instance::{Instance, KEYS, Way, charge, limit};
use log::{Line, Outcome, now};

const INSTANCES: usize = 3;
/// How many instances are killed; each is replaced at once.
const DEATHS: usize = 8;
/// How long an instance runs before it is killed.
const WORKS: Duration = Duration::from_secs(1);
/// The longest period without any answer, beside the lateness of the machine.
const GAP: Duration = Duration::from_millis(300);
/// How many decisions of a thousand may fail while instances are killed, and how many more for each
/// that times out at other times. Those are due to the machine, which is busier while it starts
/// instances.
const FAILED: usize = 50;
const BUSIER: usize = 4;
/// After this time, nothing of a killed instance delays others: reservations expire after 150 ms.
const AFTERMATH: Duration = Duration::from_secs(2);
/// How long an instance may decide on its local count without a reply from Redis: an interval and a
/// timeout.
const UNREPORTED_MAX: Duration = Duration::from_millis(110);

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    match &words[..] {
        [word, log, way @ ..] if word == "instance" => {
            let runtime = tokio::runtime::Runtime::new().unwrap();
            runtime.block_on(instance::work(Path::new(log), &Way::read(way)));
        }
        words if words.iter().any(|word| word == "--list") => {}
        _ => {
            instances_that_are_killed_take_nothing_along(&testbed::Cluster::start());
            println!("over TLS:");
            instances_that_are_killed_take_nothing_along(&testbed::Cluster::start_over_tls());
            println!("deaths: ok");
        }
    }
}

fn instances_that_are_killed_take_nothing_along(cluster: &testbed::Cluster) {
    let folder = testbed::Folder::new();
    let way = Way::to(cluster);
    let start = |number: usize| Instance::start(folder.file(&format!("instance-{number}")), &way);
    let mut instances: Vec<Instance> = (0..INSTANCES).map(start).collect();
    let (mut died, mut deaths) = (Vec::new(), Vec::new());
    let mut stood = Duration::ZERO;
    for number in INSTANCES..INSTANCES + DEATHS {
        stood = stood.max(pass(WORKS));
        let dead = std::mem::replace(&mut instances[0], start(number));
        died.push(dead.kill());
        deaths.push(now());
    }
    // The leases of the killed instances expire while the others keep running.
    stood = stood.max(pass(Duration::from(LEASE_LASTS) + WORKS));
    let lived: Vec<Vec<Line>> = instances.into_iter().map(Instance::stop).collect();
    served_all_the_time(&lived.concat(), &deaths, stood);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        is_kept(&way, &lived.concat(), &died.concat()).await;
        is_exceeded_by_the_bound(&way, &lived, &died).await;
    });
}

/// Waits; returns the longest time that a short timer took meanwhile.
fn pass(lasts: Duration) -> Duration {
    let (start, mut longest) = (Instant::now(), Duration::ZERO);
    while start.elapsed() < lasts {
        let before = Instant::now();
        // As long as an instance's timeout: its lateness is the machine's.
        park_timeout(Duration::from_millis(9));
        longest = longest.max(before.elapsed());
    }
    longest
}

/// From the first kill on, the other instances answer as before.
fn served_all_the_time(lived: &[Line], deaths: &[Duration], stood: Duration) {
    let from = deaths[0];
    let since = lived.iter().filter(|line| line.at >= from);
    let mut answered: Vec<Duration> = Vec::new();
    let mut took: Vec<Duration> = Vec::new();
    let (mut unanswered, mut contended) = (0, 0);
    for line in since {
        match line.outcome {
            Outcome::Begun => continue,
            Outcome::Allowed | Outcome::Denied => answered.push(line.at),
            Outcome::Contended => contended += 1,
            Outcome::Unknown | Outcome::Unreachable => unanswered += 1,
        }
        took.push(line.took);
    }
    took.sort();
    answered.sort();
    let gaps = answered.windows(2).map(|pair| pair[1] - pair[0]);
    let gap = gaps.max().unwrap();
    let part = |per_mille: usize| took[(took.len() - 1) * per_mille / 1_000];
    println!(
        "{DEATHS} instances killed, the others: {} decisions, {unanswered} unanswered, \
         {contended} contended; p50 {:.1?}, p99 {:.1?}, p99.9 {:.1?}, longest {:.1?}; never \
         without an answer for longer than {gap:.1?} (timers of 9 ms: longest {stood:.1?})",
        took.len(),
        part(500),
        part(990),
        part(999),
        part(1_000),
    );
    assert!(gap <= GAP + stood, "nobody was answered for {gap:?}");
    let ends = *deaths.last().unwrap() + AFTERMATH;
    let died = |line: &Line| (from..ends).contains(&line.at);
    let failed = per_mille(lived, died, |outcome| {
        !matches!(outcome, Outcome::Allowed | Outcome::Denied)
    });
    let slow = per_mille(
        lived,
        |line| !died(line),
        |outcome| outcome == Outcome::Unknown,
    );
    println!(
        "{failed} per mille failed while instances died; {slow} had no answer before and after"
    );
    let most = FAILED + BUSIER * slow;
    assert!(failed <= most, "{failed} of {most} per mille failed");
    assert!(
        contended * 1_000 <= FAILED * took.len(),
        "{contended} contended"
    );
}

/// Of a thousand of these decisions, how many have such an outcome.
fn per_mille(
    lines: &[Line],
    counts: impl Fn(&Line) -> bool,
    is: impl Fn(Outcome) -> bool,
) -> usize {
    let reply = lines.iter().filter(|line| line.outcome != Outcome::Begun);
    let reply: Vec<&Line> = reply.filter(|line| counts(line)).collect();
    let those = reply.iter().filter(|line| is(line.outcome));
    1_000 * those.count() / reply.len().max(1)
}

/// Units of one key, from the logs of the instances.
struct Units {
    allowed: u32,
    /// Of decisions with an unknown outcome, which may have been charged.
    unsure: u32,
    /// Of decisions in progress when their instance was killed.
    open: u32,
}

// === impl Units ===

impl Units {
    fn of(lived: &[Line], died: &[Line], mode: Mode, number: usize) -> Units {
        let count = |lines: &[Line], outcomes: &[Outcome]| {
            let of_key = lines.iter().filter(|line| line.ask.is_of(mode, number));
            let same = of_key.filter(|line| outcomes.contains(&line.outcome));
            u32::try_from(same.count()).unwrap()
        };
        let all = |outcomes: &[Outcome]| count(lived, outcomes) + count(died, outcomes);
        let begun = count(died, &[Outcome::Begun]);
        let ended = count(died, &Outcome::ENDS);
        Units {
            allowed: all(&[Outcome::Allowed]),
            unsure: all(&[Outcome::Unknown, Outcome::Contended]),
            open: begun - ended,
        }
    }
}

/// A store with a long timeout, to read what Redis has counted.
fn watcher(way: &Way) -> Redis {
    let config = Config {
        timeout: Span::from_secs(10),
        ..way.config()
    };
    Redis::connect(&config).unwrap()
}

/// The units of a key that Redis has counted.
async fn counted(store: &Redis, mode: Mode, number: usize) -> u32 {
    let limit = limit(mode);
    let peek = charge(store, &limit, mode, number, Cost::Peek(1)).shared(Sharing::default());
    let verdict = store.decide(&[peek]).await.unwrap();
    limit.capacity() - verdict.decisions[0].remaining()
}

/// Write-back: what an instance allowed within its last interval is lost with it, and
/// over-admission is at most that and the bound.
async fn is_exceeded_by_the_bound(way: &Way, lived: &[Vec<Line>], died: &[Vec<Line>]) {
    let store = watcher(way);
    let (mode, capacity) = (Mode::WriteBack, limit(Mode::WriteBack).capacity());
    let (mut over, mut bounds, mut unknown, mut last_units) = (0, 0, 0, 0);
    for number in 0..KEYS {
        let asked: Vec<Asked> = lived
            .iter()
            .chain(died)
            .map(|lines| Asked::of(lines, number))
            .collect();
        let allowed: u32 = asked.iter().map(|instance| instance.allowed).sum();
        let within = asked.iter().map(|instance| instance.within).max().unwrap();
        let others = u32::try_from(INSTANCES - 1).unwrap();
        let bound = others * within.min(capacity);
        let last: u32 = asked[lived.len()..]
            .iter()
            .map(|instance| instance.last)
            .sum();
        let counted = counted(&store, mode, number).await;
        assert!(
            counted + last >= allowed.min(capacity),
            "{counted} counted, {last} taken along, {allowed} allowed"
        );
        // A killed instance may have reported units of a decision that it had not logged, and Redis
        // may have charged a decision whose outcome is unknown.
        let open: u32 = asked[lived.len()..]
            .iter()
            .map(|instance| instance.open)
            .sum();
        let unsure: u32 = asked.iter().map(|instance| instance.unsure).sum();
        assert!(
            counted <= allowed + open + unsure,
            "{counted} counted, {allowed} allowed, {open} open, {unsure} unsure"
        );
        assert!(
            allowed <= capacity + bound + last,
            "{allowed} of {capacity}, {bound} and {last}"
        );
        over += allowed.saturating_sub(capacity);
        unknown += allowed.min(capacity) - counted.min(allowed);
        bounds += bound;
        last_units += last;
    }
    println!(
        "  of {KEYS} keys in write_back, {over} units too much, at most {bounds} are promised, and \
         {last_units} that instances allowed within the last {UNREPORTED_MAX:?} before they died; \
         {unknown} units are allowed and not counted"
    );
    assert!(over > 0, "no limit was exceeded");
}

/// What was requested of one instance for one write-back key.
struct Asked {
    allowed: u32,
    /// The most requests within [`UNREPORTED_MAX`], and what was allowed in the last such period.
    within: u32,
    last: u32,
    /// Decisions in progress at its end.
    open: u32,
    /// Decisions with an unknown outcome, which may have been charged.
    unsure: u32,
}

// === impl Asked ===

impl Asked {
    fn of(lines: &[Line], number: usize) -> Asked {
        let of_key = lines
            .iter()
            .filter(|line| line.ask.is_of(Mode::WriteBack, number));
        let at = |outcome: Outcome| -> Vec<Duration> {
            let same = of_key.clone().filter(|line| line.outcome == outcome);
            same.map(|line| line.at).collect()
        };
        let (begun, allowed) = (at(Outcome::Begun), at(Outcome::Allowed));
        let end = lines.last().map_or(Duration::ZERO, |line| line.at);
        let since = |times: &[Duration], end: Duration| {
            let from = times.partition_point(|at| *at + UNREPORTED_MAX < end);
            let until = times.partition_point(|at| *at <= end);
            u32::try_from(until - from).unwrap()
        };
        let ended = of_key.clone().count() - begun.len();
        Asked {
            allowed: u32::try_from(allowed.len()).unwrap(),
            within: begun
                .iter()
                .map(|end| since(&begun, *end))
                .max()
                .unwrap_or(0),
            last: since(&allowed, end),
            open: u32::try_from(begun.len() - ended).unwrap(),
            unsure: u32::try_from(at(Outcome::Unknown).len() + at(Outcome::Contended).len())
                .unwrap(),
        }
    }
}

/// No more is allowed than the limit, and Redis counts nothing that was neither allowed nor leased.
async fn is_kept(way: &Way, lived: &[Line], died: &[Line]) {
    let store = watcher(way);
    let (mut out, mut open, mut taken) = (0, 0, 0);
    for (mode, number) in (0..KEYS).flat_map(|key| [(Mode::Leased, key), (Mode::Strict, key)]) {
        let units = Units::of(lived, died, mode, number);
        let limit = limit(mode);
        let counted = counted(&store, mode, number).await;
        let Units { allowed, .. } = units;
        assert!(allowed <= limit.capacity(), "{allowed} allowed");
        assert!(allowed <= counted, "{allowed} allowed, {counted} counted");
        if mode == Mode::Leased {
            out += counted - allowed;
            continue;
        }
        // A killed instance has charged at most the one request that was in progress.
        let most = allowed + units.unsure + units.open;
        assert!(counted <= most, "{counted} counted, {most} explained");
        open += units.open;
        taken += counted - allowed;
    }
    println!(
        "  of {KEYS} leased keys, {out} units were out at instances that died, and are charged; \
         of {KEYS} keys that are asked two at a time, {open} units were asked for when their \
         instance died, and {taken} of those and of lost answers are charged"
    );
    // Otherwise nothing was tested: there were leases and reservations.
    assert!(out > 0 && open > 0, "{out} {open}");
}
