//! Reports for all that may apply to a descriptor.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;

use http::StatusCode;
use serde_json::json;
use tollgate_core::{ChargeDenied, Clock, Cost, Descriptor, Entry, Request, Span};
use tollgate_engine::{Engine, Stores};
use tollgate_memory::{ManualClock, Memory};
use tollgate_rules::{Options, RuleSet, Source};

use super::{EXPLANATION_VERSION, ExplanationReport, Values};

const RULES: &str = "\
domain: shop
descriptors:
  - key: user
    value: bob
    rate_limit: {unlimited: true}
  - key: user
    value: \"a*\"
    descriptors:
      - key: path
        rate_limit: {name: login, unit: minute, requests_per_unit: 2}
        descriptors:
          - key: method
            rate_limit: 1/minute
  - key: user
    rate_limit: 5/second
  - key: tier
    rate_limit: {name: tier, unit: second, requests_per_unit: 9, replaces: [{name: login}]}
";

/// Reports on requests to an engine in virtual time.
struct Bench {
    engine: Engine,
    runtime: tokio::runtime::Runtime,
}

// === impl Bench ===

impl Bench {
    fn new() -> Bench {
        let clock = Arc::new(ManualClock::default());
        clock.advance(Span::DAY + Span::from_secs(20));
        let clock: Arc<dyn Clock> = clock;
        let memory = Memory::builder().max_keys(100).clock(clock).build();
        let engine = Engine::new(Stores::new(memory));
        let loaded = RuleSet::parse(&[Source::new("shop.yaml", RULES)], &Options::default());
        assert!(!loaded.has_errors(), "{:?}", loaded.diagnostics);
        engine.replace_rules(loaded.rules);
        let runtime = tokio::runtime::Builder::new_current_thread().build();
        Bench {
            engine,
            runtime: runtime.unwrap(),
        }
    }

    /// The report as text and as JSON.
    fn report(&self, request: &Request<'_>, values: Values) -> (String, serde_json::Value) {
        let explanation = self.runtime.block_on(self.engine.explain(request)).unwrap();
        let report = ExplanationReport {
            request,
            explanation: &explanation,
            values,
            denial: None,
            has_states: true,
        };
        (report.to_string(), report.to_json())
    }

    fn decide(&self, request: &Request<'_>) {
        let decided = self.runtime.block_on(self.engine.decide(request));
        let _answer = decided.unwrap();
    }
}

/// The entries of a descriptor.
type Pairs<'a> = &'a [(&'a str, &'a str)];

fn request<'a>(descriptors: &[&[(&'a str, &'a str)]]) -> Request<'a> {
    let descriptors = descriptors.iter().map(|pairs| {
        let entries = pairs.iter().map(|(key, value)| Entry {
            key: key.as_bytes(),
            value: value.as_bytes(),
        });
        Descriptor {
            entries: entries.collect(),
            ..Descriptor::default()
        }
    });
    Request {
        domain: b"shop",
        descriptors: descriptors.collect(),
        cost: Cost::ONE,
        charge_denied: ChargeDenied::Never,
    }
}

#[test]
fn a_denial_says_which_rule_where_and_for_how_long() {
    let bench = Bench::new();
    let asked = request(&[&[("user", "ann"), ("path", "/x")]]);
    bench.decide(&asked);
    bench.decide(&asked);
    let (text, json) = bench.report(&asked, Values::Show);
    let expected = "\
shop: a request would be denied now, by login; allowed again in 40s

user=ann,path=/x
  user=ann, looked up at the top
    differs   user: bob  (shop.yaml:3)
    matches   user: a*  (shop.yaml:6)
    not tried user  (shop.yaml:14)
  path=/x, looked up below user: a* (shop.yaml:6)
    matches   path  (shop.yaml:9)
  why       login (shop.yaml:9) applies
  rule      user_a*.path
  limit     2 per 1m fixed_window
  store     default, in memory
  counts    each value on its own
  remaining 0 of 2
  denied    for 40s
  reset     in 40s
  deeper    the descriptor below shop.yaml:9, from shop.yaml:12 on, did not apply: the request has \
no further entry
";
    assert_eq!(text, expected);
    assert_eq!(json["version"], EXPLANATION_VERSION);
    assert_eq!(json["deniedBy"], "login");
    assert_eq!(json["retryAfter"], "40s");
    let part = &json["descriptors"][0];
    assert_eq!(part["rule"]["line"], 9);
    assert_eq!(part["state"]["outcome"], "denied");
    assert_eq!(part["limit"]["algorithm"], "fixed_window");
    let candidates = part["search"][0]["candidates"].as_array().unwrap();
    let outcomes: Vec<&str> = candidates
        .iter()
        .map(|one| one["outcome"].as_str().unwrap())
        .collect();
    assert_eq!(outcomes, ["differs", "matches", "not_tried"]);
}

