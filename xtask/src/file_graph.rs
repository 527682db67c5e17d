//! Which file of a crate uses which: the graph whose cycles the tidy tests bound.
//!
//! A file uses another if it names something that is defined there, in a `use` declaration or in a
//! path. Re-exports are followed to the definition: `crate::Limit` leads to `limit.rs` and not to
//! `lib.rs`.
//! `mod` lines are not arrows: a module is not used by the file that declares it.

use std::collections::{BTreeMap, BTreeSet};

use petgraph::algo::tarjan_scc;
use petgraph::graphmap::DiGraphMap;

use crate::module::{Modules, Segments};
use crate::source::Source;

/// How many imports lead from a name to its definition, at most.
const HOPS_MAX: usize = 16;

/// The files of a crate, and the arrows between them.
pub struct FileGraph {
    /// In the order in which the crate declares them.
    pub files: Vec<Source>,
    /// Pairs of indexes into `files`: the first uses the second.
    pub arrows: BTreeSet<(usize, usize)>,
}

// === impl FileGraph ===

impl FileGraph {
    /// Reads the crate in this folder, relative to the root of the project.
    ///
    /// # Panics
    ///
    /// If a file cannot be read or is not Rust.
    #[must_use]
    pub fn read(crate_folder: &str) -> FileGraph {
        let modules = Modules::read(crate_folder);
        let mut arrows = BTreeSet::new();
        for (index, module) in modules.modules.iter().enumerate() {
            let imports = module.imports.iter().map(|import| &import.path);
            for path in imports.chain(&module.paths) {
                let used = modules.resolve(index, path, HOPS_MAX);
                arrows.extend(used.into_iter().map(|used| (module.file, used)));
            }
        }
        arrows.retain(|(from, to)| from != to);
        FileGraph {
            files: modules.files,
            arrows,
        }
    }

    /// The files that use each other in a circle, the largest circle first; paths within `src`.
    #[must_use]
    pub fn cycles(&self) -> Vec<Vec<&str>> {
        let graph: DiGraphMap<usize, ()> = DiGraphMap::from_edges(&self.arrows);
        let components = tarjan_scc(&graph).into_iter();
        let mut cycles: Vec<Vec<&str>> = components
            .filter(|component| component.len() > 1)
            .map(|component| {
                let mut paths: Vec<&str> = component
                    .iter()
                    .map(|file| self.path_in_src(*file))
                    .collect();
                paths.sort_unstable();
                paths
            })
            .collect();
        cycles.sort_by_key(|cycle| (std::cmp::Reverse(cycle.len()), cycle[0].to_owned()));
        cycles
    }

    /// The arrows between the modules that the crate's root declares, each with all below it.
    #[must_use]
    pub fn top_level_arrows(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        let top_level = |file: usize| {
            let path = self.path_in_src(file);
            let end = path.find(['/', '.']).unwrap_or(path.len());
            &path[..end]
        };
        let mut arrows: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for file in 0..self.files.len() {
            arrows.entry(top_level(file)).or_default();
        }
        for (from, to) in &self.arrows {
            let (from, to) = (top_level(*from), top_level(*to));
            if from != to {
                arrows.entry(from).or_default().insert(to);
            }
        }
        arrows
    }

    /// A file's path below the crate's `src`.
    #[must_use]
    pub fn path_in_src(&self, file: usize) -> &str {
        let path = self.files[file].path.as_str();
        path.split_once("/src/").map_or(path, |(_, path)| path)
    }
}

// === impl Modules ===

impl Modules {
    /// The files that define what `path` means in a module; none if it leads out of the crate.
    fn resolve(&self, module: usize, path: &[String], hops: usize) -> BTreeSet<usize> {
        let mut at = module;
        let mut rest = path;
        let mut is_anchored = false;
        while let Some((first, after)) = rest.split_first() {
            at = match first.as_str() {
                "crate" => self.root_of(module),
                "self" => at,
                "super" => self.modules[at].parent.unwrap_or(at),
                _ => break,
            };
            (rest, is_anchored) = (after, true);
        }
        let found = self.find(at, rest, hops);
        if found.is_empty() && is_anchored {
            // Defined by a macro, or imported from another crate.
            return BTreeSet::from([self.modules[at].file]);
        }
        found
    }

    /// The files that define what `path` leads to from within a module.
    fn find(&self, module: usize, path: &[String], hops: usize) -> BTreeSet<usize> {
        let here = &self.modules[module];
        let file = BTreeSet::from([here.file]);
        let Some((first, rest)) = path.split_first() else {
            return file;
        };
        if let Some(children) = here.children.get(first) {
            let found = children.iter().map(|child| {
                let found = self.find(*child, rest, hops);
                match found.is_empty() {
                    // As in `resolve`.
                    true => BTreeSet::from([self.modules[*child].file]),
                    false => found,
                }
            });
            return found.flatten().collect();
        }
        if here.items.contains(first) {
            return file;
        }
        if hops == 0 {
            return BTreeSet::new();
        }
        let follow = |target: &Segments, rest: &[String]| {
            let target = [target.as_slice(), rest].concat();
            self.resolve(module, &target, hops - 1)
        };
        let mut imports = here.imports.iter();
        let named = imports.find(|import| {
            import.name.as_ref() == Some(first) && import.path.as_slice() != [first.clone()]
        });
        if let Some(import) = named {
            let found = follow(&import.path, rest);
            return if found.is_empty() { file } else { found };
        }
        let globs = here.imports.iter().filter(|import| import.name.is_none());
        let mut found = globs.map(|import| {
            let target = [import.path.as_slice(), path].concat();
            self.find_exactly(module, &target, hops - 1)
        });
        found.find(|found| !found.is_empty()).unwrap_or_default()
    }

    fn find_exactly(&self, module: usize, path: &[String], hops: usize) -> BTreeSet<usize> {
        match path.split_first() {
            Some((first, rest)) if first == "crate" => self.find(self.root_of(module), rest, hops),
            Some((first, rest)) if first == "self" => self.find(module, rest, hops),
            Some((first, rest)) if first == "super" => {
                let parent = self.modules[module].parent.unwrap_or(module);
                self.find(parent, rest, hops)
            }
            _ => self.find(module, path, hops),
        }
    }

    fn root_of(&self, mut module: usize) -> usize {
        while let Some(parent) = self.modules[module].parent {
            module = parent;
        }
        module
    }
}
