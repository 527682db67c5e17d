//! The same fleet in real time, over a real Redis.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};
use tollgate_core::Clock;
use tollgate_memory::SystemClock;

use super::{Fleet, Tally, Totals, WARM_UP, count_sent};
use crate::instance::Instance;
use crate::rules_file;

impl Fleet {
    /// Decides the same requests in real time, by instances with connections of their own to the
    /// Redis at `address`. Delays, clocks and incidents are those of the machine.
    ///
    /// # Panics
    ///
    /// If there is no runtime.
    pub fn measure(&self, address: &str) -> Totals {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime can be built");
        runtime.block_on(self.run_real(address))
    }

    /// Connects the instances, and decides all requests, each at its time.
    async fn run_real(&self, address: &str) -> Totals {
        let plan = self.plan();
        let numbers = 0..self.instances;
        let instances: Vec<Instance> = numbers
            .map(|number| {
                let instance = Instance::start_real(address, number, &plan.setup);
                instance.reload(self.rules());
                instance
            })
            .collect();
        let requests = self.requests();
        let begin = Instant::now() + WARM_UP.to_duration();
        sleep_until(begin).await;
        let utc = SystemClock::new().now().utc;
        let before: Vec<[u64; 3]> = instances.iter().map(count_sent).collect();
        let tally: Arc<Mutex<Tally>> = Arc::default();
        let mut decisions = JoinSet::new();
        for (attempt, place) in &requests {
            sleep_until(begin + attempt.at.to_duration()).await;
            let (instance, tally) = (instances[*place].clone(), Arc::clone(&tally));
            let client = attempt.client.clone();
            decisions.spawn(async move {
                let request = rules_file::request_of(client.as_bytes());
                let (outcome, _) = instance.decide(&request, None).await;
                let mut tally = tally.lock().unwrap_or_else(PoisonError::into_inner);
                tally.add(&client, &outcome);
            });
        }
        while decisions.join_next().await.is_some() {}
        let tally = std::mem::take(&mut *tally.lock().unwrap_or_else(PoisonError::into_inner));
        let mut totals = self.totals(&requests, utc, &tally);
        for (instance, before) in instances.iter().zip(before) {
            totals.add_sent(instance, before);
            instance.close().await;
        }
        totals
    }
}
