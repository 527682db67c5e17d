//! The report of the well-behaved client, which one process prints and another reads.

use std::fmt;
use std::time::Duration;

/// Latencies of the requests that were due during the attack, in microseconds from when they were
/// due, and the errors of all requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) p50: u64,
    pub(crate) p99: u64,
    pub(crate) longest: u64,
    /// Requests that were due during the attack, and were answered.
    pub(crate) answered: u64,
    pub(crate) errors: u64,
    /// The texts of the first errors.
    pub(crate) examples: String,
}

// === impl Report ===

impl Report {
    /// Parses what is printed. A text that is cut off is a report without answers.
    pub(crate) fn parse(text: &str) -> Report {
        let mut words = text.trim().splitn(6, ' ');
        let mut number = || words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
        Report {
            p50: number(),
            p99: number(),
            longest: number(),
            answered: number(),
            errors: number(),
            examples: words.next().unwrap_or_default().to_owned(),
        }
    }

    /// The requirements that are not met; the p99 must be below the bound.
    pub(crate) fn faults(&self, p99_bound: Duration) -> Vec<String> {
        let mut faults = Vec::new();
        if self.errors > 0 {
            let Report {
                errors, examples, ..
            } = self;
            faults.push(format!("the client had {errors} errors: {examples}"));
        }
        if self.answered == 0 {
            faults.push("no request of the client was answered".to_owned());
        }
        let p99 = Duration::from_micros(self.p99);
        if p99 >= p99_bound {
            faults.push(format!(
                "the client's p99 was {p99:?}, not below {p99_bound:?}"
            ));
        }
        faults
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report {
            p50,
            p99,
            longest,
            answered,
            errors,
            examples,
        } = self;
        write!(f, "{p50} {p99} {longest} {answered} {errors} {examples}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_read_as_it_was_printed() {
        let report = Report {
            p50: 900,
            p99: 2100,
            longest: 3000,
            answered: 30,
            errors: 2,
            examples: "grpc: cut off; http: status 503".to_owned(),
        };
        assert_eq!(Report::parse(&format!("{report}\n")), report);
        assert_eq!(Report::parse(""), Report::default());
    }
}
