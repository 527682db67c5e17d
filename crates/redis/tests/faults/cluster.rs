//! A Cluster, and a pair under Sentinel.

use std::time::{Duration, Instant};

use tollgate_redis::{Config, Servers};
use tollgate_testbed as testbed;

use crate::traffic::Traffic;
use crate::{narrow, patient, wide};

/// Where the sentinels say.
pub(crate) fn watched(sentinels: &testbed::Sentinels) -> Config {
    Config::new(Servers::Sentinel {
        addresses: sentinels.addresses(),
        master: testbed::Sentinels::MASTER.to_owned(),
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_takes_over_from_a_dead_master() {
    let cluster = testbed::Cluster::start();
    let traffic = Traffic::start(&Config::cluster(cluster.addresses()), wide());
    traffic.settle().await;
    let dead = cluster.master_of(0);
    let fault = Instant::now();
    dead.kill();
    let former = dead.port();
    tokio::task::block_in_place(|| {
        cluster.wait_until("a replica serves the slots", |cluster| {
            cluster.serving(0).is_some_and(|node| node.port() != former)
        });
    });
    let failed_over = Instant::now();
    // Every key's slot, not only those that `settle` asks for.
    tokio::time::sleep(Duration::from_secs(2)).await;
    traffic.settle().await;
    let record = traffic.end().await;
    record.tell("a Cluster's master is killed", fault);
    let late = record.outage(failed_over);
    assert!(late < Duration::from_secs(2), "{late:?} after the failover");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_move_while_they_are_asked() {
    let cluster = testbed::Cluster::start();
    let config = Config::cluster(cluster.addresses());
    for config in [patient(config.clone()), config] {
        let masters = [0, 8_191, 16_383].map(|slot| cluster.master_of(slot));
        for master in masters {
            master.ask(&["FLUSHALL"]);
        }
        let traffic = Traffic::start(&config, narrow());
        traffic.settle().await;
        let fault = Instant::now();
        for (from, to) in [(0, 2), (2, 1), (1, 0)] {
            let [from, to] = [from, to].map(|place: usize| masters[place]);
            tokio::task::block_in_place(|| cluster.move_slots(500, from, to));
        }
        traffic.settle().await;
        let record = traffic.end().await;
        record.tell(
            &format!("1500 slots move, within {}", config.timeout),
            fault,
        );
        assert!(record.store().counts().redirections > 0);
        if config.timeout > tollgate_redis::TIMEOUT {
            assert_eq!(record.failed(), 0);
        }
        record.is_exact().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_sentinels_new_master_is_followed() {
    let sentinels = testbed::Sentinels::start();
    let traffic = Traffic::start(&watched(&sentinels), wide());
    traffic.settle().await;
    let fault = Instant::now();
    let former = sentinels.master().port();
    sentinels.master().kill();
    tokio::task::block_in_place(|| sentinels.wait_for_failover(former));
    traffic.settle().await;
    traffic
        .end()
        .await
        .tell("Sentinel changes the master", fault);
}
