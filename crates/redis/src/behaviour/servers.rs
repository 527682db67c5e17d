//! The connections to the servers of the suite, and the migration of a slot among them.

use std::time::Duration;

use tollgate_core::Key;
use tollgate_testbed as testbed;

use super::{ENCRYPTED, ENCRYPTED_CLUSTER, SENTINELS};
use crate::config::{Config, Secret, Servers, Tls};
use crate::keys;
use crate::store::under_test::TimedRedis;

/// The migration of a key's slot to another node of a Cluster.
pub(super) struct Migration<'c> {
    from: &'c testbed::Redis,
    target: &'c testbed::Redis,
    slot: String,
}

/// Through the sentinels.
pub(super) fn sentinel() -> Config {
    Config::new(Servers::Sentinel {
        addresses: SENTINELS.addresses(),
        master: testbed::Sentinels::MASTER.to_owned(),
    })
}

/// As a user with access to keys of one prefix only, over TLS, by the server's name.
pub(super) fn tls() -> Config {
    let (certificates, redis) = &*ENCRYPTED;
    Config {
        tls: Some(Tls {
            authorities: Some(certificates.authority().into()),
            server_name: Some("localhost".to_owned()),
            ..Tls::default()
        }),
        username: Some(testbed::USER.to_owned()),
        password: Some(Secret::new(testbed::PASSWORD)),
        prefix: "limits:".to_owned(),
        ..Config::single(redis.address())
    }
}

/// To a Cluster whose nodes talk over TLS, with each other too.
pub(super) fn tls_cluster() -> Config {
    let certificates = ENCRYPTED_CLUSTER.certificates();
    let certificates = certificates.expect("the cluster has certificates");
    Config {
        tls: Some(Tls {
            authorities: Some(certificates.authority().into()),
            ..Tls::default()
        }),
        ..Config::cluster(ENCRYPTED_CLUSTER.addresses())
    }
}

/// Waits until every connection is open. The runtime stands still between two decisions: a
/// connection that is being opened meanwhile would time out, and the next decision with it.
pub(super) async fn wait_for_connections(store: &TimedRedis, config: &Config) {
    let servers = match &config.servers {
        Servers::Single(_) | Servers::Sentinel { .. } => 1,
        Servers::Cluster(seeds) => seeds.len(),
    };
    let all = u64::try_from(servers * config.connections).expect("a few");
    let opened = async {
        while store.counts().connections < all {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let in_time = tokio::time::timeout(Duration::from_secs(30), opened).await;
    in_time.expect("every server of the suite accepts connections");
}

// === impl Migration ===

impl<'c> Migration<'c> {
    /// Begins it as `redis-cli --cluster reshard` does; the keys remain where they are.
    pub(super) fn begin(cluster: &'c testbed::Cluster, key: Key) -> Migration<'c> {
        let slot = keys::slot(key);
        let from = cluster.master_of(slot);
        let other = if cluster.master_of(0).port() == from.port() {
            16_383
        } else {
            0
        };
        let target = cluster.master_of(other);
        let slot = slot.to_string();
        let ids = [from, target].map(|node| node.ask(&["CLUSTER", "MYID"]));
        target.ask(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &ids[0]]);
        from.ask(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &ids[1]]);
        Migration { from, target, slot }
    }

    /// Moves one key.
    pub(super) fn move_key(&self, name: &str) {
        let to = self.target.port().to_string();
        let moved = self
            .from
            .ask(&["MIGRATE", "127.0.0.1", &to, name, "0", "5000"]);
        assert_eq!(moved, "OK");
    }

    /// Ends it: the slot belongs to the target.
    pub(super) fn end(self) {
        let id = self.target.ask(&["CLUSTER", "MYID"]);
        for node in [self.target, self.from] {
            node.ask(&["CLUSTER", "SETSLOT", &self.slot, "NODE", &id]);
        }
    }
}
