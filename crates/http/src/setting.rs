//! What is wrong with settings.

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

/// Settings that cannot be used, in the order in which they were read, so that all of them are
/// reported at once; once each, although several parts may read the same setting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InvalidSettings(Vec<InvalidSetting>);

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

    /// The same below another key: `below("identity")` of `path` is `identity.path`, and of what
    /// has no key itself `identity`.
    #[must_use]
    pub fn below(mut self, key: &str) -> InvalidSetting {
        self.at = match self.at.chars().next() {
            None | Some('[') => format!("{key}{}", self.at),
            Some(_) => format!("{key}.{}", self.at),
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

// === impl InvalidSettings ===

impl InvalidSettings {
    /// What was read; `None` if it is wrong, which is collected.
    pub fn take<T>(&mut self, read: Result<T, impl Into<InvalidSettings>>) -> Option<T> {
        let collect = |invalid: InvalidSettings| invalid.into_iter().for_each(|one| self.push(one));
        read.map_err(Into::into).map_err(collect).ok()
    }

    /// As [`InvalidSettings::take`], for what is below `key`.
    pub fn take_below<T>(
        &mut self,
        key: &str,
        read: Result<T, impl Into<InvalidSettings>>,
    ) -> Option<T> {
        self.take(read.map_err(|invalid| invalid.into().below(key)))
    }

    /// As [`InvalidSettings::take`], for each item of the list `key`; those that are wrong are left
    /// out.
    pub fn take_each<T, R, E: Into<InvalidSettings>>(
        &mut self,
        key: &str,
        list: &[T],
        mut read: impl FnMut(&T) -> Result<R, E>,
    ) -> Vec<R> {
        let items = list.iter().enumerate();
        let items = items.filter_map(|(index, item)| {
            let read = read(item);
            self.take(read.map_err(|invalid| invalid.into().below(&format!("{key}[{index}]"))))
        });
        items.collect()
    }

    /// Collects a setting that cannot be used.
    pub fn push(&mut self, invalid: InvalidSetting) {
        if !self.0.contains(&invalid) {
            self.0.push(invalid);
        }
    }

    /// All of them below another key, as [`InvalidSetting::below`].
    #[must_use]
    pub fn below(self, key: &str) -> InvalidSettings {
        self.0.into_iter().map(|one| one.below(key)).collect()
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// # Errors
    ///
    /// These, unless there is none.
    pub fn check(self) -> Result<(), InvalidSettings> {
        match self.is_empty() {
            true => Ok(()),
            false => Err(self),
        }
    }
}

impl From<InvalidSetting> for InvalidSettings {
    fn from(invalid: InvalidSetting) -> InvalidSettings {
        InvalidSettings(vec![invalid])
    }
}

impl FromIterator<InvalidSetting> for InvalidSettings {
    fn from_iter<I: IntoIterator<Item = InvalidSetting>>(all: I) -> InvalidSettings {
        InvalidSettings(all.into_iter().collect())
    }
}

impl IntoIterator for InvalidSettings {
    type Item = InvalidSetting;
    type IntoIter = std::vec::IntoIter<InvalidSetting>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl std::error::Error for InvalidSettings {}

/// One line each.
impl fmt::Display for InvalidSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines: Vec<String> = self.0.iter().map(InvalidSetting::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}
