//! Files that are named twice, which is never meant.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Fails if two of the paths lead to the same file; `effect` says what that would do.
pub(crate) fn check<'p>(
    paths: impl IntoIterator<Item = &'p PathBuf>,
    effect: &str,
) -> Result<(), String> {
    let mut known: HashMap<PathBuf, &Path> = HashMap::new();
    for path in paths {
        // Standard input and pipes have no other path.
        let real = path.canonicalize().unwrap_or_else(|_| path.clone());
        let Some(first) = known.insert(real, path) else {
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
