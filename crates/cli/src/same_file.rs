//! Files that are named twice, which is never meant.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

/// One path for each file.
pub(crate) fn distinct(paths: Vec<PathBuf>) -> impl Iterator<Item = PathBuf> {
    let mut known = HashSet::new();
    paths
        .into_iter()
        .filter(move |path| known.insert(real(path)))
}

/// The file itself, without links. Standard input and pipes have no other path.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// Fails if two of the paths lead to the same file; `effect` says what that would do.
pub(crate) fn check<'p>(
    paths: impl IntoIterator<Item = &'p PathBuf>,
    effect: &str,
) -> Result<(), String> {
    let mut known: HashMap<PathBuf, &Path> = HashMap::new();
    for path in paths {
        let Some(first) = known.insert(real(path), path) else {
            continue;
        };
        let path = path.display();
        let what = match path.to_string() == first.display().to_string() {
            true => format!("{path} is named twice"),
            false => format!("{} and {path} are the same file", first.display()),
        };
        return Err(format!("{what}, so {effect}; name it once"));
    }
    Ok(())
}
