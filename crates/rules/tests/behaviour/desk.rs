//! Rules, a plain store and a clock that stands still until it is moved.

use std::cell::RefCell;
use std::collections::HashMap;

use tollgate_core::{
    Answer, ChargeDenied, Cost, Descriptor, Entry, Key, KeyHasher, Ledger, Limited, Moment, Now,
    Override, Request, Span, Status,
};
use tollgate_rules::{Changes, Loaded, Options, Resolved, RuleSet, Source};

/// A number for each key that was ever asked for: no two share one.
#[derive(Default)]
pub(crate) struct Numbers(RefCell<HashMap<Vec<Vec<u8>>, u128>>);

/// Where requests are asked and answered.
pub(crate) struct Desk {
    pub(crate) rules: RuleSet,
    pub(crate) numbers: Numbers,
    ledger: Ledger,
    now: Moment,
}

/// Key and value pairs of one descriptor.
pub(crate) type Pairs<'a> = &'a [(&'a str, &'a str)];

impl KeyHasher for Numbers {
    fn key<'p>(&self, parts: impl Iterator<Item = &'p [u8]>) -> Key {
        let parts: Vec<Vec<u8>> = parts.map(<[u8]>::to_vec).collect();
        let mut numbers = self.0.borrow_mut();
        let next = u128::try_from(numbers.len()).unwrap();
        Key::from_bits(*numbers.entry(parts).or_insert(next))
    }
}

/// What was read, which must hold no mistake at all.
pub(crate) fn clean(text: &str) -> RuleSet {
    let loaded = load(text);
    let shown: Vec<String> = loaded.diagnostics.iter().map(|d| d.to_string()).collect();
    assert!(shown.is_empty(), "{}", shown.join("\n"));
    loaded.rules
}

/// What was read from one file.
pub(crate) fn load(text: &str) -> Loaded {
    RuleSet::parse(&[Source::new("rules.yaml", text)], &Options::default())
}

/// A domain `d` with these descriptors, one a line in flow style.
pub(crate) fn domain(descriptors: &str) -> String {
    let mut text = "domain: d\ndescriptors:\n".to_owned();
    for line in descriptors.lines().filter(|line| !line.trim().is_empty()) {
        text.push_str(&format!("  - {}\n", line.trim()));
    }
    text
}

/// A descriptor with these entries.
pub(crate) fn descriptor<'a>(pairs: Pairs<'a>) -> Descriptor<'a> {
    let entries = pairs.iter().map(|(key, value)| Entry {
        key: key.as_bytes(),
        value: value.as_bytes(),
    });
    Descriptor {
        entries: entries.collect(),
        ..Descriptor::default()
    }
}

/// A request to domain `d`.
pub(crate) fn request<'a>(descriptors: &[Pairs<'a>]) -> Request<'a> {
    Request {
        domain: b"d",
        descriptors: descriptors.iter().map(|pairs| descriptor(pairs)).collect(),
        cost: Cost::ONE,
        charge_denied: ChargeDenied::Never,
    }
}

impl Desk {
    pub(crate) fn new(rules: RuleSet) -> Desk {
        Desk {
            rules,
            numbers: Numbers::default(),
            ledger: Ledger::default(),
            now: Moment::from_nanos(1_000_000_000_000_000_000),
        }
    }

    /// A desk with the descriptors of [`domain`].
    pub(crate) fn of(descriptors: &str) -> Desk {
        Desk::new(clean(&domain(descriptors)))
    }

    pub(crate) fn wait(&mut self, span: Span) {
        self.now = self.now + span;
    }

    pub(crate) fn resolve(&self, request: &Request<'_>) -> Resolved<'_> {
        self.rules.resolve(request, &self.numbers)
    }

    pub(crate) fn answer(&mut self, request: &Request<'_>) -> Answer {
        let resolved = self.rules.resolve(request, &self.numbers);
        let verdict = self.ledger.decide(Now::at(self.now), &resolved.charges());
        resolved.answer(&verdict.unwrap())
    }

    /// Whether a request with one descriptor passes.
    pub(crate) fn passes(&mut self, pairs: Pairs<'_>) -> bool {
        self.answer(&request(&[pairs])).is_allowed()
    }

    /// The path of the rule that each descriptor meets; `-` for none, `*` before unlimited ones.
    pub(crate) fn met(&self, descriptors: &[Pairs<'_>]) -> Vec<String> {
        let request = request(descriptors);
        let resolved = self.resolve(&request);
        let verdict = Ledger::default().decide(Now::at(self.now), &resolved.charges());
        let statuses = resolved.answer(&verdict.unwrap()).statuses;
        let names = statuses.iter().map(|status| match status {
            Status::NoLimit => "-".to_owned(),
            Status::Unlimited { rule } => format!("*{}", rule.path),
            Status::Limited(Limited { rule, .. }) => rule.path.clone(),
        });
        names.collect()
    }

    /// The key that one descriptor is counted under.
    pub(crate) fn key(&self, pairs: Pairs<'_>) -> Key {
        let request = request(&[pairs]);
        let resolved = self.resolve(&request);
        resolved.charges()[0].key
    }

    /// Takes over new rules.
    pub(crate) fn reload(&mut self, loaded: Loaded) -> Changes {
        let (rules, changes) = loaded.succeed(&self.rules);
        self.rules = rules;
        changes
    }
}

/// A descriptor that brings its own limit along.
pub(crate) fn overriding<'a>(pairs: Pairs<'a>, count: u32, window: Span) -> Request<'a> {
    let mut request = request(&[pairs]);
    request.descriptors[0].limit = Some(Override { count, window });
    request
}
