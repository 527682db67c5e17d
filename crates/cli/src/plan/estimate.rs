//! Computes a plan: memory, processors, Redis. Every figure is rounded up.

use tollgate_memory::{BYTES_PER_KEY, Memory, spilled_bytes_max};

use super::constants::Constants;
use super::demand::{Demand, Kind};
use super::figure::{Amount, Figure};
use super::machines::{ListenerChoice, Machines, StoreChoice};

mod redis;

/// `memory.max_bytes` is rounded up to whole MiB.
const MEBIBYTE: u128 = 1 << 20;

/// What the machines need.
#[derive(Debug)]
pub(super) struct Plan {
    /// The sections, by their names in JSON.
    pub(super) sections: Vec<(&'static str, Vec<Figure>)>,
    /// Settings of `tollgate serve` that the plan presumes; none for a library.
    pub(super) settings: Option<String>,
    pub(super) warnings: Vec<String>,
}

/// The load, and the constants by which it is measured.
pub(super) struct Estimate<'a> {
    pub(super) demand: &'a Demand,
    pub(super) machines: Machines,
    pub(super) constants: &'a Constants,
}

/// Figures and the constants that they were computed from.
#[derive(Default)]
struct Sum {
    nanos: u64,
    from: Vec<&'static str>,
}

// === impl Sum ===

impl Sum {
    fn add(&mut self, nanos: u64, from: &'static str) {
        self.nanos = self.nanos.saturating_add(nanos);
        self.from.push(from);
    }
}

// === impl Estimate ===

