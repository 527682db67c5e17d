//! Deployments of Redis: one server, one watched by a sentinel, or a Cluster, each primary with a
//! replica that is a little behind.

mod effect;

mod redirect;

mod shard;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use tokio::time::{Duration, Instant};

use self::shard::Shard;
use crate::fault_kind::{FaultCounts, FaultKind};
use crate::keyspace::{self, Keyspace, READ_ONLY};
use crate::random::Random;
use crate::resp::Reply;
use crate::server::{Server, key_count};
use crate::slots::{SLOTS, slot_of};

/// How Redis is deployed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Topology {
    /// One address, which moves to the replica on a failover.
    Single,
    /// A sentinel reports which server is the primary.
    Sentinel,
    /// Three primaries, each with a replica.
    Cluster,
}

/// The name of the primary in the sentinel's configuration.
pub(crate) const MASTER: &str = "limits";
/// The address that follows the primary.
const SERVICE: &str = "redis:6379";
const SENTINEL: &str = "sentinel:26379";
const CLUSTER_SHARDS: u16 = 3;
/// The most microseconds by which a server reads its clock late.
pub(crate) const LATE_MICROS: u64 = 900;

/// All servers.
pub(crate) struct Deployment {
    pub(crate) topology: Topology,
    pub(crate) servers: Vec<Server>,
    pub(crate) shards: Vec<Shard>,
    /// The shard of each slot.
    slots: Arc<Vec<usize>>,
    /// Slots that are being moved, and to which shard.
    moving: BTreeMap<u16, usize>,
    /// Whether any slot has moved.
    has_moved: bool,
    /// The Cluster is down (`CLUSTERDOWN`), because a primary has failed.
    pub(crate) is_down: bool,
    random: Random,
    start: Instant,
    /// The simulated time at the start, in microseconds since 1970.
    base: u64,
    /// How long it stands still at the start.
    standing: u64,
    /// The most microseconds by which a server reads its clock late.
    late: u64,
    pub(crate) commands: u64,
    /// Effects of faults that servers see.
    pub(crate) faults: FaultCounts,
}

/// The state of one connection.
#[derive(Debug, Default)]
pub(crate) struct Session {
    is_asking: bool,
}

// === impl Deployment ===

impl Deployment {
    /// A deployment whose servers are all up and empty, with the slots divided evenly among the
    /// shards.
    pub(crate) fn new(topology: Topology, base: u64, random: Random) -> Deployment {
        let count = match topology {
            Topology::Cluster => usize::from(CLUSTER_SHARDS),
            Topology::Single | Topology::Sentinel => 1,
        };
        let shards = (0..count).map(|shard| Shard {
            primary: shard,
            replica: count + shard,
            copy: Keyspace::default(),
            behind: VecDeque::new(),
            lag: Duration::ZERO,
            peak: None,
        });
        let slots = (0..SLOTS).map(|slot| {
            let shard = u32::from(slot) * u32::try_from(count).unwrap_or(1) / u32::from(SLOTS);
            usize::try_from(shard).unwrap_or(0)
        });
        Deployment {
            topology,
            servers: (0..2 * count).map(|_| Server::new()).collect(),
            shards: shards.collect(),
            slots: Arc::new(slots.collect()),
            moving: BTreeMap::new(),
            has_moved: false,
            is_down: false,
            random,
            start: Instant::now(),
            base,
            standing: 0,
            late: LATE_MICROS,
            commands: 0,
            faults: FaultCounts::default(),
        }
    }

    /// The same, with a time that stands still at first, and servers that read it as late as this:
    /// all in microseconds.
    pub(crate) fn with_clock(self, standing: u64, late: u64) -> Deployment {
        Deployment {
            standing,
            late,
            ..self
        }
    }

    /// The addresses that an instance is configured with.
    pub(crate) fn addresses(&self) -> Vec<String> {
        match self.topology {
            Topology::Single => vec![SERVICE.to_owned()],
            Topology::Sentinel => vec![SENTINEL.to_owned()],
            Topology::Cluster => (0..2).map(address).collect(),
        }
    }

    /// The server at an address; the sentinel's comes after all of them.
    pub(crate) fn server_at(&self, named: &str) -> Option<usize> {
        match named {
            SERVICE => Some(self.shards[0].primary),
            SENTINEL => Some(self.sentinel()),
            _ => (0..self.servers.len()).find(|server| address(*server) == named),
        }
    }

    pub(crate) fn sentinel(&self) -> usize {
        self.servers.len()
    }

    /// Whether the server accepts connections.
    pub(crate) fn is_up(&self, server: usize) -> bool {
        self.servers.get(server).is_none_or(|server| server.is_up)
    }

