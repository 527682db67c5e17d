//! Metrics as messages of OTLP, read from OpenMetrics' text format.
//!
//! `/metrics` and OTLP have one source thereby: the same names, labels and values. What is read is
//! the service's own text, so what is not understood is left out, and nothing is reported.

use crate::message::Attribute;
use crate::message::metrics::{
    CUMULATIVE, Data, Exemplar, ExemplarValue, Gauge, Histogram, HistogramPoint, Metric, Number,
    NumberPoint, Sum,
};

/// The nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;
/// The digits of nanoseconds behind the point of a time in seconds.
const NANO_DIGITS: usize = 9;

/// Between which times counters have counted, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Period {
    pub(crate) start_nanos: u64,
    pub(crate) at_nanos: u64,
}

/// A metric whose samples are being read.
#[derive(Default)]
struct Family<'t> {
    name: &'t str,
    help: &'t str,
    kind: &'t str,
    numbers: Vec<NumberPoint>,
    histograms: Vec<(Vec<Label>, HistogramPoint)>,
}

/// A line with a value.
struct Sample<'t> {
    name: &'t str,
    labels: Vec<Label>,
    value: &'t str,
    /// What follows `# `.
    exemplar: Option<&'t str>,
}

type Label = (String, String);

/// Reads all metrics of a text.
pub(crate) fn read(text: &str, period: Period) -> Vec<Metric> {
    let mut metrics = Vec::new();
    let mut family = Family::default();
    for line in text.lines() {
        let comment = line
            .strip_prefix("# ")
            .and_then(|rest| rest.split_once(' '));
        match comment {
            Some((word @ ("HELP" | "TYPE"), named)) => {
                let (name, said) = named.split_once(' ').unwrap_or((named, ""));
                if name != family.name {
                    metrics.extend(std::mem::take(&mut family).finish());
                    family.name = name;
                }
                match word {
                    "HELP" => family.help = said,
                    _ => family.kind = said,
                }
            }
            Some(_) => {}
            None if line.starts_with('#') => {}
            None => drop(Sample::read(line).and_then(|sample| family.add(sample, period))),
        }
    }
    metrics.extend(family.finish());
    metrics
}

// === impl Family ===

impl Family<'_> {
    /// Adds a sample; `None` if it cannot be read.
    fn add(&mut self, sample: Sample<'_>, period: Period) -> Option<()> {
        let Period {
            start_nanos,
            at_nanos,
        } = period;
        if self.kind != "histogram" {
            self.numbers.push(NumberPoint {
                attributes: attributes(sample.labels),
                // Gauges have no beginning.
                start_nanos: if self.kind == "counter" {
                    start_nanos
                } else {
                    0
                },
                at_nanos,
                value: Some(number(sample.value)?),
            });
            return Some(());
        }
        let suffix = sample.name.strip_prefix(self.name)?;
        let mut labels = sample.labels;
        let bound = labels.iter().position(|(name, _)| name == "le");
        let bound = bound.map(|index| labels.remove(index).1);
        let point = self.point(labels, period);
        match (suffix, bound) {
            ("_sum", None) => point.sum = sample.value.parse().ok(),
            ("_count", None) => point.count = sample.value.parse().ok()?,
            ("_bucket", Some(bound)) => {
                let before: u64 = point.bucket_counts.iter().sum();
                let up_to: u64 = sample.value.parse().ok()?;
                point.bucket_counts.push(up_to.saturating_sub(before));
                if bound != "+Inf" {
                    point.bounds.push(bound.parse().ok()?);
                }
                point.exemplars.extend(sample.exemplar.and_then(exemplar));
            }
            _ => return None,
        }
        Some(())
    }

    /// The histogram with these labels, but for that of the bucket.
    fn point(&mut self, labels: Vec<Label>, period: Period) -> &mut HistogramPoint {
        // Those of one histogram follow each other.
        let found = self
            .histograms
            .iter()
            .rposition(|(found, _)| *found == labels);
        let index = found.unwrap_or_else(|| {
            let point = HistogramPoint {
                attributes: attributes(labels.clone()),
                start_nanos: period.start_nanos,
                at_nanos: period.at_nanos,
                ..HistogramPoint::default()
            };
            self.histograms.push((labels, point));
            self.histograms.len() - 1
        });
        &mut self.histograms[index].1
    }

    /// The metric, if it has any samples.
    fn finish(self) -> Option<Metric> {
        if self.numbers.is_empty() && self.histograms.is_empty() {
            return None;
        }
        let points = self.numbers;
        let (name, data) = match self.kind {
            "counter" => {
                let sum = Sum {
                    points,
                    temporality: CUMULATIVE,
                    is_monotonic: true,
                };
                (format!("{}_total", self.name), Data::Sum(sum))
            }
            "histogram" => {
                let points = self.histograms.into_iter().map(|(_, point)| point);
                let histogram = Histogram {
                    points: points.collect(),
                    temporality: CUMULATIVE,
                };
                (self.name.to_owned(), Data::Histogram(histogram))
            }
            _ => (self.name.to_owned(), Data::Gauge(Gauge { points })),
        };
        Some(Metric {
            name,
            description: self.help.to_owned(),
            data: Some(data),
        })
    }
}

