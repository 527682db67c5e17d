//! Where a setting is, for warnings about settings that are in use.

use std::slice;
use std::sync::Arc;

use crate::diagnostic::Diagnostic;
use crate::findings::{Findings, Mark};
use crate::misplaced_settings;
use crate::source::Source;
use crate::yaml::{Body, Documents, Kind, Node};

/// A settings file, and where each of its settings is.
#[derive(Debug)]
pub struct SettingPlaces<'s> {
    source: &'s Source,
    /// `None` for an empty file.
    root: Option<Arc<Node>>,
}

// === impl SettingPlaces ===

impl<'s> SettingPlaces<'s> {
    /// Of a file without errors.
    pub fn new(source: &'s Source) -> SettingPlaces<'s> {
        let mut findings = Findings::default();
        let documents = Documents::read(source, 0, Kind::Settings, &mut findings);
        let first = documents.list.into_iter().next();
        SettingPlaces {
            source,
            root: first.map(|document| document.root),
        }
    }

    /// Whether the first document is settings of Tollgate: it has a key of theirs, and no `domain`.
    pub fn are_settings(&self) -> bool {
        let Some(Body::Map(entries)) = self.root.as_ref().map(|root| &root.body) else {
            return false;
        };
        let keys = entries.iter().filter_map(|(key, _)| {
            let text = key.scalar()?.text.as_str();
            Some((text, key.mark))
        });
        misplaced_settings::find(keys).is_some()
    }

    /// Whether the file has the setting at `path`: `store.mode`.
    pub fn has(&self, path: &str) -> bool {
        self.root
            .as_ref()
            .is_some_and(|root| root.innermost(path).1)
    }

    /// A warning about the setting at `path`, such as `gateway.routes[1].domain`, or about the
    /// innermost part of the path that is there.
    pub fn warning(
        &self,
        path: &str,
        code: &'static str,
        message: String,
        help: impl Into<String>,
    ) -> Diagnostic {
        self.report(path, |findings, mark| {
            findings.warning(mark, code, message, help);
        })
    }

    /// An error at the same place as [`SettingPlaces::warning`].
    pub fn error(
        &self,
        path: &str,
        code: &'static str,
        message: String,
        help: impl Into<String>,
    ) -> Diagnostic {
        self.report(path, |findings, mark| {
            findings.error(mark, code, message, help);
        })
    }

    /// What `report` adds at the place of `path`.
    fn report(&self, path: &str, report: impl FnOnce(&mut Findings, Mark)) -> Diagnostic {
        let mark = self.root.as_ref().map(|root| root.innermost(path).0.mark);
        let mut findings = Findings::default();
        report(&mut findings, mark.unwrap_or(Mark::top(0)));
        let (diagnostics, _) = findings.finish(slice::from_ref(self.source));
        diagnostics.into_iter().next().expect("one was added")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_is_at_its_setting_or_at_what_is_there_of_it() {
        let text = "store: {mode: strict}\ngateway:\n  routes:\n  - {domain: a}\n  - domain: b\n";
        let source = Source::new("s.yaml", text);
        let places = SettingPlaces::new(&source);
        for (path, place) in [
            ("store.mode", (1, 15)),
            ("gateway.routes[0].domain", (4, 14)),
            ("gateway.routes[1].domain", (5, 13)),
            ("gateway.routes[1].identity.descriptors[2]", (5, 5)),
            ("limits", (1, 1)),
        ] {
            let found = places.warning(path, "code", "message".to_owned(), "help");
            assert_eq!((found.line, found.column), place, "{path}");
            assert!(!found.is_error());
        }
        assert!(places.has("gateway.routes[1].domain") && !places.has("store.instances"));
        assert!(
            places
                .error("limits", "code", "message".to_owned(), "")
                .is_error()
        );
        assert!(places.are_settings());
        let rules = Source::new("r.yaml", "domain: d\nstore: x\n");
        assert!(!SettingPlaces::new(&rules).are_settings());
        let empty = Source::new("s.yaml", "");
        assert!(!SettingPlaces::new(&empty).has("store"));
    }
}
