//! Rules and the settings that name them change in one reload.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use tollgate_core::{Clock, Sharing};
use tollgate_engine::{Engine, Outcome, Reloader, RuleSource, Stores, Why};
use tollgate_memory::{Memory, SystemClock};
use tollgate_rules::{Loaded, Options, RuleSet, Source};
use tollgate_testbed::Folder;

/// The rules in a folder, and settings that notice which domains have rules while they change.
struct Noticing {
    paths: [PathBuf; 1],
    engine: Arc<Engine>,
    noticed: Arc<Mutex<Vec<String>>>,
}

impl RuleSource for Noticing {
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
        *self.noticed.lock().unwrap() = domains(&self.engine);
        true
    }

    fn check_fit(&self, rules: &RuleSet) {
        assert_eq!(rules.rule_count(), self.engine.rules().rule_count());
    }
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
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let memory = Memory::builder().max_keys(100).clock(clock).build();
    let engine = Arc::new(Engine::new(Stores::new(memory)));
    let noticed = Arc::default();
    let source = Noticing {
        paths: [folder.path().to_owned()],
        engine: Arc::clone(&engine),
        noticed: Arc::clone(&noticed),
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
