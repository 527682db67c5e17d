//! A backend that this workspace does not know: all that it needs is in this file and in the list
//! of backends.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use tollgate_backends::{
    AnyBackend, BACKENDS, Backend, Inspector, InvalidUrl, OpenError, SharedConfig,
};
use tollgate_core::{
    Charge, ChargeDenied, Cost, Descriptor, Entry, HeldUnits, InspectStore, Key, KeyHasher,
    KeyState, Ledger, Limit, Moment, Now, Request, SharedStore, Span, Store, StoreError, Verdict,
};
use tollgate_memory::RandomKeys;
use tollgate_rules::{Settings, Source};
use tollgate_server::{Config, Place};

use crate::house::House;
use crate::http_client::Client;

/// What a server would hold: the state of all instances.
#[derive(Default)]
struct Toy {
    ledger: Mutex<Ledger>,
    instances: AtomicU32,
}

/// All toys of this process, by name.
static TOYS: Mutex<BTreeMap<String, Arc<Toy>>> = Mutex::new(BTreeMap::new());

/// `toy: {url: 'toy://NAME'}`
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct ToyConfig {
    name: String,
}

/// One instance's connection to a toy.
struct Connection(Arc<Toy>);

// === impl ToyConfig ===

impl Backend for ToyConfig {
    const NAME: &'static str = "Toy";
    const KEY: &'static str = "toy";
    const SCHEMES: &'static [&'static str] = &["toy"];
    const EXAMPLE_URL: &'static str = "toy://attic";
    const LEASE_CAPACITY_MIN: u32 = 0;

    type Store = Connection;

    fn from_url(url: &str) -> Result<ToyConfig, InvalidUrl> {
        match url.strip_prefix("toy://") {
            Some(name) if !name.is_empty() => Ok(ToyConfig {
                name: name.to_owned(),
            }),
            _ => Err(InvalidUrl {
                message: "the toy has no name",
                help: "write `toy://attic`",
            }),
        }
    }

    fn from_map(map: &Settings<'_>, _directory: &Path) -> ToyConfig {
        let url = map.secret("url").unwrap_or_default();
        let read = ToyConfig::from_url(&url);
        read.unwrap_or_else(|bad| {
            map.report_error("url", bad.message.to_owned(), bad.help);
            ToyConfig::default()
        })
    }

    fn unfit(&self, limit: &Limit) -> Option<String> {
        (limit.count() > 100).then(|| "a toy counts up to 100: write a smaller limit".to_owned())
    }

    fn servers(&self) -> String {
        self.name.clone()
    }

    fn is_encrypted(&self) -> bool {
        false
    }

    fn open(&self) -> Result<Connection, OpenError> {
        let mut toys = TOYS.lock().unwrap();
        let toy = toys.entry(self.name.clone()).or_default();
        Ok(Connection(Arc::clone(toy)))
    }

    fn open_inspector(&self) -> Option<Result<Inspector, OpenError>> {
        Some(self.open().map(Inspector::new))
    }
}

// === impl Connection ===

impl Connection {
    fn decide(&self, charges: &[Charge<'_>]) -> Result<Verdict, StoreError> {
        let now = Now::at(Moment::from_nanos(Span::DAY.as_nanos()));
        self.0.ledger.lock().unwrap().decide(now, charges)
    }
}

impl KeyHasher for Connection {
    fn key<'p>(&self, parts: impl Iterator<Item = &'p [u8]>) -> Key {
        // All instances must find the same key for the same values.
        RandomKeys::with_secret(1, 2).key(parts)
    }
}

impl Store for Connection {
    async fn decide(&self, charges: &[Charge<'_>]) -> Result<Verdict, StoreError> {
        Connection::decide(self, charges)
    }
}

impl SharedStore for Connection {
    fn join(&self) {
        self.0.instances.fetch_add(1, Ordering::Relaxed);
    }

    fn instances(&self) -> u32 {
        self.0.instances.load(Ordering::Relaxed).max(1)
    }

    fn is_up(&self) -> bool {
        true
    }

    async fn close(&self) {
        self.0.instances.fetch_sub(1, Ordering::Relaxed);
    }
}

impl InspectStore for Connection {
    fn name_of(&self, key: Key) -> String {
        format!("{:x}", key.bits())
    }

    async fn inspect(&self, charge: &Charge<'_>) -> Result<KeyState, StoreError> {
        let peek = Charge::new(charge.key, charge.limit, Cost::Peek(1));
        Ok(KeyState {
            bytes: 1,
            expires: None,
            decision: Connection::decide(self, &[peek])?.decisions[0],
            leased: HeldUnits::default(),
            reserved: HeldUnits::default(),
        })
    }