impl Estimate<'_> {
    /// Computes all sections, the settings, and what to be careful about.
    pub(super) fn plan(&self) -> Plan {
        let mut warnings = Vec::new();
        let processors = self.processors();
        let instances = processors
            .last()
            .map_or(1, |figure| figure.amount.value_in_json());
        let (memory, settings) = self.memory(instances, &mut warnings);
        let mut sections = vec![("memory", memory), ("processors", processors)];
        match self.machines.store {
            StoreChoice::Redis => sections.push(("redis", self.redis(&mut warnings))),
            StoreChoice::Memory if instances > 1 => warnings.push(format!(
                "{instances} instances count alone: a client whose requests reach all of them is \
                 allowed {instances} times its limit. Send each client to one instance, or count \
                 in Redis (--store redis)"
            )),
            StoreChoice::Memory => {}
        }
        Plan {
            sections,
            settings,
            warnings,
        }
    }

    fn is_library(&self) -> bool {
        self.machines.listener == ListenerChoice::Library
    }

    /// The table, the states that are larger than its slots, and the process; the settings.
    fn memory(&self, instances: u64, warnings: &mut Vec<String>) -> (Vec<Figure>, Option<String>) {
        let keys = self.demand.keys();
        let max_keys = usize::try_from(keys).unwrap_or(usize::MAX);
        let limits = || self.demand.limits.iter().map(|one| &one.limit);
        let builder = || Memory::builder().max_keys(max_keys).limits(limits());
        let spilled = self.spilled_bytes();
        let mut size = builder().size();
        let mut settings = format!("memory: {{max_keys: {keys}}}");
        // Beyond what the limits alone lead to.
        if spilled > to_u128(size.arena_bytes) {
            let slots = u128::from(keys) * to_u128(BYTES_PER_KEY);
            let bytes = (slots + spilled).div_ceil(MEBIBYTE);
            settings = format!("memory: {{max_keys: {keys}, max_bytes: {bytes}MiB}}");
            let bytes = usize::try_from(bytes * MEBIBYTE).unwrap_or(usize::MAX);
            size = builder().max_bytes(bytes).size();
        }
        warnings.extend(warn_of_arena(spilled, to_u128(size.arena_bytes)));
        let table = to_u128(size.table_bytes);
        let what = match self.machines.store {
            StoreChoice::Memory => format!("table of an instance, for {keys} keys"),
            StoreChoice::Redis => {
                format!("table of an instance, for {keys} keys while Redis does not answer")
            }
        };
        let mut figures = vec![
            Figure::new("tableBytes", what, Amount::Bytes(table), &[]),
            Figure::new(
                "spilledBytes",
                "states that are larger than a slot of the table, when all are full",
                Amount::Bytes(spilled),
                &[],
            ),
        ];
        let (process, from) = match (self.is_library(), self.machines.store) {
            (true, _) => (0, None),
            (false, StoreChoice::Memory) => self.constant("service.idle"),
            (false, StoreChoice::Redis) => self.constant("service.idle_with_redis"),
        };
        figures.extend(from.map(|from| {
            let what = "process of an instance, without keys and connections";
            Figure::new("processBytes", what, Amount::Bytes(process.into()), &[from])
        }));
        let instance = table + spilled + u128::from(process);
        let all = instance.saturating_mul(u128::from(instances));
        let from: Vec<&str> = from.into_iter().collect();
        figures.extend([
            Figure::new(
                "instanceBytes",
                "each instance",
                Amount::Bytes(instance),
                &from,
            ),
            Figure::new("totalBytes", "all instances", Amount::Bytes(all), &from),
        ]);
        (figures, (!self.is_library()).then_some(settings))
    }

    /// The states that are larger than a slot of the table, when all are full.
    fn spilled_bytes(&self) -> u128 {
        let limits = self.demand.limits.iter();
        limits
            .map(|one| u128::from(one.keys) * to_u128(spilled_bytes_max(&one.limit)))
            .sum()
    }

    fn constant(&self, name: &'static str) -> (u64, Option<&'static str>) {
        (self.constants.get(name), Some(name))
    }

    /// What an instance does for a request.
    fn instance_time(&self) -> Sum {
        let mut sum = Sum::default();
        let first = self.machines.listener.constant();
        if let Some(name) = first {
            sum.add(self.constants.get(name), name);
        }
        for (index, one) in self.demand.limits.iter().enumerate() {
            let library = Kind::of(&one.limit).library();
            let own = self.constants.get(library);
            // A listener was measured with a token bucket, so only what exceeds it is added.
            let bucket = self.constants.get("library.token_bucket");
            match (first, index) {
                (None, _) => sum.add(own, library),
                (Some(_), 0) => {}
                (Some(_), _) => sum.add(self.constants.get("service.limit"), "service.limit"),
            }
            if first.is_some() && own > bucket {
                sum.add(own - bucket, library);
                // Only named: it is in the difference.
                sum.add(0, "library.token_bucket");
            }
            if self.machines.store == StoreChoice::Redis {
                // As if no key were busy: what a mode saves depends on the traffic.
                sum.add(self.constants.get("redis.instance"), "redis.instance");
            }
        }
        sum
    }

    /// The processor time of a request, and how many instances that takes.
    fn processors(&self) -> Vec<Figure> {
        let Sum { nanos, from } = self.instance_time();
        let load = self.load(nanos);
        let Machines {
            cores,
            utilization,
            spare,
            ..
        } = self.machines;
        let needed = self.machines.count(load, cores);
        let mut figures = vec![
            Figure::new(
                "nanosPerRequest",
                "processor time of an instance for each request",
                Amount::Nanos(nanos),
                &from,
            ),
            Figure::new(
                "busy",
                "processors busy in all instances",
                millicores(load),
                &from,
            ),
        ];
        if spare > 0 {
            let what = "instances that the load needs";
            figures.push(Figure::new("needed", what, Amount::Count(needed), &from));
        }
        let what = format!(
            "instances, each of {cores} processors used up to {utilization} %{}",
            if spare > 0 {
                ", with the spare ones"
            } else {
                ""
            }
        );
        let instances = Amount::Count(needed.saturating_add(spare));
        figures.push(Figure::new("instances", what, instances, &from));
        figures
    }

    /// Nanoseconds per second, if each request takes so many.
    fn load(&self, nanos: u64) -> u128 {
        u128::from(nanos) * u128::from(self.demand.per_second)
    }
}

/// A store has a largest arena, whatever its settings.
fn warn_of_arena(spilled: u128, arena: u128) -> Option<String> {
    (spilled > arena).then(|| {
        format!(
            "{} of states that are larger than a slot are more than the {} that a store can have: \
             live keys are evicted before all are full. Use limits with smaller states, such as \
             `token_bucket` or `sliding_window`, or send each user to one of several instances \
             and plan for the users of one",
            Amount::Bytes(spilled),
            Amount::Bytes(arena)
        )
    })
}

fn millicores(nanos_per_second: u128) -> Amount {
    let millicores = nanos_per_second.div_ceil(1_000_000);
    Amount::Millicores(u64::try_from(millicores).unwrap_or(u64::MAX))
}

fn to_u128(bytes: usize) -> u128 {
    u128::try_from(bytes).unwrap_or(u128::MAX)
}
