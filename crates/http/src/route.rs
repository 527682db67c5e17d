//! Route templates: `/users/{id}` for the paths of all users.

use matchit::{InsertError, Router};

use crate::path::{NormalPath, PathSettings};
use crate::setting::{InvalidSetting, InvalidSettings};

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
    /// `paths` gives to them, or they would match nothing.
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
            check(template, paths)?;
            let inserted = router.insert(template, index);
            index += 1;
            inserted.map_err(|error| {
                let problem = match error {
                    InsertError::Conflict { with } => {
                        format!("{template} matches the same paths as {with}")
                    }
                    _ => format!("{template} is no template"),
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

/// Checks that parameters are whole segments, and that the others are in normal form.
fn check(template: &str, paths: &PathSettings) -> Result<(), InvalidSetting> {
    let wrong = |problem, instead| Err(InvalidSetting::new("", problem, instead));
    let Some(rest) = template.strip_prefix('/') else {
        return wrong(
            format!("\"{template}\" does not begin with a slash"),
            format!("write /{template}"),
        );
    };
    let is_parameter = |segment: &str| {
        let name = segment
            .strip_prefix('{')
            .and_then(|rest| rest.strip_suffix('}'));
        name.is_some_and(|name| !name.contains(['{', '}']))
    };
    let mut fixed = String::new();
    for segment in rest.split('/') {
        let is_parameter = is_parameter(segment);
        if !is_parameter && segment.contains(['{', '}']) {
            return wrong(
                format!("a parameter is only a part of the segment \"{segment}\" of {template}"),
                "write {name} for the whole segment".to_owned(),
            );
        }
        fixed.push('/');
        fixed.push_str(if is_parameter { "0" } else { segment });
    }
    match paths.normalize(fixed.as_bytes()) {
        Ok(normal) if normal.as_str() == fixed => Ok(()),
        Ok(normal) => wrong(
            format!("{template} matches no path, because paths are normalised first"),
            format!("write it as {}, with its parameters", normal.as_str()),
        ),
        Err(error) => wrong(
            format!("{template} matches no path: {error}"),
            "write a path as it is after normalisation".to_owned(),
        ),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn routes(templates: &[&str]) -> Result<Routes, String> {
        let templates: Vec<String> = templates.iter().map(|text| (*text).to_owned()).collect();
        Routes::new(&templates, &PathSettings::default()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_path_has_the_template_with_the_most_fixed_segments() {
        let routes = routes(&[
            "/users/{id}",
            "/users/me",
            "/users/{id}/posts/{post}",
            "/files/{*p}",
        ]);
        let routes = routes.unwrap();
        let table = [
            ("/users/7", Some("/users/{id}")),
            ("/users/me", Some("/users/me")),
            ("//users/x/../%6de/", Some("/users/me")),
            ("/users/7/posts/8", Some("/users/{id}/posts/{post}")),
            ("/users/7/posts", None),
            ("/files/a/b/c", Some("/files/{*p}")),
            ("/files", None),
            ("/users/%7Bid%7D", Some("/users/{id}")),
            ("*", None),
        ];
        for (path, expected) in table {
            let path = PathSettings::default().normalize(path.as_bytes()).unwrap();
            assert_eq!(routes.find(&path), expected, "{path:?}");
        }
    }

    #[test]
    fn errors_say_which_template_and_what_to_write() {
        let wrong = |templates: &[&str]| routes(templates).unwrap_err();
        assert_eq!(
            wrong(&["/a", "users"]),
            "routes[1]: \"users\" does not begin with a slash; write /users"
        );
        assert!(
            wrong(&["/a/"]).contains("write it as /a,"),
            "{}",
            wrong(&["/a/"])
        );
        assert!(wrong(&["/a%2"]).contains("two hexadecimal digits"));
        assert!(wrong(&["/v{n}"]).contains("only a part of the segment \"v{n}\""));
        assert!(wrong(&["/{a}", "/{b}"]).contains("matches the same paths as /{a}"));
        assert!(wrong(&["/{*a}/b"]).contains("is no template"));
        assert!(wrong(&["/{}"]).contains("is no template"));
        assert!(wrong(&vec!["/a"; ROUTES_MAX + 1]).contains("4096 is the most"));
    }
}