    pub(crate) fn end_of_stop(&self, server: usize) -> Option<Instant> {
        let until = self.servers.get(server)?.stopped_until?;
        (until > Instant::now()).then_some(until)
    }

    /// The simulated time, in microseconds since 1970.
    pub(crate) fn micros(&self) -> u64 {
        let passed = Instant::now().duration_since(self.start).as_micros();
        let passed = u64::try_from(passed).unwrap_or(u64::MAX / 2);
        self.base + passed.saturating_sub(self.standing)
    }

    /// The time on a server's clock.
    pub(crate) fn tell(&mut self, server: usize) -> u64 {
        let micros = self.micros() + self.random.between(0, self.late);
        self.servers[server].clock.tell(micros)
    }

    /// Executes one command.
    pub(crate) fn execute(
        &mut self,
        server: usize,
        session: &mut Session,
        words: &[Bytes],
    ) -> Reply {
        self.commands += 1;
        let reply = self.answer(server, session, words);
        self.note_effect(server, &reply);
        reply
    }

    /// The reply to a command, which is executed.
    fn answer(&mut self, server: usize, session: &mut Session, words: &[Bytes]) -> Reply {
        let Some((name, rest)) = words.split_first() else {
            return Reply::error("ERR empty command");
        };
        let name = String::from_utf8_lossy(name).to_ascii_uppercase();
        let rest: Vec<Vec<u8>> = rest.iter().map(|word| word.to_vec()).collect();
        if server == self.sentinel() {
            return self.ask_sentinel(&name, &rest);
        }
        let is_asking = std::mem::take(&mut session.is_asking);
        if self.servers[server]
            .loading_until
            .is_some_and(|until| until > Instant::now())
        {
            return Reply::error("LOADING Redis is loading the dataset in memory");
        }
        match name.as_str() {
            "PING" => Reply::Simple("PONG".to_owned()),
            "AUTH" => Reply::ok(),
            "HELLO" => self.hello(server),
            "ASKING" => {
                session.is_asking = true;
                Reply::ok()
            }
            "SCRIPT" => self.servers[server].script(&rest),
            "CLUSTER" => self.tell_slots(),
            "EVAL" | "EVALSHA" => {
                let keys = rest[2..2 + key_count(&rest)].to_vec();
                let locality = self.locality(server, is_asking);
                self.on_keys(server, &keys, is_asking, |this, micros, is_read_only| {
                    this.servers[server].eval(&name, &rest, (micros, is_read_only, locality))
                })
            }
            _ => {
                let keys: Vec<Vec<u8>> = rest.iter().take(1).cloned().collect();
                self.on_keys(server, &keys, is_asking, |this, micros, is_read_only| {
                    if is_read_only && keyspace::writes(&name) {
                        return Reply::error(READ_ONLY);
                    }
                    this.servers[server].keyspace.execute(&name, &rest, micros)
                })
            }
        }
    }

    /// Executes a command on keys that this server serves, and replicates the changes.
    fn on_keys(
        &mut self,
        server: usize,
        keys: &[Vec<u8>],
        is_asking: bool,
        work: impl FnOnce(&mut Deployment, u64, bool) -> Reply,
    ) -> Reply {
        let micros = self.tell(server);
        if let Some(redirection) = self.redirect(server, keys, is_asking, micros / 1_000) {
            return redirection;
        }
        let is_set = self.servers[server].clock.is_set();
        self.faults.see_effect_if(FaultKind::Clock, is_set);
        let Some(shard) = self.shards.iter().position(|shard| shard.primary == server) else {
            return self.on_replica(server, micros, work);
        };
        let reply = work(self, micros, false);
        self.replicate(shard);
        reply
    }

    /// A server's mode and role.
    fn hello(&self, server: usize) -> Reply {
        let is_primary = self.shards.iter().any(|shard| shard.primary == server);
        let mode = match self.topology {
            Topology::Cluster => "cluster",
            Topology::Single | Topology::Sentinel => "standalone",
        };
        hello(mode, if is_primary { "master" } else { "replica" })
    }

    /// Executes a command on a replica, which has only what has arrived there.
    fn on_replica(
        &mut self,
        server: usize,
        micros: u64,
        work: impl FnOnce(&mut Deployment, u64, bool) -> Reply,
    ) -> Reply {
        let shard = self.shards.iter().position(|shard| shard.replica == server);
        let shard = shard.expect("a server is primary or replica");
        self.shards[shard].catch_up();
        self.servers[server].keyspace = self.shards[shard].copy.clone();
        work(self, micros, true)
    }

