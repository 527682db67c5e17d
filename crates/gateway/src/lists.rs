//! The files of allow and deny lists: read at the start, and again when they change.

use std::collections::BTreeSet;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;
use serde::Deserialize;
use tollgate_engine::Why;
use tollgate_http::{AccessList, InvalidEntry, InvalidSetting, Listing};
use tracing::{error, info, warn};

use crate::metrics::ListMetrics;

mod doubt;

use doubt::find_doubts;

/// The most files of the lists together.
pub const LIST_FILES_MAX: usize = 64;
/// The most bytes of a file.
pub const LIST_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The section `lists`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ListSettings {
    /// Files of clients to which no limit applies.
    pub allow: Vec<PathBuf>,
    /// Files of clients that are always denied.
    pub deny: Vec<PathBuf>,
}

/// What is wrong with a list.
#[derive(Debug)]
pub struct InvalidList {
    /// Its file.
    pub file: PathBuf,
    /// The line and the column, from 1; `None` if the file as a whole is wrong.
    pub place: Option<(usize, usize)>,
    /// What is wrong.
    pub problem: String,
    /// What to do.
    pub instead: String,
}

/// The lists in effect.
#[derive(Debug)]
pub(crate) struct Lists {
    settings: ListSettings,
    current: ArcSwap<AccessList>,
    /// A hash of what was read last, valid or not.
    last: Mutex<u64>,
    /// The keys of the descriptors that requests have.
    keys: Mutex<BTreeSet<String>>,
    metrics: ListMetrics,
}

type Texts = Vec<(Listing, PathBuf, Result<Vec<u8>, String>)>;

// === impl ListSettings ===

impl ListSettings {
    /// All files.
    pub fn paths(&self) -> impl Iterator<Item = &PathBuf> {
        self.allow.iter().chain(&self.deny)
    }

    /// Makes relative paths those below `directory`.
    pub fn resolve(&mut self, directory: &Path) {
        for path in self.allow.iter_mut().chain(&mut self.deny) {
            *path = directory.join(&path);
        }
    }

    /// Reads the files without using them.
    ///
    /// # Errors
    ///
    /// What is wrong with them.
    pub fn check(&self) -> Result<(), Vec<InvalidList>> {
        build(&self.read()).map(drop)
    }

    /// The entries that list nobody if the descriptors of requests have these keys, and those that
    /// list nobody because of quotes, with the keys of the settings that lead to their files. Reads
    /// the files; those that cannot be read have none.
    pub fn find_doubts(&self, keys: &BTreeSet<String>) -> Vec<(String, InvalidList)> {
        let place = |file: &Path| {
            let index_in = |files: &[PathBuf]| files.iter().position(|one| one == file);
            let in_allow = index_in(&self.allow).map(|index| format!("lists.allow[{index}]"));
            let in_deny = || index_in(&self.deny).map(|index| format!("lists.deny[{index}]"));
            in_allow.or_else(in_deny).unwrap_or_default()
        };
        let doubts = doubts_of(&self.read(), keys).into_iter();
        doubts.map(|doubt| (place(&doubt.file), doubt)).collect()
    }

    /// Checks the number and the names of the files.
    pub(crate) fn check_paths(&self) -> Result<(), InvalidSetting> {
        let count = self.paths().count();
        InvalidSetting::check_at_most("lists", count, "files", LIST_FILES_MAX)?;
        for (at, paths) in [("allow", &self.allow), ("deny", &self.deny)] {
            if let Some(index) = paths.iter().position(|path| path.as_os_str().is_empty()) {
                let at = format!("lists.{at}[{index}]");
                return Err(InvalidSetting::new(at, "it is empty", "name a file"));
            }
        }
        Ok(())
    }

    fn read(&self) -> Texts {
        let allow = self.allow.iter().map(|path| (Listing::Allow, path));
        let deny = self.deny.iter().map(|path| (Listing::Deny, path));
        let files = allow.chain(deny);
        let read = files.map(|(listing, path)| {
            let text =
                tollgate_files::read(path, LIST_BYTES_MAX).map_err(|error| error.to_string());
            (listing, path.clone(), text)
        });
        read.collect()
    }
}

/// The entries of these files that list nobody.
fn doubts_of(texts: &Texts, keys: &BTreeSet<String>) -> Vec<InvalidList> {
    let read = texts
        .iter()
        .filter_map(|(_, path, text)| Some((path, text.as_ref().ok()?)));
    let doubts = read.flat_map(|(path, text)| {
        let of_file = find_doubts(text, keys).into_iter();
        of_file.map(|entry| InvalidList::at(path, entry))
    });
    doubts.collect()
}

