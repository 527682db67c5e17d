//! A store whose rounds over several slots charge immediately wherever they can.

use tollgate_behaviour::{Taste, store_behaves};

use super::{CLUSTER, Driven};
use crate::config::Config;
use crate::store::under_test::TimedRedis;

impl Driven {
    /// As [`Driven::apart`], with rounds that charge immediately wherever they can.
    pub(super) fn apart_at_once() -> Driven {
        let config = Config::cluster(CLUSTER.addresses());
        Driven {
            crosses_slots: true,
            ..Driven::connect(&config, TimedRedis::connect_at_once)
        }
    }
}

store_behaves!(
    cluster_apart_at_once,
    Taste::MICROSECONDS,
    Driven::apart_at_once()
);
