//! The study as a rules file.

use std::fmt::Write as _;

use serde_json::json;

use super::Study;
use super::log_span::LogSpan;
use super::report::Share;

/// The key of the rules of routes.
const PATH: &str = "path";
/// What a rules file says before the templates that have no limit.
const OTHER_TEMPLATES_IN_RULES: &str = "  \
  # Templates without a limit: they have too few requests, or ten others have more. Without these
  # descriptors, their paths would count for other routes.
";
/// What a rules file with templates says.
const TEMPLATES_IN_RULES: &str = "\
# A path with {id} is a template, which a request must send as its path: name it in `routes` of the
# gateway, and in --path-template of `tollgate replay`.
";

/// What a rules file without rules for routes says.
const NO_ROUTES_IN_RULES: &str = "\
# No limits of routes: the key begins with `path`, so a request would meet the rule of its route
# instead of the one below.
";

// === impl Study ===

impl Study {
    /// A rules file with a limit on each key of the descriptor `keys`, for all requests and for
    /// each route, which touches at most this share of the keys: per minute, or per second if the
    /// log has no whole minute.
    ///
    /// If the first of `keys` is `path`, there are no rules for routes: they would be siblings of
    /// the rule for all requests, and of siblings, the one with a matching value applies.
    pub fn to_rules(&self, domain: &str, keys: &[String], per_mille: usize) -> String {
        let mut text = format!(
            "# Limits that touch at most this share of the keys of the log they come from: {}.\n\
             # Try them on other traffic with `tollgate replay` before they deny anything.\n\
             domain: {}\n",
            Share(per_mille),
            json!(domain)
        );
        let has_routes = keys.first().is_none_or(|key| key != PATH);
        if !has_routes && !self.routes.is_empty() {
            text.push_str(NO_ROUTES_IN_RULES);
        }
        if has_routes && self.templates().next().is_some() {
            text.push_str(TEMPLATES_IN_RULES);
        }
        if self.all.has_no_whole_minute() {
            let length = LogSpan::of(self.span).length();
            let _ = writeln!(
                text,
                "# The log has only {length} of requests, and no whole minute of the clock, so the \
                 limits are per\n# second: over a minute, they allow 60 times as many. Take a \
                 longer log before they are used."
            );
        }
        text.push_str("descriptors:\n");
        write_keys(&mut text, 2, keys, &self.all.rule_limit(per_mille));
        if has_routes {
            self.write_routes(&mut text, keys, per_mille);
        }
        text
    }

    /// Writes the rules of the routes, so that each counts the requests that it was made of.
    fn write_routes(&self, text: &mut String, keys: &[String], per_mille: usize) {
        // Of values with a star, the first that matches counts, and `/a/*` matches `/a/{*rest}`.
        let is_template = |text: &str| text.contains('{') && text.contains('*');
        let mut routes: Vec<_> = self.routes.iter().collect();
        routes.sort_by_key(|(route, _)| !is_template(route));
        if !self.other_templates.is_empty() {
            text.push_str(OTHER_TEMPLATES_IN_RULES);
        }
        for template in &self.other_templates {
            write_value(text, template);
        }
        for (route, part) in routes {
            write_value(text, route);
            text.push_str("    descriptors:\n");
            write_keys(text, 6, keys, &part.rule_limit(per_mille));
        }
    }
}

/// Writes the beginning of a descriptor with a route's value. Its paths share a counter, because
/// the study counts them together.
fn write_value(text: &mut String, route: &str) {
    let _ = writeln!(text, "  - key: {PATH}\n    value: {}", json!(route));
    if route.contains('*') {
        text.push_str("    share_threshold: true\n");
    }
}

/// Writes nested descriptors, one for each key, the last of which has the limit.
fn write_keys(text: &mut String, indent: usize, keys: &[String], limit: &str) {
    for (index, key) in keys.iter().enumerate() {
        let indent = " ".repeat(indent + index * 4);
        let _ = writeln!(text, "{indent}- key: {}", json!(key));
        let _ = match index + 1 < keys.len() {
            true => writeln!(text, "{indent}  descriptors:"),
            false => writeln!(text, "{indent}  rate_limit: {limit}"),
        };
    }
}
