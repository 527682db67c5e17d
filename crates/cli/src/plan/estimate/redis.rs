//! What a plan needs of Redis.

use tollgate_core::{Algorithm, Mode, Segments};

use super::{Estimate, Sum, millicores};
use crate::plan::demand::{DemandedLimit, Kind, mode_in_effect};
use crate::plan::figure::{Amount, Figure};

impl Estimate<'_> {
    /// Commands, processors and memory of Redis.
    pub(super) fn redis(&self, warnings: &mut Vec<String>) -> Vec<Figure> {
        let rate = self.demand.per_second;
        let mut cpu = Sum::default();
        for one in &self.demand.limits {
            let name = Kind::of(&one.limit).redis_cpu();
            cpu.add(self.constants.get(name), name);
        }
        let load = self.load(cpu.nanos);
        let nodes = self.machines.count(load, 1);
        self.warn_of_shared_keys(warnings);
        let is_over_nodes = nodes > 1 && self.strict_limits() > 1;
        let what = match is_over_nodes {
            true => "script calls, one for each request whose keys are on one node",
            false => "script calls, at most one for each request",
        };
        if is_over_nodes {
            warnings.push(format!(
                "the {} keys of a request are on several Redis nodes, which decide in two rounds \
                 of calls to each. The plan has one call for each request: measure what Redis \
                 needs, or put fewer strict limits on a request",
                self.strict_limits()
            ));
        }
        let calls = if self.demand.limits.is_empty() {
            0
        } else {
            rate
        };
        let mut figures = vec![
            Figure::new("callsPerSecond", what, Amount::PerSecond(calls), &[]),
            Figure::new(
                "nanosPerCall",
                "processor time of Redis for each call",
                Amount::Nanos(cpu.nanos),
                &cpu.from,
            ),
            Figure::new(
                "busy",
                "processors busy in all nodes",
                millicores(load),
                &cpu.from,
            ),
        ];
        let utilization = self.machines.utilization;
        let what =
            format!("Redis nodes (primaries), each of one processor used up to {utilization} %");
        figures.push(Figure::new("nodes", what, Amount::Count(nodes), &cpu.from));
        figures.extend(self.redis_memory(nodes));
        figures
    }

    /// How many limits of a request Redis decides each time, all in one call or in none.
    fn strict_limits(&self) -> usize {
        let limits = self.demand.limits.iter();
        limits.filter(|one| one.mode == Mode::Strict).count()
    }

    /// A key is in one node, which decides on it alone.
    fn warn_of_shared_keys(&self, warnings: &mut Vec<String>) {
        let shared = self.demand.limits.iter().filter(|one| one.is_shared);
        for one in shared.filter(|one| one.mode == Mode::Strict) {
            let nanos = self.constants.get(Kind::of(&one.limit).redis_cpu());
            if self.machines.count(self.load(nanos), 1) > 1 {
                let instead = match mode_in_effect(&one.limit, Mode::Leased) {
                    Mode::Leased => "give this limit `mode: leased`",
                    _ => "this limit cannot be leased, so give each user a key of its own",
                };
                warnings.push(format!(
                    "all requests share the key of `{}`, and one Redis node cannot make so many \
                     calls: {instead}",
                    one.limit
                ));
            }
        }
    }

    /// Keys and hash tables of all nodes, and what each node takes without keys.
    fn redis_memory(&self, nodes: u64) -> Vec<Figure> {
        let overhead = u128::from(self.constants.get("redis.bytes.overhead"));
        let mut from = Vec::new();
        let mut states = 0_u128;
        for one in &self.demand.limits {
            let name = Kind::of(&one.limit).redis_bytes();
            let (more, more_from) = self.full_state(one);
            let bytes = u128::from(self.constants.get(name)) + more + overhead;
            states = states.saturating_add(bytes.saturating_mul(one.keys.into()));
            from.extend([Some(name), more_from].into_iter().flatten());
        }
        from.push("redis.bytes.overhead");
        let keys = self.demand.keys();
        let all_nodes = u128::from(nodes);
        let tables = hash_table_bytes(keys.div_ceil(nodes)).saturating_mul(all_nodes);
        let idle = u128::from(self.constants.get("redis.idle")).saturating_mul(all_nodes);
        let all = states.saturating_add(tables).saturating_add(idle);
        let per_node = all.div_ceil(all_nodes);
        let all_from = [&from[..], &["redis.idle"]].concat();
        vec![
            Figure::new(
                "keyBytes",
                format!("{keys} keys"),
                Amount::Bytes(states),
                &from,
            ),
            Figure::new(
                "hashTableBytes",
                "hash tables for them, at a power of two",
                Amount::Bytes(tables),
                &[],
            ),
            Figure::new(
                "nodeBytes",
                "used_memory of each node",
                Amount::Bytes(per_node),
                &all_from,
            ),
            Figure::new(
                "totalBytes",
                "all nodes; replicas as much again, each",
                Amount::Bytes(all),
                &all_from,
            ),
        ]
    }

    /// What a full state takes beyond that of a first request.
    fn full_state(&self, one: &DemandedLimit) -> (u128, Option<&'static str>) {
        let (name, count) = match one.limit.algorithm() {
            Algorithm::SlidingLog => {
                let more = one.limit.capacity().saturating_sub(1);
                ("redis.bytes.log_unit", u64::from(more))
            }
            Algorithm::SlidingWindow(segments) if segments != Segments::ONE => {
                ("redis.bytes.segment", u64::from(segments.get()))
            }
            _ => return (0, None),
        };
        let bytes = u128::from(self.constants.get(name)) * u128::from(count);
        (bytes, Some(name))
    }
}

/// Redis has two hash tables of its keys, of which one is for those that expire, with eight bytes
/// for each place; places are a power of two that is not below the number of keys.
fn hash_table_bytes(keys: u64) -> u128 {
    u128::from(keys.max(4)).next_power_of_two() * 16
}
