//! Whatever a file holds, reading it ends with rules or diagnostics.

use tollgate_core::Cost;
use tollgate_rules::{Options, RuleSet, Source};

use crate::fixture::{Numbers, request};

/// A file with something of everything.
const SEED: &str = r#"
domain: d
charge_denied: true
mode: strict
instances: 3
descriptors:
  - key: user
    value: "a*"
    share_threshold: true
    rate_limit: &limit
      name: one
      unit: minute
      requests_per_unit: 10
    metadata: {x: 1.5, y: [a, ~, {z: true}]}
    descriptors:
      - key: path
        rate_limit: 100/15m
        detailed_metric: true
  - key: user
    rate_limit:
      <<: *limit
      name: two
      algorithm: token_bucket
      burst: 20
      soft: 10%
      mode: write_back
      on_store_error: local
      replaces: [{name: one}]
  - {key: other, value: b, quota_mode: true, rate_limit: {window: 1h30m, requests_per_unit: 3}}
---
domain: e
descriptors: []
"#;

/// What is cut in: what YAML and the parser give a meaning to.
const PIECES: [&str; 24] = [
    "*",
    "&a ",
    "*a",
    "<<: ",
    "[",
    "]",
    "{",
    "}",
    ": ",
    "- ",
    "\n",
    "\t",
    "  ",
    "\"",
    "'",
    "|\n",
    "---\n",
    "!x ",
    "%",
    "\0",
    "\u{feff}",
    "0x",
    "-",
    "descriptors:\n",
];

/// Numbers that look like chance and are the same every time (splitmix64).
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^= z >> 31;
        usize::try_from(z % u64::try_from(bound).unwrap()).unwrap()
    }

    fn mutate(&mut self, bytes: &mut Vec<u8>) {
        let at = self.below(bytes.len() + 1);
        match self.below(5) {
            0 => {
                let end = (at + self.below(20)).min(bytes.len());
                bytes.drain(at..end);
            }
            1 => {
                let piece = PIECES[self.below(PIECES.len())];
                bytes.splice(at..at, piece.bytes());
            }
            2 if at < bytes.len() => bytes[at] = u8::try_from(self.below(256)).unwrap(),
            3 => {
                let end = (at + self.below(60)).min(bytes.len());
                let copy = bytes[at..end].to_vec();
                let to = self.below(bytes.len() + 1);
                bytes.splice(to..to, copy);
            }
            _ => bytes.truncate(at.max(20)),
        }
    }
}

#[test]
fn the_seed_itself_is_right() {
    let loaded = RuleSet::parse(&[Source::new("seed", SEED)], &Options::default());
    let shown: Vec<String> = loaded.diagnostics.iter().map(|d| d.to_string()).collect();
    assert!(shown.is_empty(), "{}", shown.join("\n"));
    assert_eq!(loaded.rules.rules().count(), 4);
}

#[test]
fn no_file_is_too_strange() {
    let options = Options {
        merge_domains: true,
        ..Options::default()
    };
    let numbers = Numbers::default();
    let mut previous = RuleSet::default();
    let request = request(&[&[("user", "ab"), ("path", "/")], &[("user", "x")]]);
    assert_eq!(request.cost, Cost::ONE);
    let (mut loads, mut rejections) = (0, 0);
    for seed in 0..4_000 {
        let mut chance = Chance(seed);
        let mut text = SEED.as_bytes().to_vec();
        for _ in 0..=chance.below(3) {
            chance.mutate(&mut text);
        }
        let sources = [Source::new("mutant", text)];
        let loaded = RuleSet::parse(&sources, &options);
        for diagnostic in &loaded.diagnostics {
            assert!(diagnostic.line > 0 && diagnostic.column > 0, "seed {seed}");
            let shown = diagnostic.to_string();
            let is_plain = |c: char| !c.is_control() || c == '\n';
            assert!(shown.chars().all(is_plain), "seed {seed}: {shown:?}");
        }
        loads += usize::from(!loaded.rules.is_empty());
        rejections += usize::from(loaded.has_errors());
        assert!(
            loaded.has_errors() || !loaded.rules.is_empty(),
            "seed {seed}"
        );
        previous = loaded.succeed(&previous).0;
        let resolved = previous.resolve(&request, &numbers);
        assert!(resolved.charges().len() <= 2);
    }
    // The mutants are neither all right nor all wrong.
    assert!(
        loads > 400 && rejections > 400,
        "{loads} loaded, {rejections} rejected"
    );
}
