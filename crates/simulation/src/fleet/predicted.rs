//! A fleet in virtual time, over the simulated network and Redis.

use tokio::time::Instant;
use tollgate_redis::simulated;
use tollgate_replay::{Error, Simulation};
use tollgate_rules::RuleSet;

use super::incidents::Incidents;
use super::pace::Pace;
use super::play::{Play, Progress};
use super::{Fleet, Played, WARM_UP, below_micro};

impl Fleet {
    /// Predicts what comes of this traffic. The same fleet has the same prediction.
    ///
    /// `progress` is called now and then with the number of decisions, and returns whether to go
    /// on.
    ///
    /// # Errors
    ///
    /// [`Error::ManyEvents`] and [`Error::ManyDecisions`] if there is too much of it,
    /// [`Error::Stopped`] if `progress` returned so.
    ///
    /// # Panics
    ///
    /// If the simulation itself is wrong.
    pub fn predict(
        &self,
        simulation: &Simulation,
        rules: &RuleSet,
        progress: Progress<'_>,
    ) -> Result<Played, Error> {
        simulated::seed(Some(simulation.seed));
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime can be built");
        let played = runtime.block_on(self.play(simulation, rules, progress));
        drop(runtime);
        simulated::seed(None);
        played
    }

    /// Starts all instances, and decides all requests.
    async fn play(
        &self,
        simulation: &Simulation,
        rules: &RuleSet,
        progress: Progress<'_>,
    ) -> Result<Played, Error> {
        let start = Instant::now();
        let (mut incidents, places) = Incidents::of(self, simulation, rules);
        let begin = start + (WARM_UP + below_micro(simulation.start)).to_duration();
        let pace = Pace::Virtual(start);
        pace.until(begin).await;
        let before = incidents.begin(&places);
        let is_instant = self.delay_ms == 0;
        let mut play = Play::new(simulation, places.clone(), (begin, pace), is_instant);
        play.run(&mut incidents, progress).await?;
        let (traffic, workloads, mut load) = play.finish();
        incidents.finish(&places, before, &mut load);
        Ok(Played {
            start: simulation.start,
            traffic,
            workloads,
            load,
        })
    }
}