// === impl Sample ===

impl<'t> Sample<'t> {
    /// Reads a line such as `name{label="value"} 1 # {trace_id="..."} 0.5 1700000000.0`.
    fn read(line: &'t str) -> Option<Sample<'t>> {
        let end = line.find(['{', ' '])?;
        let (name, rest) = line.split_at(end);
        let (labels, rest) = read_labels(rest)?;
        let rest = rest.strip_prefix(' ')?;
        let (value, exemplar) = match rest.split_once(" # ") {
            Some((value, exemplar)) => (value, Some(exemplar)),
            None => (rest, None),
        };
        Some(Sample {
            name,
            labels,
            value,
            exemplar,
        })
    }
}

/// Reads `{name="value",...}`, if the text begins with it, and returns what follows.
fn read_labels(text: &str) -> Option<(Vec<Label>, &str)> {
    let mut labels = Vec::new();
    let Some(mut rest) = text.strip_prefix('{') else {
        return Some((labels, text));
    };
    loop {
        if let Some(rest) = rest.strip_prefix('}') {
            return Some((labels, rest));
        }
        let (name, quoted) = rest.split_once("=\"")?;
        let (value, after) = read_quoted(quoted)?;
        labels.push((name.to_owned(), value));
        rest = after.strip_prefix(',').unwrap_or(after);
    }
}

/// Reads a value with its escapes, up to its quotation mark.
fn read_quoted(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    loop {
        match chars.next()? {
            (at, '"') => return Some((value, &text[at + 1..])),
            (_, '\\') => value.push(match chars.next()?.1 {
                'n' => '\n',
                char => char,
            }),
            (_, char) => value.push(char),
        }
    }
}

fn attributes(labels: Vec<Label>) -> Vec<Attribute> {
    let labels = labels.into_iter();
    labels
        .map(|(name, value)| Attribute::text(name, value))
        .collect()
}

fn number(text: &str) -> Option<Number> {
    match text.parse() {
        Ok(integer) => Some(Number::Integer(integer)),
        Err(_) => text.parse().ok().map(Number::Double),
    }
}

/// Reads `{trace_id="...",span_id="..."} VALUE SECONDS`.
fn exemplar(text: &str) -> Option<Exemplar> {
    let (labels, rest) = read_labels(text)?;
    let (value, at) = rest.strip_prefix(' ')?.split_once(' ')?;
    let id = |wanted: &str| {
        let mut labels = labels.iter();
        let (_, digits) = labels.find(|(name, _)| name == wanted)?;
        let bytes = (0..digits.len()).step_by(2);
        let bytes = bytes.map(|at| u8::from_str_radix(digits.get(at..at + 2)?, 16).ok());
        bytes.collect::<Option<Vec<u8>>>()
    };
    let (seconds, fraction) = at.split_once('.').unwrap_or((at, ""));
    let nanos: u64 = format!("{fraction:0<NANO_DIGITS$}").parse().ok()?;
    let seconds: u64 = seconds.parse().ok()?;
    Some(Exemplar {
        at_nanos: seconds.saturating_mul(SECOND).saturating_add(nanos),
        value: Some(ExemplarValue::Double(value.parse().ok()?)),
        span_id: id("span_id")?,
        trace_id: id("trace_id")?,
    })
}

#[cfg(test)]
mod tests;
