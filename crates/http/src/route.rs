//! Route templates: `/users/{id}` for the paths of all users.

use matchit::{InsertError, Router};

use crate::path::{NormalPath, PathSettings};
use crate::setting::{InvalidSetting, InvalidSettings};

mod other_syntax;

mod template;

/// The most routes.
pub const ROUTES_MAX: usize = 4096;

/// Route templates, and which of them a path matches.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    templates: Vec<String>,
    router: Router<usize>,
}

// === impl Routes ===

impl Routes {
    /// Templates: `{id}` stands for one segment, `{*rest}` at the end for one or more. A template
    /// with more fixed segments wins. The fixed segments must be written in the normal form that
    /// `paths` gives to them, or they would match nothing; but `%2A`, `%3A`, `%24` and `%2B` are
    /// the characters that they stand for where these would look like a pattern.
    ///
    /// # Errors
    ///
    /// Every template that is wrong.
    pub fn new(templates: &[String], paths: &PathSettings) -> Result<Routes, InvalidSettings> {
        InvalidSetting::check_at_most("routes", templates.len(), "routes", ROUTES_MAX)?;
        let mut errors = InvalidSettings::default();
        let mut router = Router::new();
        let mut index = 0;
        errors.take_each("routes", templates, |template| {
            let routed = template::parse(template, paths)?;
            let inserted = router.insert(routed, index);
            index += 1;
            inserted.map_err(|error| {
                let problem = match error {
                    InsertError::Conflict { with } => {
                        format!("{template} matches the same paths as {with}")
                    }
                    _ => format!("{template} is not a valid template"),
                };
                let instead = "write {name} for a segment, {*rest} at the end";
                InvalidSetting::new("", problem, instead)
            })
        });
        errors.check()?;
        let templates = templates.to_vec();
        Ok(Routes { templates, router })
    }

    /// The template that a path matches.
    pub fn find(&self, path: &NormalPath) -> Option<&str> {
        let index = *self.router.at(path.as_str()).ok()?.value;
        self.templates.get(index).map(String::as_str)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.templates.is_empty()
    }
}

#[cfg(test)]
mod tests;
