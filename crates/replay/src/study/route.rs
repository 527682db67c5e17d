//! The route of a path: its template, or its first segment.

use std::cmp::Reverse;
use std::collections::HashMap;

use tollgate_http::{PathSettings, Routes};
use tollgate_rules::TEXT_BYTES_MAX;

use super::ROUTE_EVENTS_MIN;
use crate::key_shape::KeyShape;
use crate::path_template::template_of;

/// The most templates that are counted. Those that come later are not found.
const COUNTED_MAX: usize = 100_000;
/// The most templates that are tried, those with the most requests first.
const TRIED_MAX: usize = 100;

/// Requests whose paths have the same template, are equal if they have one segment, or begin with
/// the same one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Route(String);

/// Finds the routes of paths.
pub(super) struct RouteFinder {
    paths: PathSettings,
    templates: Routes,
}

/// How many requests have a template.
#[derive(Default)]
pub(super) struct TemplateCounts {
    paths: PathSettings,
    counts: HashMap<String, usize>,
}

/// How many templates of the shape, as these paths and their requests have them, have enough
/// requests to be studied.
pub(super) fn count_given<'p>(
    shape: &KeyShape,
    paths: impl Iterator<Item = (Option<&'p [u8]>, &'p usize)>,
) -> usize {
    let mut counts: HashMap<&[u8], usize> = HashMap::new();
    for (path, requests) in paths {
        if let Some(template) = path.filter(|path| shape.is_template(path)) {
            *counts.entry(template).or_default() += requests;
        }
    }
    let counts = counts.into_values();
    counts.filter(|count| *count >= ROUTE_EVENTS_MIN).count()
}

// === impl Route ===

impl Route {
    /// The route of a path that is a template, because the log's keys were shaped so.
    pub(super) fn of_template(template: &[u8]) -> Option<Route> {
        Route::of_value(std::str::from_utf8(template).ok()?.to_owned())
    }

    /// `None` for a path that no value in a rules file stands for: one without a first segment, or
    /// whose first segment would be a wildcard or a template there, is not text, or is too long.
    fn of_first_segment(path: &[u8]) -> Option<Route> {
        let rest = path.strip_prefix(b"/")?;
        let end = rest.iter().position(|byte| *byte == b'/');
        let segment = std::str::from_utf8(&rest[..end.unwrap_or(rest.len())]).ok()?;
        if !segment.chars().all(can_be_in_value) {
            return None;
        }
        Route::of_value(match end {
            Some(_) => format!("/{segment}/*"),
            None => format!("/{segment}"),
        })
    }

    /// `None` if the rules file would be rejected for such a long value.
    fn of_value(value: String) -> Option<Route> {
        (value.len() <= TEXT_BYTES_MAX).then_some(Route(value))
    }

    /// The value in a rules file that matches its paths.
    pub(super) fn pattern(&self) -> String {
        self.0.clone()
    }

    /// Whether it is a template.
    pub(super) fn is_template(&self) -> bool {
        self.0.contains('{')
    }
}

/// Whether a character stands for itself in the value of a rule: a star is a wildcard, `{` begins
/// a part of a template, and YAML files have no control characters.
fn can_be_in_value(character: char) -> bool {
    let is_special = matches!(character, '*' | '{' | '\u{feff}' | '\u{fffe}' | '\u{ffff}');
    !is_special && !character.is_control()
}

// === impl TemplateCounts ===

impl TemplateCounts {
    /// Counts so many requests of this path.
    pub(super) fn add(&mut self, path: &[u8], requests: usize) {
        let Some(template) = self.template(path) else {
            return;
        };
        if let Some(count) = self.counts.get_mut(&template) {
            *count += requests;
        } else if self.counts.len() < COUNTED_MAX {
            self.counts.insert(template, requests);
        }
    }

    fn template(&self, path: &[u8]) -> Option<String> {
        let path = self.paths.normalize(path).ok()?;
        template_of(path.as_str())
    }

    /// The templates with the most requests, at most `most`. They match as those of the gateway do:
    /// a template is left out if most of the requests that it matches have no identifier in its
    /// place. All of them are studied, so a path of one that is left out has another route.
    pub(super) fn finder<'p>(
        &self,
        most: usize,
        paths: impl Iterator<Item = (&'p [u8], usize)>,
    ) -> RouteFinder {
        let mut templates: Vec<(&String, &usize)> = self.counts.iter().collect();
        templates.retain(|(_, count)| **count >= ROUTE_EVENTS_MIN);
        templates.sort_by_key(|(template, count)| (Reverse(**count), *template));
        let tried = templates.iter().take(TRIED_MAX);
        let mut chosen: Vec<String> = Vec::new();
        for (template, _) in tried {
            if chosen.len() >= most {
                break;
            }
            chosen.push((*template).clone());
            // Two templates can match the same paths.
            if Routes::new(&chosen, &self.paths).is_err() {
                chosen.pop();
            }
        }
        let all = RouteFinder::new(self.paths, &chosen);
        let mut matched: HashMap<Route, usize> = HashMap::new();
        for (path, requests) in paths {
            if let Some(route) = all.find(path) {
                *matched.entry(route).or_default() += requests;
            }
        }
        chosen.retain(|template| {
            let matched = matched.get(&Route(template.clone())).copied().unwrap_or(0);
            matched >= ROUTE_EVENTS_MIN && self.counts[template] * 2 >= matched
        });
        RouteFinder::new(self.paths, &chosen)
    }
}

// === impl RouteFinder ===

impl RouteFinder {
    fn new(paths: PathSettings, templates: &[String]) -> RouteFinder {
        RouteFinder {
            paths,
            // Each was tried with those before it.
            templates: Routes::new(templates, &paths).unwrap_or_default(),
        }
    }

    /// The route of a path; `None` if a rules file cannot name it.
    pub(super) fn find(&self, path: &[u8]) -> Option<Route> {
        let normal = self.paths.normalize(path).ok();
        let template = normal.as_ref().and_then(|path| self.templates.find(path));
        match template {
            Some(template) => Some(Route(template.to_owned())),
            None => Route::of_first_segment(path),
        }
    }
}