/// The lists of these files, or everything that is wrong with them.
fn build(texts: &Texts) -> Result<AccessList, Vec<InvalidList>> {
    let mut list = AccessList::default();
    let mut errors = Vec::new();
    for (listing, path, text) in texts {
        match text {
            Ok(text) => {
                let added = list.add(*listing, text);
                let invalid = added.err().into_iter().flatten();
                errors.extend(invalid.map(|entry| InvalidList::at(path, entry)));
            }
            Err(error) => errors.push(InvalidList {
                file: path.clone(),
                place: None,
                problem: format!("it cannot be read: {error}"),
                instead: "write the file, or remove it from `gateway.lists`".to_owned(),
            }),
        }
    }
    match errors.is_empty() {
        true => Ok(list),
        false => Err(errors),
    }
}

fn hash(texts: &Texts) -> u64 {
    let mut hasher = DefaultHasher::new();
    for (_, _, text) in texts {
        text.hash(&mut hasher);
    }
    hasher.finish()
}

// === impl Lists ===

impl Lists {
    /// Reads the lists for the first time; `None` if there are none. `keys` are those of the
    /// descriptors that requests have.
    ///
    /// # Errors
    ///
    /// [`InvalidSetting`] names the first file and line that cannot be used.
    pub(crate) fn open(
        settings: &ListSettings,
        keys: BTreeSet<String>,
        metrics: ListMetrics,
    ) -> Result<Option<Lists>, InvalidSetting> {
        settings.check_paths()?;
        if settings.paths().next().is_none() {
            return Ok(None);
        }
        let texts = settings.read();
        let list = build(&texts).map_err(|errors| {
            let first = errors.into_iter().next();
            let first = first.expect("an invalid list has an error");
            let problem = format!("{}: {}", first.place(), first.problem);
            InvalidSetting::new("lists", problem, first.instead)
        })?;
        metrics.record_load(&list);
        warn_of_doubts(&texts, &keys);
        Ok(Some(Lists {
            settings: settings.clone(),
            current: ArcSwap::from_pointee(list),
            last: Mutex::new(hash(&texts)),
            keys: Mutex::new(keys),
            metrics,
        }))
    }

    pub(crate) fn current(&self) -> arc_swap::Guard<std::sync::Arc<AccessList>> {
        self.current.load()
    }

    pub(crate) const fn metrics(&self) -> &ListMetrics {
        &self.metrics
    }

    /// Reads the files again. All of them take effect, or none: those in effect stay if a line is
    /// invalid. Logs what is new, or everything if an operator asked for it.
    pub(crate) fn reload(&self, why: Why) {
        let texts = self.settings.read();
        let hash = hash(&texts);
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if *last == hash && why == Why::Noticed {
            return;
        }
        *last = hash;
        match build(&texts) {
            Ok(list) => {
                self.metrics.record_load(&list);
                let (allow, deny) = (list.count(Listing::Allow), list.count(Listing::Deny));
                self.current.store(list.into());
                info!(allow, deny, "lists in effect");
                warn_of_doubts(&texts, &self.keys());
            }
            Err(errors) => {
                self.metrics.count_failure();
                for invalid in errors {
                    let (line, column) = invalid.place.unzip();
                    error!(
                        file = %invalid.file.display(), line, column,
                        problem = invalid.problem, help = invalid.instead,
                        "the list cannot be used; the previous lists stay in effect"
                    );
                }
            }
        }
    }

    /// The descriptors of requests have these keys from now on. If they had others before, entries
    /// that list nobody are logged.
    pub(crate) fn set_keys(&self, keys: BTreeSet<String>) {
        if *self.keys() != keys {
            warn_of_doubts(&self.settings.read(), &keys);
            *self.keys() = keys;
        }
    }

    fn keys(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Logs the entries that list nobody.
fn warn_of_doubts(texts: &Texts, keys: &BTreeSet<String>) {
    for doubt in doubts_of(texts, keys) {
        let (line, column) = doubt.place.unzip();
        warn!(
            file = %doubt.file.display(), line, column,
            problem = doubt.problem, help = doubt.instead,
            "an entry of a list has no effect"
        );
    }
}

// === impl InvalidList ===

impl InvalidList {
    fn at(file: &Path, entry: InvalidEntry) -> InvalidList {
        InvalidList {
            file: file.to_owned(),
            place: Some((entry.line, entry.column)),
            problem: entry.problem,
            instead: entry.instead,
        }
    }

    /// The file, and the line and the column if there are any.
    pub fn place(&self) -> String {
        let file = self.file.display();
        match self.place {
            Some((line, column)) => format!("{file}:{line}:{column}"),
            None => file.to_string(),
        }
    }
}

impl fmt::Display for InvalidList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.place(), self.problem, self.instead)
    }
}
