//! Limits from a rules file instead of the source.

use tollgate::RuleLimiter;

const RULES: &str = "
domain: shop
descriptors:
  - key: path
    value: /login
    descriptors:
      - key: remote_address
        rate_limit:
          unit: minute
          requests_per_unit: 3
          algorithm: sliding_log
";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let limiter = RuleLimiter::from_yaml(RULES)?;
    for _attempt in 0..4 {
        let asked = [("path", "/login"), ("remote_address", "192.0.2.7")];
        let answer = limiter.check("shop", &asked)?;
        match answer.denied_by() {
            None => eprintln!("allowed"),
            Some(by) => eprintln!("denied by {}: {}", by.rule.shown(), by.limit),
        }
    }
    Ok(())
}

#[test]
fn it_runs() {
    main().expect("the rules are valid");
}
