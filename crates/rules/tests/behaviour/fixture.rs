//! Rules, a plain store and a manual clock.

use std::cell::RefCell;
use std::collections::HashMap;

use tollgate_core::{
    Answer, ChargeDenied, Cost, Descriptor, Entry, Key, KeyHasher, Ledger, Limited, Moment, Now,
    Override, Request, Span, Status,
};
use tollgate_rules::{Changes, Headroom, Loaded, NoHeadroom, Options, Resolved, RuleSet, Source};

/// A number for each key.
#[derive(Default)]
pub(crate) struct Numbers(RefCell<HashMap<Vec<Vec<u8>>, u128>>);

/// Resolves, decides and answers requests.
pub(crate) struct Fixture {
    pub(crate) rules: RuleSet,
    pub(crate) numbers: Numbers,
    ledger: Ledger,
    now: Moment,
}

/// Key and value pairs of one descriptor.
pub(crate) type Pairs<'a> = &'a [(&'a str, &'a str)];

/// A counter and a cost that a reservation is settled with.
pub(crate) const SETTLED: (Key, Cost) = (Key::from_bits(7), Cost::ONE);

impl KeyHasher for Numbers {
    fn key<'p>(&self, parts: impl Iterator<Item = &'p [u8]>) -> Key {
        let parts: Vec<Vec<u8>> = parts.map(<[u8]>::to_vec).collect();
        let mut numbers = self.0.borrow_mut();
        let next = u128::try_from(numbers.len()).unwrap();
        Key::from_bits(*numbers.entry(parts).or_insert(next))
    }
}

/// The rules in a text without any error or warning.
pub(crate) fn clean(text: &str) -> RuleSet {
    let loaded = load(text);
    let shown: Vec<String> = loaded.diagnostics.iter().map(|d| d.to_string()).collect();
    assert!(shown.is_empty(), "{}", shown.join("\n"));
    loaded.rules
}

/// Loads one file.
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

impl Fixture {
    pub(crate) fn new(rules: RuleSet) -> Fixture {
        Fixture {
            rules,
            numbers: Numbers::default(),
            ledger: Ledger::default(),
            now: Moment::from_nanos(1_000_000_000_000_000_000),
        }
    }

    /// A fixture with the descriptors of [`domain`].
    pub(crate) fn of(descriptors: &str) -> Fixture {
        Fixture::new(clean(&domain(descriptors)))
    }

    pub(crate) fn wait(&mut self, span: Span) {
        self.now = self.now + span;
    }

    pub(crate) fn resolve(&self, request: &Request<'_>) -> Resolved<'_> {
        self.rules.resolve(request, &self.numbers)
    }

    pub(crate) fn answer(&mut self, request: &Request<'_>) -> Answer {
        self.answer_with(request, &NoHeadroom)
    }

    /// The answer while there is so much headroom.
    pub(crate) fn answer_with(&mut self, request: &Request<'_>, headroom: &dyn Headroom) -> Answer {
        let resolved = self
            .rules
            .resolve_with_headroom(request, &self.numbers, headroom);
        let verdict = self.ledger.decide(Now::at(self.now), &resolved.charges());
        resolved.answer(&verdict.unwrap())
    }

    /// Whether a request with one descriptor is allowed.
    pub(crate) fn is_allowed(&mut self, pairs: Pairs<'_>) -> bool {
        self.answer(&request(&[pairs])).is_allowed()
    }

    /// The path of each descriptor's rule; `-` for none, `*` before unlimited ones.
    pub(crate) fn matched_rules(&self, descriptors: &[Pairs<'_>]) -> Vec<String> {
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

    /// The key that one descriptor counts.
    pub(crate) fn key(&self, pairs: Pairs<'_>) -> Key {
        let request = request(&[pairs]);
        let resolved = self.resolve(&request);
        resolved.charges()[0].key
    }

    /// Puts new rules into effect.
    pub(crate) fn reload(&mut self, loaded: Loaded) -> Changes {
        let (rules, changes) = loaded.succeed(&self.rules);
        self.rules = rules;
        changes
    }
}

/// A descriptor with a limit of its own.
pub(crate) fn overriding<'a>(pairs: Pairs<'a>, count: u32, window: Span) -> Request<'a> {
    let mut request = request(&[pairs]);
    request.descriptors[0].limit = Some(Override { count, window });
    request
}
