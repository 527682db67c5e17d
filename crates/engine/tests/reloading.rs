//! Rules and the settings that name them change in one reload.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Notify, mpsc};
use tokio::time::timeout;
use tollgate_core::{Clock, Sharing};
use tollgate_engine::{Engine, Outcome, Reloader, RuleSource, Stores, Why, watch_rules};
use tollgate_memory::{Memory, SystemClock};
use tollgate_rules::{Loaded, Options, RuleSet, Source};
use tollgate_testbed::Folder;

/// Rules in files, and settings that do something when they are read.
struct Watched<F> {
    paths: Vec<PathBuf>,
    engine: Arc<Engine>,
    read_settings: F,
}

/// Far more reloads than there are reasons for.
const MANY: u32 = 50;

impl<F: FnMut() -> bool + Send + 'static> RuleSource for Watched<F> {
    fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    fn other_paths(&self) -> &[PathBuf] {
        &[]
    }

    fn parse(&self, sources: &[Source]) -> Loaded {
        RuleSet::parse(sources, &Options::default())
    }

    fn default_sharing(&self) -> Sharing {
        Sharing::default()
    }

    fn check_others(&mut self, _why: Why) -> bool {
        (self.read_settings)()
    }

    fn check_fit(&self, rules: &RuleSet) {
        assert_eq!(rules.rule_count(), self.engine.rules().rule_count());
    }
}

fn engine() -> Arc<Engine> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let memory = Memory::builder().max_keys(100).clock(clock).build();
    Arc::new(Engine::new(Stores::new(memory)))
}

fn domains(engine: &Engine) -> Vec<String> {
    engine.rules().domains().map(str::to_owned).collect()
}

fn write(folder: &Path, domain: &str) {
    let text = format!("domain: {domain}\ndescriptors: [{{key: k, rate_limit: 5/day}}]\n");
    fs::write(folder.join(format!("{domain}.yaml")), text).unwrap();
}

/// Otherwise requests to a route that is removed with its domain would meet no limit for a moment.
#[test]
fn a_domain_has_its_rules_until_the_settings_have_changed() {
    let folder = Folder::new();
    let engine = engine();
    let noticed = Arc::<Mutex<Vec<String>>>::default();
    let (rules, seen) = (Arc::clone(&engine), Arc::clone(&noticed));
    let source = Watched {
        paths: vec![folder.path().to_owned()],
        engine: Arc::clone(&engine),
        read_settings: move || {
            *seen.lock().unwrap() = domains(&rules);
            true
        },
    };
    let mut reloader = Reloader::new(Arc::clone(&engine), source);
    write(folder.path(), "former");
    write(folder.path(), "stays");
    reloader.load().unwrap();
    fs::remove_file(folder.path().join("former.yaml")).unwrap();
    write(folder.path(), "latter");
    assert_eq!(reloader.reload(Why::Noticed), Outcome::InEffect);
    assert_eq!(*noticed.lock().unwrap(), ["former", "latter", "stays"]);
    assert_eq!(domains(&engine), ["latter", "stays"]);
    let (latest, _) = engine.recent_reloads().swap_remove(0);
    assert_eq!((latest.rules, latest.domains), (2, 2));
}

#[tokio::test(start_paused = true)]
async fn without_anyone_to_order_a_reload_there_are_those_of_the_period() {
    let engine = engine();
    let (reloads, many) = (Arc::<AtomicU32>::default(), Arc::<Notify>::default());
    let (count, has_many) = (Arc::clone(&reloads), Arc::clone(&many));
    let source = Watched {
        paths: Vec::new(),
        engine: Arc::clone(&engine),
        read_settings: move || {
            if count.fetch_add(1, Ordering::Relaxed) + 1 == MANY {
                has_many.notify_one();
            }
            false
        },
    };
    let (orders, received) = mpsc::channel(1);
    drop(orders);
    let stop = async {
        let _over = timeout(Duration::from_secs(150), many.notified()).await;
    };
    watch_rules(Reloader::new(engine, source), received, stop).await;
    // One at the start, and one a minute.
    assert_eq!(reloads.load(Ordering::Relaxed), 3);
}
