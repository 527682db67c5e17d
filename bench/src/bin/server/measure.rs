//! One contender under one load: first its answers are checked, then it is measured.

use std::cell::RefCell;
use std::error::Error;
use std::time::Duration;

use tollgate_bench::latency::{self, BasisPoints};
use tollgate_bench::server_process::cpu_time;

use crate::budget::Budget;
use crate::contender::{Launch, Running};
use crate::generator::{KeyOrder, Length, Load, Pace, Seen};
use crate::question::Question;
use crate::scenario::{KEYS, Keys, Scenario};
use crate::template::Template;

/// Connections and pipeline of requests that are not measured.
const CHECK_CONNECTIONS: usize = 4;
const CHECK_PIPELINE: usize = 16;
/// Connections of the requests that only touch keys.
const TOUCH_CONNECTIONS: usize = 64;
/// Requests of each part of a check.
const CHECKS: u64 = 1000;
/// Load before a measurement.
const WARM_UP: Duration = Duration::from_millis(200);

/// The figures of one contender under one load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figures {
    pub(crate) per_second: f64,
    /// Processor time of the server for a decision, in microseconds.
    pub(crate) cpu_micros: f64,
    pub(crate) p50_micros: f64,
    pub(crate) p99_micros: f64,
    pub(crate) p999_micros: f64,
    /// The share of its core that the server used, and of its own that the load generator used.
    pub(crate) server_busy: f64,
    pub(crate) load_busy: f64,
}

/// A contender that is ready for loads.
#[derive(Debug)]
pub(crate) struct Subject {
    running: Running,
    /// Budgets of which every key was requested before.
    warm: RefCell<Vec<Budget>>,
}

// === impl Subject ===

impl Subject {
    pub(crate) fn new(running: Running) -> Subject {
        Subject {
            running,
            warm: RefCell::default(),
        }
    }

    /// Whether it can have this load: a counter and a floor deny nothing, and lists are pipelines
    /// already.
    pub(crate) fn can(&self, scenario: &Scenario) -> bool {
        let contender = &self.running.contender;
        let fits = scenario.pipeline == 1 || !contender.question.is_list();
        fits && (scenario.is_allowed() || contender.limits())
    }

    /// Checks that of a thousand concurrent requests on one key exactly its limit is allowed, and
    /// that each of a thousand keys is allowed twice.
    ///
    /// # Errors
    ///
    /// Any other outcome.
    pub(crate) fn check(&self) -> Result<(), Box<dyn Error>> {
        let ask = |budget, space, order| {
            let template = self.template(budget, space);
            let pipeline = match self.running.contender.question.is_list() {
                true => 1,
                false => CHECK_PIPELINE,
            };
            let pace = Pace::Closed { pipeline };
            let length = Length::Decisions(CHECKS);
            self.load(&template, CHECK_CONNECTIONS, pace, order, length)
        };
        let expect = |what: &str, seen: &Seen, allowed: u64| {
            let denied = CHECKS - allowed;
            if (seen.allowed, seen.denied) == (allowed, denied) {
                return Ok(());
            }
            Err(format!(
                "{}: of {CHECKS} {what}, {} were allowed and {} denied, in place of {allowed} and \
                 {denied}",
                self.running.contender.name, seen.allowed, seen.denied
            ))
        };
        if !self.running.contender.limits() {
            let seen = ask(Budget::Large, 'c', KeyOrder::Hot)?;
            expect("requests", &seen, CHECKS)?;
            let counts = self.running.contender.question == Question::Incr;
            if counts && i64::try_from(CHECKS) != Ok(seen.largest) {
                return Err(format!("INCR counted {} of {CHECKS}", seen.largest).into());
            }
            return Ok(());
        }
        let hundred = u64::from(Budget::Hundred.capacity());
        let hot = ask(Budget::Hundred, 'c', KeyOrder::Hot)?;
        expect("requests on one key", &hot, hundred)?;
        for (what, allowed) in [("first", CHECKS), ("second", CHECKS), ("third", 0)] {
            let each = ask(Budget::Two, 'd', KeyOrder::Ascending)?;
            expect(&format!("{what} requests on keys"), &each, allowed)?;
        }
        Ok(())
    }

    /// Measures it in a closed loop.
    pub(crate) fn measure(
        &self,
        scenario: &Scenario,
        seconds: u32,
    ) -> Result<Figures, Box<dyn Error>> {
        let pace = Pace::Closed {
            pipeline: scenario.pipeline,
        };
        self.measure_at(scenario, pace, seconds)
    }

