//! Documents that are clearly something else than the rules of a domain.

use crate::section::Section;
use crate::yaml::{Body, Node};

use super::Reader;

// === impl Reader ===

impl Reader<'_> {
    /// Reports a document that is clearly something else, which is all that is reported of it.
    pub(super) fn report_no_domain(&mut self, root: &Node) -> bool {
        let scalar = root.scalar().map_or("", |scalar| &scalar.text);
        let key = scalar.split([':', ' ', '=']).next().unwrap_or_default();
        let rest = scalar.strip_prefix(key).unwrap_or_default();
        let help = match (root.child("apiVersion"), root.child("domain")) {
            (Some(_), None) if root.child("kind").is_some() => {
                "this is an object of Kubernetes: check the rules file that is below its `data`"
                    .to_owned()
            }
            _ if matches!(&root.body, Body::List(items)
                if items.iter().any(|item| item.child("domain").is_some())) =>
            {
                "remove the `- ` before `domain`; several domains are documents of their own, with \
                 `---` on a line between them"
                    .to_owned()
            }
            _ if matches!(&root.body, Body::List(items)
                if items.iter().any(|item| item.child("key").is_some())) =>
            {
                "write `domain: NAME` and `descriptors:` above this list".to_owned()
            }
            _ if Section::Domain.field(key).is_none() => return false,
            _ if rest.starts_with(':') => {
                format!("write a space after the colon: `{key}: …`")
            }
            _ if rest.trim_start().starts_with('=') => {
                format!("write `:` in place of `=`: `{key}: …`")
            }
            _ => return false,
        };
        let message = format!(
            "a document must be a map with `domain`, and this is {}",
            match &root.body {
                Body::Map(_) => "something else",
                _ => root.kind(),
            }
        );
        let mark = match &root.body {
            Body::Map(entries) => entries.first().map_or(root.mark, |(key, _)| key.mark),
            _ => root.mark,
        };
        self.findings.error(mark, "type", message, help);
        true
    }
}
