//! Parses documents into drafts of domains and reports every error.

use std::collections::HashMap;

use crate::draft::{DescriptorDraft, DomainDraft, Spanned};
use crate::findings::{Findings, Mark};
use crate::options::Options;
use crate::quote::quote;
use crate::scalar;
use crate::section::Section;
use crate::source::Source;
use crate::yaml::{Body, Document, Documents, Kind, Node};

use items::List;
use table::Table;

mod descriptor;
mod elastic;
mod enforce;
mod foreign;
mod items;
mod metadata;
mod nearest_key;
mod no_domain;
mod priority_share;
mod rate_limit;
mod replaces;
mod sharing;
mod short_form;
mod table;
mod unknown_key;

/// The most descriptors of one load.
pub const RULES_MAX: usize = 100_000;
/// The longest key or value, in bytes.
pub const TEXT_BYTES_MAX: usize = 4096;
/// The most bytes of all rules' keys and values, each with those above it.
const PATHS_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Reads all documents of all files.
pub(crate) fn parse_sources(
    sources: &[Source],
    options: &Options,
    findings: &mut Findings,
) -> Vec<DomainDraft> {
    let mut reader = Reader {
        findings,
        joined: options.merge_domains.then(HashMap::new),
        descriptors: 0,
        path_bytes: 0,
        paths_bytes: 0,
    };
    let mut drafts: Vec<DomainDraft> = Vec::new();
    let mut indexes: HashMap<String, usize> = HashMap::new();
    for (file, source) in sources.iter().enumerate() {
        for draft in reader.file(source, file) {
            match indexes.get(&draft.name.value) {
                // Only checked for errors.
                _ if draft.is_nameless() => drafts.push(draft),
                None => {
                    indexes.insert(draft.name.value.clone(), drafts.len());
                    drafts.push(draft);
                }
                Some(first) if reader.joined.is_some() => {
                    reader.join(&mut drafts[*first], draft);
                }
                Some(first) => reader.report_duplicate_domain(&drafts[*first], &draft),
            }
        }
    }
    reader.findings.enter(None);
    drafts
}

/// Walks trees and collects what is wrong in them.
struct Reader<'f> {
    findings: &'f mut Findings,
    /// If several documents may add to one domain: the descriptors at the top of each domain so
    /// far, by its name.
    joined: Option<HashMap<String, Siblings>>,
    /// Descriptors read so far.
    descriptors: usize,
    /// Keys and values from the top to the present descriptor.
    path_bytes: usize,
    /// The same, summed over all descriptors so far.
    paths_bytes: usize,
}

// === impl Reader ===