    /// A ledger deletes no single key, so all of them are deleted.
    async fn reset(&self, _key: Key) -> Result<bool, StoreError> {
        *self.0.ledger.lock().unwrap() = Ledger::default();
        Ok(true)
    }

    fn denial_cache_max(&self) -> Span {
        Span::ZERO
    }
}

/// Settings where Redis and the toy can be named; or every error in them.
fn parse(text: &str) -> Result<Config, String> {
    let backends = [BACKENDS, &[AnyBackend::of::<ToyConfig>()]].concat();
    let source = Source::new("tollgate.yaml", format!("rules: r\n{text}\n"));
    let parsed = Config::parse_with(&source, Path::new("/etc/tollgate"), &backends);
    parsed.map_err(|error| error.to_string())
}

const RULES: &str = "domain: d\ndescriptors: [{key: user, rate_limit: 2/day}]\n";
const ANN: &str = r#"{"domain":"d","descriptors":[{"entries":[{"key":"user","value":"ann"}]}]}"#;

async fn instance(settings: &str) -> House {
    let store = parse(settings).unwrap().store;
    House::with(RULES, |config| config.store = store).await
}

async fn statuses<const N: usize>(instance: &House) -> [u16; N] {
    let mut client = Client::to(instance.http()).await;
    let mut statuses = [0; N];
    for status in &mut statuses {
        *status = client.post("/json", ANN).await.status;
    }
    statuses
}

/// What `tollgate keys` does: finds the key by the rules, shows what remains, and resets it.
async fn remaining_and_reset(config: &SharedConfig) -> u32 {
    let inspector = config.open_inspector().unwrap().unwrap();
    let settings = parse("store: toy://attic").unwrap();
    let rules = settings.load(&[Source::new("r.yaml", RULES)]).rules;
    let request = Request {
        domain: b"d",
        descriptors: vec![Descriptor {
            entries: vec![Entry {
                key: b"user",
                value: b"ann",
            }]
            .into(),
            ..Descriptor::default()
        }]
        .into(),
        cost: Cost::Peek(1),
        charge_denied: ChargeDenied::Never,
    };
    let resolved = rules.resolve(&request, &inspector);
    let charge = resolved.charges()[0];
    let state = inspector.inspect(&charge).await.unwrap();
    assert!(inspector.reset(charge.key).await.unwrap());
    state.decision.remaining()
}

#[tokio::test]
async fn a_backend_of_the_list_goes_from_the_settings_to_decisions_and_keys() {
    let settings = "store: {toy: {url: 'toy://attic'}}";
    let (one, two) = (
        instance(settings).await,
        instance("store: toy://attic").await,
    );
    assert_eq!(statuses(&one).await, [200]);
    assert_eq!(statuses(&two).await, [200, 429]);
    let Place::Shared(config) = parse(settings).unwrap().store else {
        panic!("in memory");
    };
    assert_eq!(remaining_and_reset(&config).await, 0);
    assert_eq!(statuses(&one).await, [200, 200, 429]);
}

#[test]
fn errors_name_every_backend_and_hide_its_lines() {
    let cases = [
        ("store: toy://", "the toy has no name"),
        ("store: hunter2", "`store: toy://attic` or `store: {toy: {"),
        ("store: {toy: hunter2}", "`toy` does not say where Toy is"),
        ("store: {toy: {url: x, hunter2: 1}}", "unknown key"),
        (
            "store: {redis: redis://h, toy: toy://hunter2}",
            "this store has both `redis` and `toy`",
        ),
        (
            "stores: {a: {domains: d}}",
            "this store has neither `redis` nor `toy` nor `memory`",
        ),
        ("lgo: toy hunter2", "(not shown"),
    ];
    for (text, expected) in cases {
        let found = parse(text).unwrap_err();
        assert!(found.contains(expected), "{text}: {found}");
        assert!(!found.contains("hunter2"), "{text}: {found}");
    }
}

#[test]
fn a_limit_that_the_backend_cannot_keep_is_an_error_at_its_line() {
    let settings = parse("store: toy://attic").unwrap();
    let rules = RULES.replace("2/day", "101/day");
    let loaded = settings.load(&[Source::new("r.yaml", rules)]);
    let found = loaded.diagnostics[0].to_string();
    assert!(found.contains("a toy counts up to 100"), "{found}");
    assert!(found.contains("r.yaml:2"), "{found}");
}

#[test]
fn settings_are_equal_if_they_are_of_one_backend_and_equal_there() {
    let store = |text: &str| parse(text).unwrap().store;
    let attic = store("store: toy://attic");
    assert_eq!(attic, store("store: {toy: {url: 'toy://attic'}}"));
    assert_ne!(attic, store("store: toy://cellar"));
    assert_ne!(attic, store("store: redis://attic"));
}