    /// Sends the changes to the replica.
    fn replicate(&mut self, shard: usize) {
        let millis = self.micros() / 1_000;
        let shard = &mut self.shards[shard];
        let changes = self.servers[shard.primary].keyspace.take_changes();
        shard.send(changes, millis);
    }

    fn ask_sentinel(&self, name: &str, rest: &[Vec<u8>]) -> Reply {
        match (name, rest) {
            ("SENTINEL", [_, master]) if master == MASTER.as_bytes() => {
                let address = address(self.shards[0].primary);
                let (host, port) = address.split_once(':').unwrap_or_default();
                Reply::Array(vec![Reply::bulk(host), Reply::bulk(port)])
            }
            ("SENTINEL", _) => Reply::Nil,
            ("PING", _) => Reply::Simple("PONG".to_owned()),
            ("AUTH", _) => Reply::ok(),
            ("HELLO", _) => hello("sentinel", "master"),
            _ => Reply::error("ERR unknown command"),
        }
    }
}

impl Deployment {
    /// Promotes a shard's replica and returns the keys of which it has missed a write. The former
    /// primary becomes the replica, with the same keys.
    ///
    /// A server that is down is never promoted: one that was killed as a primary has been started
    /// again, as the replica, before its turn comes.
    pub(crate) fn promote(&mut self, shard: usize) -> Vec<Vec<u8>> {
        let replica = self.shards[shard].replica;
        if !self.is_up(replica) {
            self.restart(replica);
        }
        let Shard {
            primary,
            replica,
            copy,
            behind,
            ..
        } = &mut self.shards[shard];
        let lost = behind.drain(..).map(|(_, key, _)| key).collect();
        std::mem::swap(primary, replica);
        let (primary, replica) = (*primary, *replica);
        let keyspace = copy.clone();
        let millis = self.micros() / 1_000;
        if let Some(peak) = &mut self.shards[shard].peak {
            peak.replace(&keyspace, millis);
        }
        self.servers[primary].keyspace = keyspace.clone();
        self.servers[replica].keyspace = keyspace;
        self.is_down = false;
        lost
    }

    /// Sets how far behind a shard's replica is from now on.
    pub(crate) fn set_lag(&mut self, shard: usize, lag: Duration) {
        self.shards[shard].lag = lag;
    }

    /// Restarts a primary with the keys that it had.
    pub(crate) fn restart(&mut self, server: usize) {
        let keyspace = std::mem::take(&mut self.servers[server].keyspace);
        self.servers[server].restart(keyspace);
    }

    /// Ends all faults, and completes all moves of slots.
    pub(crate) fn heal(&mut self) {
        for (slot, _) in self.moving.clone() {
            self.finish_move(slot);
        }
        self.is_down = false;
        for server in 0..self.servers.len() {
            let server = &mut self.servers[server];
            if !server.is_up {
                let keyspace = std::mem::take(&mut server.keyspace);
                server.restart(keyspace);
            }
            server.is_full = false;
            server.stopped_until = None;
            server.loading_until = None;
        }
        for shard in 0..self.shards.len() {
            self.set_lag(shard, Duration::ZERO);
            self.shards[shard].catch_up();
        }
    }

    /// The names of the keys on all primaries.
    pub(crate) fn names(&mut self) -> Vec<String> {
        let primaries: Vec<usize> = self.shards.iter().map(|shard| shard.primary).collect();
        let mut names = Vec::new();
        for primary in primaries {
            let millis = self.tell(primary) / 1_000;
            names.extend(self.servers[primary].keyspace.names(millis));
        }
        names
    }

    pub(crate) fn script_errors(&self) -> Vec<String> {
        let errors = self.servers.iter().flat_map(|server| &server.script_errors);
        errors.cloned().collect()
    }
}

/// The address of a server.
pub(crate) fn address(server: usize) -> String {
    format!("server-{server}:6379")
}

/// Whether a key belongs to `slot`.
fn lies_in(slot: u16) -> impl Fn(&[u8]) -> bool {
    move |key| slot_of(key) == slot
}

/// The part of the reply to `HELLO` that says what a server is.
fn hello(mode: &str, role: &str) -> Reply {
    let words = ["mode", mode, "role", role];
    Reply::Array(words.into_iter().map(Reply::bulk).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_server_that_is_down_is_not_promoted() {
        let mut deployment = Deployment::new(Topology::Sentinel, 1_000_000, Random::new(1));
        for _ in 0..2 {
            let primary = deployment.shards[0].primary;
            deployment.servers[primary].is_up = false;
            deployment.promote(0);
            let promoted = deployment.shards[0].primary;
            assert!(promoted != primary && deployment.is_up(promoted));
        }
    }
}
