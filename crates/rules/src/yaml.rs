//! Parses YAML text into trees of nodes with their positions.
//!
//! Everything that makes a small file large or deep is bounded: bytes, nesting, and nodes after
//! aliases and merge keys are expanded. An alias shares the nodes of its anchor, so expansion costs
//! no memory, but it is counted as if written out, because every later pass visits it again.

use std::iter;
use std::sync::Arc;

use crate::findings::{FindingRange, Findings, Mark};
use crate::misplaced_settings;
use crate::source::{FILE_BYTES_MAX, Source};

use builder::Builder;
pub(crate) use looks::Looks;

mod builder;
mod looks;
mod syntax;
mod text;

/// The deepest nesting of lists and maps.
pub const DEPTH_MAX: usize = 100;
/// The most nodes of one file after aliases are expanded.
pub const NODES_MAX: usize = 1_000_000;
/// How many bytes of text count as one more node: an alias to a long text is copied as well.
const TEXT_WEIGHT: usize = 64;

/// A value and its position.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) mark: Mark,
    pub(crate) body: Body,
    /// Nodes in this one, itself included, aliases expanded, long texts weighed.
    size: usize,
    /// The depth of nesting, this node included.
    depth: usize,
}

#[derive(Debug)]
pub(crate) enum Body {
    Scalar(Scalar),
    List(Vec<Arc<Node>>),
    Map(Vec<Pair>),
}

/// A key and its value.
pub(crate) type Pair = (Arc<Node>, Arc<Node>);

/// A scalar as written.
#[derive(Debug)]
pub(crate) struct Scalar {
    pub(crate) text: String,
    /// Written without quotes, so that YAML gives it a type by its looks.
    pub(crate) plain: bool,
    /// For a key that a merge key brought into its map: the position of that `<<`.
    pub(crate) merged_at: Option<Box<Mark>>,
}

/// The documents of one file that are whole.
pub(crate) struct Documents {
    pub(crate) list: Vec<Document>,
    /// Whether all of the file was read.
    pub(crate) whole: bool,
}

/// One document, whose domain is not known yet.
pub(crate) struct Document {
    pub(crate) root: Arc<Node>,
    /// The findings in its YAML.
    pub(crate) range: FindingRange,
    /// Whether it is settings in place of rules, which is reported.
    pub(crate) is_settings: bool,
}

/// What a file is read as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Rules,
    Settings,
}

// === impl Documents ===

impl Documents {
    /// Reads all documents before the first syntax error.
    pub(crate) fn read(
        source: &Source,
        file: usize,
        kind: Kind,
        findings: &mut Findings,
    ) -> Documents {
        let mut documents = Documents {
            list: Vec::new(),
            whole: false,
        };
        let before = findings.mark();
        let text = text::check(source, file, findings).map_err(|line| {
            let text = String::from_utf8_lossy(&source.text);
            if kind == Kind::Rules
                && let Some(key) = misplaced_settings::guess(&text, line, iter::empty(), file)
            {
                misplaced_settings::report(key, before, findings);
            }
        });
        let Ok(text) = text else {
            findings.reject_file(&source.name);
            return documents;
        };
        let mut builder = Builder::new(file, kind, findings);
        let Err(error) = builder.read(text, &mut documents.list) else {
            documents.whole = true;
            return documents;
        };
        // A text in the line of the error is a part of it.
        documents.list.pop_if(|document| {
            let root = &document.root;
            root.scalar().is_some() && root.mark.line == error.line
        });
        // The error may be before or after the name of its domain.
        let domains = text::domains_after(text, builder.document_line);
        let range = builder.findings.since(builder.range);
        let is_settings = kind == Kind::Rules && builder.reject_unfinished_settings(text);
        findings.mark_incomplete();
        if domains.is_empty() || is_settings {
            findings.reject_file(&source.name);
        }
        for domain in domains {
            if !is_settings {
                findings.belong(range, &domain);
            }
            findings.reject_domain(&domain);
        }
        documents
    }
}

// === impl Node ===

impl Node {
    /// The entries of a map, the items of a list: what kind of node this is, for messages.
    pub(crate) fn kind(&self) -> &'static str {
        match &self.body {
            Body::Scalar(scalar) => match scalar.looks() {
                Looks::Text => "text",
                Looks::Null => "nothing",
                Looks::Flag(_) => "a flag",
                Looks::Int | Looks::Float => "a number",
            },
            Body::List(_) => "a list",
            Body::Map(_) => "a map",
        }
    }

    /// The value of a map's key, or the item of a list with this number, from 0.
    pub(crate) fn child(&self, step: &str) -> Option<&Node> {
        match &self.body {
            Body::Scalar(_) => None,
            Body::List(items) => items.get(step.parse::<usize>().ok()?).map(|item| &**item),
            Body::Map(entries) => {
                let is_key = |key: &Node| key.scalar().is_some_and(|scalar| scalar.text == step);
                let mut values = entries.iter().filter(|(key, _)| is_key(key));
                values.next().map(|(_, value)| &**value)
            }
        }
    }

    /// The value at a path such as `entries[1].from`, or that of the innermost part of the path
    /// that is there; and whether all of it is.
    pub(crate) fn innermost(&self, path: &str) -> (&Node, bool) {
        let mut node = self;
        for step in path.split(['.', '[', ']']).filter(|step| !step.is_empty()) {
            let Some(child) = node.child(step) else {
                return (node, false);
            };
            node = child;
        }
        (node, true)
    }

    pub(crate) fn scalar(&self) -> Option<&Scalar> {
        match &self.body {
            Body::Scalar(scalar) => Some(scalar),
            _ => None,
        }
    }

    /// Where a key is used: itself, or the merge key that brought it into its map.
    pub(crate) fn use_mark(&self) -> Mark {
        let merged_at = self.scalar().and_then(|scalar| scalar.merged_at.as_deref());
        merged_at.copied().unwrap_or(self.mark)
    }

    /// Whether the value is empty, `null` or `~`.
    pub(crate) fn is_null(&self) -> bool {
        self.scalar()
            .is_some_and(|scalar| scalar.looks() == Looks::Null)
    }

    fn new(mark: Mark, body: Body) -> Node {
        let (size, depth) = match &body {
            Body::Scalar(scalar) => (1 + scalar.text.len() / TEXT_WEIGHT, 0),
            Body::List(items) => measure(items.iter()),
            Body::Map(entries) => measure(entries.iter().flat_map(|(key, value)| [key, value])),
        };
        Node {
            mark,
            body,
            size,
            depth,
        }
    }
}

fn measure<'n>(below: impl Iterator<Item = &'n Arc<Node>>) -> (usize, usize) {
    below.fold((1, 1), |(size, depth), node| {
        (size.saturating_add(node.size), depth.max(node.depth + 1))
    })
}

// === impl Scalar ===

impl Scalar {
    /// This key, as the merge key `at` brings it into a map.
    fn merge_at(&self, at: Mark) -> Scalar {
        Scalar {
            text: self.text.clone(),
            plain: self.plain,
            merged_at: Some(Box::new(at)),
        }
    }

    /// The type that the core schema of YAML 1.2 gives to this.
    pub(crate) fn looks(&self) -> Looks {
        if !self.plain {
            return Looks::Text;
        }
        Looks::of(&self.text)
    }
}

const _: () = assert!(FILE_BYTES_MAX < 1 << 31);
