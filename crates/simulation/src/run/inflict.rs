//! Injects faults, and ends them.

use super::{Duration, Fault, Instant, Runner, Topology, Undo};
use crate::fault_kind::FaultKind;
use crate::network::Link;
use crate::slots::slot_of;

impl Runner {
    /// Injects a fault, and schedules its end.
    pub(super) async fn inflict(&mut self, fault: Fault) {
        self.world.note(format!("{fault:?}"));
        self.world.faults().inflict(fault.kind());
        let (now, until) = (self.world.now(), |lasts: u64| lasts * super::MILLI);
        match fault {
            fault @ (Fault::Delay { .. }
            | Fault::Hold { .. }
            | Fault::Partition { .. }
            | Fault::Break { .. }
            | Fault::Cut { .. }) => self.inflict_on_links(&fault, now),
            Fault::Crash { instance, lasts } => self.crash(instance, lasts),
            Fault::Close { instance } => self.close(instance).await,
            Fault::Wall { instance, nanos } => self.set_wall(instance, nanos),
            Fault::Clock { shard, micros } => self.set_clock(shard, micros),
            Fault::Down { lasts } => {
                self.world.account().disturb(now + until(lasts));
                self.world.redis().is_down = true;
                self.undo_in(lasts, Undo::ClusterUp);
            }
            Fault::Move { counter, to, lasts } => self.begin_move(counter, to, lasts),
            fault => self.inflict_on_server(&fault, now),
        }
    }

    /// Inflicts a fault of the network between instances and servers.
    fn inflict_on_links(&mut self, fault: &Fault, now: u64) {
        let until = |lasts: u64| lasts * super::MILLI;
        match *fault {
            Fault::Delay {
                instance,
                shard,
                most,
                lasts,
            } => {
                self.links(
                    instance,
                    shard,
                    now + until(lasts + most),
                    lasts,
                    |condition| {
                        condition.delay_max = most;
                    },
                );
            }
            Fault::Hold {
                instance,
                shard,
                lasts,
            } => {
                let held = Instant::now() + Duration::from_millis(lasts);
                self.links(instance, shard, now + until(lasts), lasts, |condition| {
                    condition.held_until = Some(held);
                });
            }
            Fault::Partition {
                instance,
                shard,
                lasts,
            } => {
                let held = Instant::now() + Duration::from_millis(lasts);
                self.links(instance, shard, now + until(lasts), lasts, |condition| {
                    condition.held_until = Some(held);
                    condition.is_silent = true;
                });
            }
            Fault::Break { instance, shard } => {
                self.world.account().disturb(now);
                for link in self.links_of(instance, shard) {
                    let has_any = self.world.network.break_all(|at| at == link);
                    self.see_effect_if(FaultKind::Break, has_any);
                }
            }
            Fault::Cut {
                instance,
                shard,
                bytes,
            } => {
                // When so many bytes are sent is unknown, so the fault lasts until the end of all
                // faults.
                self.world.account().disturb(now + until(10_000));
                for link in self.links_of(instance, shard) {
                    self.world.network.cut_after(link, bytes);
                }
            }
            _ => {}
        }
    }

    /// Inflicts a fault of a server, and schedules its end.
    fn inflict_on_server(&mut self, fault: &Fault, now: u64) {
        let until = |lasts: u64| now + lasts * super::MILLI;
        match *fault {
            Fault::Stop { shard, lasts } => {
                self.world.account().disturb(until(lasts));
                let server = self.primary(shard);
                let stopped = Instant::now() + Duration::from_millis(lasts);
                self.world.redis().servers[server].stopped_until = Some(stopped);
            }
            Fault::Restart { shard, lasts } => {
                self.world.account().disturb(until(lasts));
                let server = self.primary(shard);
                self.kill(server);
                self.undo_in(lasts, Undo::Up { server });
            }
            Fault::Failover { shard, lag, lasts } => {
                self.world.account().disturb(until(lasts));
                let server = self.primary(shard);
                self.world
                    .redis()
                    .set_lag(shard, Duration::from_millis(lag));
                self.kill(server);
                self.undo_in(lasts, Undo::Promote { shard });
            }
            Fault::Switch { shard, lag } => {
                self.world.account().disturb(now);
                self.world
                    .redis()
                    .set_lag(shard, Duration::from_millis(lag));
                self.undo_in(lag + 1, Undo::Promote { shard });
            }
            Fault::Flush { shard } => {
                let server = self.primary(shard);
                self.world.account().disturb(now);
                self.world.redis().servers[server].forget_scripts();
            }
            Fault::Full { shard, lasts } => {
                self.world.account().disturb(until(lasts));
                let server = self.primary(shard);
                self.world.redis().servers[server].is_full = true;
                self.undo_in(lasts, Undo::Room { server });
            }
            _ => {}
        }
    }