impl Reader<'_> {
    /// Reads all documents of a file.
    fn file(&mut self, source: &Source, file: usize) -> Vec<DomainDraft> {
        self.findings.enter(None);
        let documents = Documents::read(source, file, Kind::Rules, self.findings);
        // An end of document with nothing before it is not a document.
        let is_empty = documents
            .list
            .iter()
            .all(|document| document.root.is_null());
        if documents.whole && is_empty {
            let message = "the file is empty (config file cannot have empty domain)".to_owned();
            let help = "begin with `domain: NAME`, or remove the file";
            self.findings
                .error(Mark::top(file), "empty-file", message, help);
            self.findings.reject_file(&source.name);
        }
        let list = documents.list.iter();
        list.filter(|document| !document.root.is_null())
            .filter_map(|document| self.document(document, &source.name))
            .collect()
    }

    fn document(&mut self, document: &Document, file: &str) -> Option<DomainDraft> {
        if document.is_settings {
            self.findings.reject_file(file);
            return None;
        }
        let before = self.findings.mark();
        self.findings.enter(None);
        let name = domain_name(&document.root);
        self.findings.enter(name);
        if let Some(name) = name {
            self.findings.belong(document.range, name);
        }
        let draft = self.domain(&document.root, file);
        let errors = self.findings.since(before).any() || document.range.any();
        if name.is_none() && errors {
            self.findings.reject_file(file);
        }
        draft
    }

    /// Reads a document; `None` if it is not a map.
    fn domain(&mut self, root: &Node, file: &str) -> Option<DomainDraft> {
        if self.report_no_domain(root) {
            return None;
        }
        let table = Table::read(root, Section::Domain, self.findings)?;
        let node = table.get("domain");
        let name = node.and_then(|node| self.name(node, "domain"));
        let is_reported = table.misspells("domain") || (node.is_some() && name.is_none());
        let charge_denied = self.charge_denied(&table);
        let sharing = self.sharing(&table);
        let priority_key = self.priority_key(&table);
        let name = name.filter(|name| !name.value.is_empty());
        let descriptors = self.descriptors_of_domain(table.get("descriptors"), name.as_ref());
        if name.is_none() && !is_reported {
            let message = "a document needs a domain (config file cannot have empty domain)";
            let help = "begin with `domain: NAME`, the domain of the requests";
            self.findings
                .error(table.mark(), "missing-domain", message.to_owned(), help);
        }
        // Without a name it is not a domain, but its other errors are still worth reporting.
        let nameless = || Spanned {
            value: String::new(),
            mark: table.mark(),
        };
        let name = name.unwrap_or_else(nameless);
        Some(DomainDraft {
            name,
            files: vec![file.to_owned()],
            charge_denied,
            sharing,
            priority_key,
            descriptors,
        })
    }

    /// The text of a `domain`, `key` or `value`, of which there is one only.
    fn name(&mut self, node: &Node, key: &str) -> Option<Spanned<String>> {
        let help = match (key, &node.body) {
            ("domain", Body::List(_)) => {
                "write a document for each domain, with `---` on a line between them"
            }
            ("value", Body::List(_)) => "write a descriptor for each value, or a `*` in one value",
            ("key", Body::List(_)) => {
                "write one key here; a second key goes one level down, in `descriptors`"
            }
            ("key", Body::Map(_)) => "write `key: NAME`, and `value: TEXT` in the next line",
            _ => return scalar::text(node, key, self.findings),
        };
        let message = format!("`{key}` takes text, and this is {}", node.kind());
        self.findings.error(node.mark, "type", message, help);
        None
    }

    /// Those at the top of a document. Each is compared with all earlier ones of the domain once,
    /// when it is read: otherwise every later document would repeat the work and the errors.
    fn descriptors_of_domain(
        &mut self,
        list: Option<&Node>,
        domain: Option<&Spanned<String>>,
    ) -> Vec<DescriptorDraft> {
        let (Some(joined), Some(domain)) = (&mut self.joined, domain) else {
            return self.descriptors(list, &mut Siblings::default());
        };
        let mut seen = joined.remove(&domain.value).unwrap_or_default();
        let drafts = self.descriptors(list, &mut seen);
        if let Some(joined) = &mut self.joined {
            joined.insert(domain.value.clone(), seen);
        }
        drafts
    }

    /// Reads a list of descriptors, which is added to those of its level that were `seen` before.
    fn descriptors(&mut self, list: Option<&Node>, seen: &mut Siblings) -> Vec<DescriptorDraft> {
        let Some(list) = list else { return Vec::new() };
        let Some(items) = self.items(list, List::Descriptors) else {
            return Vec::new();
        };
        let mut drafts = Vec::with_capacity(items.len());
        let before = [None].into_iter().chain(items.iter().copied().map(Some));
        for (before, &item) in before.zip(&items) {
            let Some(draft) = self.descriptor(item, before) else {
                continue;
            };
            seen.add(&draft, self.findings);
            drafts.push(draft);
        }
        drafts
    }

    /// A second document adds to a domain. Repeated descriptors are reported already.
    fn join(&mut self, into: &mut DomainDraft, draft: DomainDraft) {
        self.findings.enter(Some(&draft.name.value));
        sharing::join(into, &draft, self.findings);
        if into.files.last() != draft.files.last() {
            into.files.extend(draft.files);
        }
        into.descriptors.extend(draft.descriptors);
    }

    fn report_duplicate_domain(&mut self, first: &DomainDraft, second: &DomainDraft) {
        self.findings.enter(Some(&second.name.value));
        let message = format!(
            "duplicate domain {} in config file; the first is {}",
            quote(&second.name.value),
            self.findings
                .describe_position(first.name.mark, second.name.mark)
        );
        let help = "put all of its descriptors in one document, set `merge_domains: true` in the \
            settings, or for rules alone, add `--merge-domains`";
        for file in &first.files {
            self.findings.suspect_file(file);
        }
        self.findings
            .error(second.name.mark, "duplicate-domain", message, help);
    }
}

/// The name of a document's domain, before anything is checked.
fn domain_name(root: &Node) -> Option<&str> {
    let Body::Map(entries) = &root.body else {
        return None;
    };
    let is_domain = |key: &Node| key.scalar().is_some_and(|scalar| scalar.text == "domain");
    let (_, value) = entries.iter().find(|(key, _)| is_domain(key))?;
    let name = value.scalar()?.text.as_str();
    (!name.is_empty() && !value.is_null()).then_some(name)
}

/// The keys and values of one level.
#[derive(Default)]
struct Siblings(HashMap<(String, Option<String>), Mark>);

// === impl Siblings ===

impl Siblings {
    /// Adds a descriptor, or reports that its key and value exist already.
    fn add(&mut self, draft: &DescriptorDraft, findings: &mut Findings) {
        let value = draft.value.as_ref().map(|value| value.value.clone());
        let pair = (draft.key.value.clone(), value);
        if let Some(first) = self.0.get(&pair) {
            let (key, value) = &pair;
            let value = value
                .as_ref()
                .map_or(String::new(), |value| format!("_{value}"));
            let first = match *first == draft.key.mark {
                true => "an alias repeats it".to_owned(),
                false => format!(
                    "the first is {}",
                    findings.describe_position(*first, draft.key.mark)
                ),
            };
            let message = format!(
                "duplicate descriptor composite key {}; {first}",
                quote(&format!("{key}{value}")),
            );
            let help = "only one of them can apply to a request: to apply both, use a second key \
                        and send both descriptors";
            findings.error(draft.key.mark, "duplicate-descriptor", message, help);
            return;
        }
        self.0.insert(pair, draft.key.mark);
    }
}
