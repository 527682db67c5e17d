//! What is wrong with a setting.

use std::fmt;

/// A setting that cannot be used: where it is, what is wrong, and what to write instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidSetting {
    /// The keys that lead to it, from the outermost: `client_address.trusted_hops`.
    pub at: String,
    /// What is wrong with it.
    pub problem: String,
    /// What to write instead.
    pub instead: String,
}

// === impl InvalidSetting ===

impl InvalidSetting {
    /// What is wrong at `at`, and what to write instead.
    pub fn new(
        at: impl Into<String>,
        problem: impl Into<String>,
        instead: impl Into<String>,
    ) -> InvalidSetting {
        InvalidSetting {
            at: at.into(),
            problem: problem.into(),
            instead: instead.into(),
        }
    }

    /// Checks that `at` has at most so many of what `unit` names.
    ///
    /// # Errors
    ///
    /// That it has more.
    pub fn check_at_most<T: PartialOrd + fmt::Display>(
        at: &str,
        count: T,
        unit: &str,
        most: T,
    ) -> Result<(), InvalidSetting> {
        match count <= most {
            true => Ok(()),
            false => {
                let (problem, instead) = (format!("{count} {unit}"), format!("{most} is the most"));
                Err(InvalidSetting::new(at, problem, instead))
            }
        }
    }

    /// The same below another key: `below("identity")` of `path` is `identity.path`.
    #[must_use]
    pub fn below(mut self, key: &str) -> InvalidSetting {
        self.at = match self.at.starts_with('[') {
            true => format!("{key}{}", self.at),
            false => format!("{key}.{}", self.at),
        };
        self
    }
}

impl std::error::Error for InvalidSetting {}

impl fmt::Display for InvalidSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.at, self.problem, self.instead)
    }
}
