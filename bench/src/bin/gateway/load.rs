//! The load generator, and what was measured with it.

use std::error::Error;
use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use tollgate_bench::latency;
use tollgate_testbed::Folder;

use crate::contender::LOAD_CORE;

/// What `h2load` reports of one load.
#[derive(Debug)]
pub(crate) struct Load {
    done: u32,
    ok: u32,
    per_second: f64,
    /// Microseconds of each request, in ascending order.
    latencies: Vec<u32>,
}

/// The figures of one contender under one load.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figures {
    pub(crate) per_second: f64,
    /// Processor time of a request, in microseconds.
    pub(crate) cpu_micros: f64,
    pub(crate) p50_micros: f64,
    pub(crate) p99_micros: f64,
}

/// Sends requests on so many connections, one after the other on each.
pub(crate) fn generate(
    port: u16,
    connections: usize,
    seconds: u32,
) -> Result<Load, Box<dyn Error>> {
    let folder = Folder::new();
    let log = folder.file("latencies");
    let mut command = Command::new("taskset");
    command.args(["-c", LOAD_CORE, "h2load", "--h1", "-t", "1"]);
    command.args(["-c", &connections.to_string(), "-D", &seconds.to_string()]);
    command.arg(format!("--log-file={log}"));
    command
        .arg(format!("http://127.0.0.1:{port}/"))
        .stderr(Stdio::null());
    let output = command
        .output()
        .map_err(|error| format!("h2load: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut latencies = Vec::new();
    for line in fs::read_to_string(&log)?.lines() {
        // When it began, its status, and how long it took.
        latencies.extend(
            line.split('\t')
                .nth(2)
                .and_then(|micros| micros.parse::<u32>().ok()),
        );
    }
    latencies.sort_unstable();
    let number = |after: &str, word: &str| number_before(&text, after, word);
    let load = number("requests:", "done").and_then(|done| {
        let ok = number("status codes:", "2xx")?;
        let per_second = number("finished in", "req/s")?;
        Some((done, ok, per_second))
    });
    let (done, ok, per_second) = load.ok_or_else(|| format!("h2load printed: {text}"))?;
    Ok(Load {
        done: done.parse()?,
        ok: ok.parse()?,
        per_second: per_second.parse()?,
        latencies,
    })
}

/// The number before a word, in the line that begins so.
fn number_before<'t>(text: &'t str, line: &str, word: &str) -> Option<&'t str> {
    let line = text.lines().find_map(|found| found.strip_prefix(line))?;
    let mut words = line.split([' ', ',']).filter(|word| !word.is_empty());
    let mut before = words.next()?;
    for found in words {
        if found == word {
            return Some(before);
        }
        before = found;
    }
    None
}

/// The medians of each figure.
pub(crate) fn median(rounds: &[Figures]) -> Figures {
    let middle = |figure: fn(&Figures) -> f64| latency::median(rounds.iter().map(figure));
    Figures {
        per_second: middle(|one| one.per_second),
        cpu_micros: middle(|one| one.cpu_micros),
        p50_micros: middle(|one| one.p50_micros),
        p99_micros: middle(|one| one.p99_micros),
    }
}

// === impl Load ===

impl Load {
    /// The figures of a contender that used so much processor time for it.
    pub(crate) fn figures(&self, used: Duration) -> Result<Figures, String> {
        let Load { done, ok, .. } = *self;
        if done == 0 || ok != done {
            return Err(format!("{ok} of {done} requests were answered with 2xx"));
        }
        if self.latencies.is_empty() {
            return Err("h2load logged no latencies".to_owned());
        }
        let at = |percent: usize| {
            let index = (self.latencies.len() * percent / 100).min(self.latencies.len() - 1);
            f64::from(self.latencies[index])
        };
        Ok(Figures {
            per_second: self.per_second,
            cpu_micros: used.as_secs_f64() * 1e6 / f64::from(done),
            p50_micros: at(50),
            p99_micros: at(99),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_in_the_report() {
        let text = "finished in 4.00s, 57337.75 req/s, 8.1MB/s\n\
                    requests: 229351 total, 229415 started, 229351 done, 229350 succeeded\n\
                    status codes: 229350 2xx, 0 3xx, 1 4xx, 0 5xx\n";
        assert_eq!(number_before(text, "requests:", "done"), Some("229351"));
        assert_eq!(number_before(text, "status codes:", "2xx"), Some("229350"));
        assert_eq!(
            number_before(text, "finished in", "req/s"),
            Some("57337.75")
        );
        assert_eq!(number_before(text, "finished in", "MB/s"), None);
    }

    #[test]
    fn a_load_with_a_denial_has_no_figures() {
        let load = |ok| Load {
            done: 4,
            ok,
            per_second: 1.0,
            latencies: vec![1, 2, 3, 4],
        };
        let figures = load(4).figures(Duration::from_micros(80));
        let figures = figures.expect("all were allowed");
        assert!((figures.cpu_micros - 20.0).abs() < 1e-9);
        assert!((figures.p50_micros - 3.0).abs() < 1e-9);
        let error = load(3).figures(Duration::ZERO).expect_err("one was not");
        assert_eq!(error, "3 of 4 requests were answered with 2xx");
    }
}
