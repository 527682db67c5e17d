//! Displays limits, in answers, logs and summaries.

use std::fmt;

use super::{Algorithm, Anchor, Limit, Segments};

impl fmt::Display for Limit {
    /// Writes the limit in the terms of a rules file, without defaults: `10 per 1m token_bucket`,
    /// `2 per 1s leaky_bucket queue 10 soft 20%`, `3 per 1h sliding_window in 6 segments`,
    /// `100 per 1m fixed_window elastic 50% reserved 20%`; for requests with priority while there
    /// is headroom, the last one ends with `with priority with headroom`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} per {} {}", self.count, self.window, self.algorithm)?;
        match self.algorithm {
            Algorithm::FixedWindow(Anchor::FirstRequest) => {
                f.write_str(" from the first request")?
            }
            Algorithm::SlidingWindow(Segments(segments)) if segments > 1 => {
                write!(f, " in {segments} segments")?;
            }
            Algorithm::TokenBucket if self.nominal != self.count => {
                write!(f, " burst {}", self.nominal)?;
            }
            Algorithm::LeakyBucket if self.nominal != self.count => {
                write!(f, " queue {}", self.nominal)?;
            }
            _ => {}
        }
        match (self.soft_percent(), self.elastic_percent()) {
            (0, 0) => {}
            (0, elastic) => write!(f, " elastic {elastic}%")?,
            (soft, _) => write!(f, " soft {soft}%")?,
        }
        if self.priority_percent != 0 {
            write!(f, " reserved {}%", self.priority_percent)?;
        }
        if self.has_priority {
            f.write_str(" with priority")?;
        }
        if self.has_headroom {
            f.write_str(" with headroom")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Limit {
    /// As `Display`: all other fields follow from these.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Algorithm {
    /// Its name in a rules file.
    pub const fn name(self) -> &'static str {
        match self {
            Algorithm::FixedWindow(_) => "fixed_window",
            Algorithm::SlidingLog => "sliding_log",
            Algorithm::SlidingWindow(_) => "sliding_window",
            Algorithm::TokenBucket => "token_bucket",
            Algorithm::LeakyBucket => "leaky_bucket",
        }
    }
}

impl fmt::Display for Algorithm {
    /// Writes the algorithm's name in a rules file.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