    /// Measures it at so many requests per second, whatever it does.
    pub(crate) fn measure_paced(
        &self,
        scenario: &Scenario,
        per_second: f64,
        seconds: u32,
    ) -> Result<Figures, Box<dyn Error>> {
        let every = Duration::try_from_secs_f64(1.0 / per_second)?;
        self.measure_at(scenario, Pace::Open { every }, seconds)
    }

    /// Warms it up, loads it, and counts its processor time in the load. A wrong decision is an
    /// error.
    fn measure_at(
        &self,
        scenario: &Scenario,
        pace: Pace,
        seconds: u32,
    ) -> Result<Figures, Box<dyn Error>> {
        let order = match scenario.keys {
            Keys::Hot => KeyOrder::Hot,
            Keys::Uniform => KeyOrder::Random,
        };
        self.touch(scenario)?;
        let template = self.template(scenario.budget, 'k');
        let load = |length| self.load(&template, scenario.connections, pace, order, length);
        load(Length::Time(WARM_UP))?;
        let before = cpu_time(&self.running.process)?;
        let seen = load(Length::Time(Duration::from_secs(seconds.into())))?;
        let used = cpu_time(&self.running.process)?.saturating_sub(before);
        let wrong = match scenario.is_allowed() {
            true => seen.denied,
            false => seen.allowed,
        };
        if wrong > 0 || seen.decisions() == 0 {
            let (name, of) = (&self.running.contender.name, seen.decisions());
            return Err(format!("{name}, {}: {wrong} of {of} are wrong", scenario.name()).into());
        }
        Ok(Figures::new(&seen, used))
    }

    /// Requests the keys of a load, so that it finds all of them, and those of a small budget used
    /// up. Many keys are requested only once for all loads.
    fn touch(&self, scenario: &Scenario) -> Result<(), String> {
        let passes = match scenario.is_allowed() {
            true => 1,
            false => u64::from(scenario.budget.capacity()),
        };
        let (order, requests) = match scenario.keys {
            Keys::Hot => (KeyOrder::Hot, passes),
            Keys::Uniform => (KeyOrder::Ascending, passes * u64::from(KEYS)),
        };
        let mut warm = self.warm.borrow_mut();
        let is_known = scenario.keys == Keys::Uniform && warm.contains(&scenario.budget);
        if !is_known && !matches!(self.running.contender.launch, Launch::Floor(_)) {
            // No pipelines, with which a server that sends each reply alone waits for the kernel.
            let pace = Pace::Closed { pipeline: 1 };
            let template = self.template(scenario.budget, 'k');
            let length = Length::Decisions(requests);
            self.load(&template, TOUCH_CONNECTIONS, pace, order, length)?;
            if scenario.keys == Keys::Uniform {
                warm.push(scenario.budget);
            }
        }
        Ok(())
    }

    fn template(&self, budget: Budget, space: char) -> Template {
        let question = self.running.contender.question;
        question.template(budget, space, &self.running.script)
    }

    /// Loads it with requests of its kind; an error names it.
    fn load(
        &self,
        template: &Template,
        connections: usize,
        pace: Pace,
        order: KeyOrder,
        length: Length,
    ) -> Result<Seen, String> {
        let load = Load {
            address: self.running.address,
            question: self.running.contender.question,
            template,
            connections,
            pace,
            order,
            length,
        };
        let seen = load.run();
        seen.map_err(|problem| format!("{}: {problem}", self.running.contender.name))
    }
}

// === impl Figures ===

impl Figures {
    /// The figures of a load for which the server used so much processor time.
    #[expect(
        clippy::as_conversions,
        reason = "exact below 2^53, which no count here reaches"
    )]
    fn new(seen: &Seen, used: Duration) -> Figures {
        let (decisions, took) = (seen.decisions() as f64, seen.took.as_secs_f64());
        let micros = |share| seen.latencies.within(BasisPoints(share)).unwrap_or(0) as f64 / 1e3;
        Figures {
            per_second: decisions / took,
            cpu_micros: used.as_secs_f64() * 1e6 / decisions,
            p50_micros: micros(5_000),
            p99_micros: micros(9_900),
            p999_micros: micros(9_990),
            server_busy: used.as_secs_f64() / took,
            load_busy: seen.own_time.as_secs_f64() / took,
        }
    }

    /// The median of each figure.
    pub(crate) fn median(rounds: &[Figures]) -> Figures {
        let middle = |figure: fn(&Figures) -> f64| latency::median(rounds.iter().map(figure));
        Figures {
            per_second: middle(|one| one.per_second),
            cpu_micros: middle(|one| one.cpu_micros),
            p50_micros: middle(|one| one.p50_micros),
            p99_micros: middle(|one| one.p99_micros),
            p999_micros: middle(|one| one.p999_micros),
            server_busy: middle(|one| one.server_busy),
            load_busy: middle(|one| one.load_busy),
        }
    }
}