#[test]
fn what_applies_is_said_in_a_sentence() {
    let table: [(Pairs<'_>, &str, &str); 8] = [
        (
            &[("user", "bob")],
            "rule",
            "user_bob (shop.yaml:3) applies, and allows without counting",
        ),
        (
            &[("user", "ann")],
            "no_limit",
            "the entries lead to shop.yaml:6, which has no `rate_limit`; those nested below it \
             need one more entry",
        ),
        (
            &[("usr", "ann")],
            "no_match",
            "no descriptor at the top of the domain has the key `usr`",
        ),
        (
            &[("user", "ann"), ("p", "x")],
            "no_match",
            "no descriptor below shop.yaml:6 has the key `p`",
        ),
        (
            &[("user", "carl"), ("path", "/x")],
            "no_match",
            "nothing is nested below shop.yaml:14, and the descriptor goes on with `path`: a rule \
             applies only to descriptors that are exactly as long as its path",
        ),
        (&[("user", "carl")], "rule", "user (shop.yaml:14) applies"),
        (&[], "no_match", "the descriptor has no entries"),
        (&[("tier", "1")], "rule", "tier (shop.yaml:16) applies"),
    ];
    let bench = Bench::new();
    for (pairs, outcome, reason) in table {
        let (text, json) = bench.report(&request(&[pairs]), Values::Show);
        let part = &json["descriptors"][0];
        assert_eq!(part["outcome"], outcome, "{pairs:?}");
        assert_eq!(part["reason"], reason, "{pairs:?}");
        assert!(text.contains(reason), "{text}");
    }
    let unknown = Request {
        domain: b"other",
        ..request(&[&[("user", "ann")]])
    };
    let (_, json) = bench.report(&unknown, Values::Show);
    assert_eq!(json["descriptors"][0]["outcome"], "unknown_domain");
    let both = request(&[&[("user", "ann"), ("path", "/x")], &[("tier", "1")]]);
    let (_, json) = bench.report(&both, Values::Show);
    let replaced = &json["descriptors"][0];
    assert_eq!(replaced["outcome"], "replaced");
    assert_eq!(replaced["replacedBy"]["name"], "tier");
}

#[test]
fn values_that_may_be_secrets_are_hidden_and_those_of_the_file_are_not() {
    let bench = Bench::new();
    let asked = request(&[
        &[("user", "a-secret"), ("path", "/secret")],
        &[("secret-free", "secret")],
    ]);
    let (text, json) = bench.report(&asked, Values::Hide);
    for shown in [text.clone(), json.to_string()] {
        assert!(
            !shown.replace("secret-free", "").contains("secret"),
            "{shown}"
        );
        assert!(shown.contains("a*"), "{shown}");
    }
    assert!(text.contains("user=(hidden),path=(hidden)"), "{text}");
    let (text, _) = bench.report(&asked, Values::Show);
    assert!(text.contains("user=a-secret,path=/secret"), "{text}");
}

#[test]
fn bytes_of_clients_cannot_control_a_terminal() {
    let bench = Bench::new();
    let asked = request(&[&[("us\u{1b}[2Jer", "a\nb"), ("\u{202e}", "x")]]);
    let (text, json) = bench.report(&asked, Values::Show);
    // The JSON keeps the values, and is escaped when it is written.
    let entries = &json["descriptors"][0]["entries"];
    assert_eq!(entries[0], json!({"key": "us\u{1b}[2Jer", "value": "a\nb"}));
    assert_eq!(entries[1]["key"], "\u{202e}");
    let written = crate::reply::json::<String>(StatusCode::OK, &json);
    for shown in [&text, written.body()] {
        assert!(!shown.contains(['\u{1b}', '\u{202e}']), "{shown:?}");
    }
    assert!(text.contains("a\\nb"), "{text}");
}
