//! The same fleet in real time, over a real Redis.

use std::ops::ControlFlow;

use tokio::time::{Instant, sleep_until};
use tollgate_core::Clock;
use tollgate_memory::SystemClock;
use tollgate_replay::{Error, Simulation};
use tollgate_rules::RuleSet;

use super::incidents::Incidents;
use super::load::{Sent, count_sent};
use super::pace::Pace;
use super::places::Places;
use super::play::Play;
use super::real_redis::RealRedis;
use super::{Fleet, Played, WARM_UP};
use crate::instance::Instance;

impl Fleet {
    /// Decides the same traffic in real time, by instances with connections of their own to this
    /// Redis. Delays, clocks and incidents are those of the machine.
    ///
    /// # Errors
    ///
    /// As [`Fleet::predict`].
    ///
    /// # Panics
    ///
    /// If there is no runtime.
    pub fn measure(
        &self,
        simulation: &Simulation,
        rules: &RuleSet,
        redis: &dyn RealRedis,
    ) -> Result<Played, Error> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime can be built");
        runtime.block_on(self.play_real(simulation, rules, redis))
    }

    /// Connects the instances, and decides all requests, each at its time.
    async fn play_real(
        &self,
        simulation: &Simulation,
        rules: &RuleSet,
        redis: &dyn RealRedis,
    ) -> Result<Played, Error> {
        let (setup, address) = (self.plan(simulation).setup, redis.address());
        let numbers = 0..self.instances;
        let start = |number| {
            let instance = Instance::start_real(&address, number, &setup);
            instance.apply(rules);
            instance
        };
        let instances: Vec<Instance> = numbers.map(start).collect();
        let places = Places::default();
        places.lock().extend(instances.iter().cloned().map(Some));
        let begin = Instant::now() + WARM_UP.to_duration();
        sleep_until(begin).await;
        let before: Vec<Sent> = instances.iter().map(count_sent).collect();
        let idle = redis.memory();
        // Windows are aligned to the machine's clock, so that of the traffic is the same.
        let simulation = Simulation {
            start: SystemClock::new().now().utc,
            ..simulation.clone()
        };
        let begin = Instant::now();
        let mut play = Play::new(&simulation, places, (begin, Pace::Real), false);
        let mut most = idle;
        let look = &mut |_| {
            most = most.or_more(redis.memory());
            ControlFlow::Continue(())
        };
        play.run(&mut Incidents::none(), look).await?;
        let (traffic, workloads, mut load) = play.finish();
        let end = redis.memory();
        load.redis_most = most.or_more(end).beyond(idle);
        load.redis_end = end.beyond(idle);
        for (instance, before) in instances.iter().zip(before) {
            load.add_sent(instance, before);
            instance.close().await;
        }
        Ok(Played {
            start: simulation.start,
            traffic,
            workloads,
            load,
        })
    }
}