    /// Ends a fault.
    pub(super) fn undo(&mut self, undo: Undo) {
        self.world.note(format!("{undo:?}"));
        let now = self.world.now();
        match undo {
            Undo::Link { instance, server } => {
                let link = Link { instance, server };
                self.world
                    .network
                    .change(link, |condition| *condition = Default::default());
            }
            Undo::Start { place } => {
                if self.instances[place].is_none() {
                    self.start(place);
                }
            }
            Undo::Up { server } => {
                self.world.account().disturb(now);
                if !self.world.redis().is_up(server) {
                    self.world.redis().restart(server);
                    let redis = self.world.redis();
                    let has_keys = redis.servers[server].keyspace.entries().next().is_some();
                    drop(redis);
                    self.see_effect_if(FaultKind::Restart, has_keys);
                }
            }
            Undo::Promote { shard } => self.promote(shard),
            Undo::Room { server } => self.world.redis().servers[server].is_full = false,
            Undo::MoveKey { slot } => {
                let _whether_any_is_left = self.world.redis().move_key(slot);
            }
            Undo::Arrive { slot } => {
                self.world.account().disturb(now);
                self.world.redis().finish_move(slot);
            }
            Undo::ClusterUp => self.world.redis().is_down = false,
        }
    }

    fn place(&self, place: usize) -> Option<&super::Instance> {
        self.instances.get(place).and_then(Option::as_ref)
    }

    fn primary(&self, shard: usize) -> usize {
        self.world.redis().shards[shard].primary
    }

    /// The links from an instance to both servers of a shard.
    fn links_of(&self, place: usize, shard: usize) -> Vec<Link> {
        let Some(instance) = self.place(place).map(|instance| instance.number) else {
            return Vec::new();
        };
        let redis = self.world.redis();
        let servers = [redis.shards[shard].primary, redis.shards[shard].replica];
        servers.map(|server| Link { instance, server }).to_vec()
    }

    fn links(
        &mut self,
        place: usize,
        shard: usize,
        until: u64,
        lasts: u64,
        change: impl Fn(&mut crate::network::Condition),
    ) {
        self.world.account().disturb(until);
        for link in self.links_of(place, shard) {
            self.world.network.change(link, &change);
            let Link { instance, server } = link;
            self.undo_in(lasts, Undo::Link { instance, server });
        }
    }

    fn crash(&mut self, place: usize, lasts: u64) {
        self.world
            .account()
            .disturb(self.world.now() + lasts * super::MILLI);
        if let Some(instance) = self.instances[place].take() {
            let is_deciding = self.world.account().is_deciding(instance.number);
            self.see_effect_if(FaultKind::Crash, is_deciding);
            self.world.bury(instance.number);
        }
        self.undo_in(lasts, Undo::Start { place });
    }

    async fn close(&mut self, place: usize) {
        self.world.account().disturb(self.world.now());
        if let Some(instance) = self.instances[place].take() {
            let before = self.world.redis().commands;
            instance.close().await;
            let has_sent = self.world.redis().commands > before;
            self.see_effect_if(FaultKind::Close, has_sent);
        }
        self.start(place);
    }

    fn kill(&self, server: usize) {
        self.world.redis().servers[server].is_up = false;
        self.world.network.break_all(|link| link.server == server);
    }

    fn see_effect_if(&self, kind: FaultKind, is_seen: bool) {
        self.world.faults().see_effect_if(kind, is_seen);
    }

    /// The replica of a shard becomes its primary; the account learns what that lost.
    fn promote(&mut self, shard: usize) {
        let now = self.world.now();
        let (former, ahead) = (self.primary(shard), self.world.redis().ahead(shard));
        let is_planned = self.world.redis().is_up(former);
        let lost = self.world.redis().promote(shard);
        self.see_effect_if(FaultKind::Failover, !is_planned && !lost.is_empty());
        self.promoted.insert(shard);
        let passed = self.world.redis().ahead(shard) - ahead;
        if passed != 0 {
            self.clock_changed(shard, passed);
        }
        self.world.note(format!(
            "shard {shard}: its replica is promoted; lost {}",
            lost.len()
        ));
        let mut account = self.world.account();
        account.replica_promoted(now);
        for (counter, name) in self.names.iter().enumerate() {
            if lost.iter().any(|key| key == name.as_bytes()) {
                account.writes_lost(counter, now);
            }
        }
        let is_counter = |key: &[u8]| self.names.iter().any(|name| name.as_bytes() == key);
        if lost.iter().any(|key| !is_counter(key)) {
            account.reservations_lost(now);
        }
    }

    fn begin_move(&mut self, counter: usize, to: usize, lasts: u64) {
        if self.world.redis().topology != Topology::Cluster {
            return;
        }
        let slot = slot_of(self.names[counter].as_bytes());
        self.world
            .account()
            .disturb(self.world.now() + lasts * super::MILLI);
        self.clock_moves(slot, to, lasts);
        self.world.redis().begin_move(slot, to);
        for part in 1..4 {
            self.undo_in(lasts * part / 4, Undo::MoveKey { slot });
        }
        self.undo_in(lasts, Undo::Arrive { slot });
    }
}
