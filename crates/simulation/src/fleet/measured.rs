//! The same fleet in real time, over a real Redis.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tollgate_core::{Clock, Span};
use tollgate_memory::SystemClock;
use tollgate_testbed::Redis;

use super::asking::{Places, ask};
use super::{Fleet, Tally, Totals, WARM_UP, count_sent};
use crate::instance::Instance;

impl Fleet {
    /// Decides the same requests in real time, by instances with connections of their own to this
    /// Redis. Delays, clocks and incidents are those of the machine.
    ///
    /// # Panics
    ///
    /// If there is no runtime.
    pub fn measure(&self, redis: &Redis) -> Totals {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime can be built");
        runtime.block_on(self.run_real(redis))
    }

    /// Connects the instances, and decides all requests, each at its time.
    async fn run_real(&self, redis: &Redis) -> Totals {
        let plan = self.plan();
        let numbers = 0..self.instances;
        let address = redis.address();
        let instances: Vec<Instance> = numbers
            .map(|number| {
                let instance = Instance::start_real(&address, number, &plan.setup);
                instance.reload(self.rules());
                instance
            })
            .collect();
        let places = Places::default();
        places.lock().extend(instances.iter().cloned().map(Some));
        let requests = self.requests();
        let begin = Instant::now() + WARM_UP.to_duration();
        sleep_until(begin).await;
        let utc = SystemClock::new().now().utc;
        let before: Vec<[u64; 3]> = instances.iter().map(count_sent).collect();
        let (keys, bytes) = redis.keys_and_bytes();
        let tally: Arc<Mutex<Tally>> = Arc::default();
        let mut decisions = JoinSet::new();
        for (attempt, place) in &requests {
            sleep_until(begin + attempt.at.to_duration()).await;
            let (places, tally) = (places.clone(), Arc::clone(&tally));
            decisions.spawn(ask(places, attempt.clone(), *place, tally));
        }
        while decisions.join_next().await.is_some() {}
        let end = Instant::now().duration_since(begin);
        let end = Span::from_nanos(u64::try_from(end.as_nanos()).unwrap_or(u64::MAX));
        let tally = std::mem::take(&mut *tally.lock().unwrap_or_else(PoisonError::into_inner));
        let mut totals = self.totals(&requests, (utc, end), &tally);
        let after = redis.keys_and_bytes();
        totals.redis_keys = after.0.saturating_sub(keys);
        totals.redis_bytes = after.1.saturating_sub(bytes);
        for (instance, before) in instances.iter().zip(before) {
            totals.add_sent(instance, before);
            instance.close().await;
        }
        totals
    }
}
