//! Turns events of the YAML parser into nodes, within the budgets.

use std::collections::HashMap;
use std::sync::Arc;

use saphyr_parser::{Event, Parser, ScalarStyle, ScanError, Span, StrInput, Tag};

use crate::findings::{FindingRange, Findings, Mark, narrow};
use crate::misplaced_settings::{self, SettingsKey};

use super::{Body, DEPTH_MAX, Document, Kind, NODES_MAX, Node, Scalar, syntax, text};

mod entries;

/// Builds nodes from events.
pub(super) struct Builder<'f> {
    file: usize,
    kind: Kind,
    pub(super) findings: &'f mut Findings,
    open: Vec<Open>,
    anchors: HashMap<usize, Arc<Node>>,
    /// Nodes read, aliases expanded.
    nodes: usize,
    /// The line that the present document begins at.
    pub(super) document_line: u32,
    /// Where the findings of the current document begin.
    pub(super) range: FindingRange,
}

/// A list or map that has not ended.
struct Open {
    mark: Mark,
    anchor: usize,
    is_map: bool,
    /// Items, or keys and values in turn.
    items: Vec<Arc<Node>>,
}

/// The rest of the file cannot be read; the reason is reported.
pub(super) struct Unreadable {
    /// The line of the error.
    pub(super) line: u32,
}

// === impl Builder ===

impl<'f> Builder<'f> {
    pub(super) fn new(file: usize, kind: Kind, findings: &'f mut Findings) -> Builder<'f> {
        Builder {
            file,
            kind,
            range: findings.mark(),
            findings,
            open: Vec::new(),
            anchors: HashMap::new(),
            nodes: 0,
            document_line: 1,
        }
    }

    /// Reads all documents before the first syntax error. Settings are left out if rules follow
    /// them.
    pub(super) fn read(&mut self, text: &str, list: &mut Vec<Document>) -> Result<(), Unreadable> {
        let mut parser: Parser<'_, StrInput<'_>> = Parser::new_from_str(text);
        let mut first_settings = None;
        while let Some(event) = parser.next_event() {
            let (event, span) = event.map_err(|error| self.syntax(text, &error))?;
            let mark = self.mark(span);
            let Some(root) = self.event(event, mark)? else {
                continue;
            };
            match self.settings_key(&root) {
                // Whether rules follow is not known yet.
                Some(key) if list.is_empty() && first_settings.is_none() => {
                    self.findings.drop_since(self.range);
                    first_settings = Some((root, key));
                }
                Some(key) => list.push(self.reject_settings(root, key)),
                None => list.push(self.document(root)),
            }
            self.range = self.findings.mark();
            self.anchors.clear();
            self.document_line = mark.line;
        }
        if let Some((root, key)) = first_settings
            && list.iter().all(|document| document.root.is_null())
        {
            list.push(self.reject_settings(root, key));
        }
        Ok(())
    }

    fn document(&self, root: Arc<Node>) -> Document {
        Document {
            root,
            range: self.findings.since(self.range),
            is_settings: false,
        }
    }

    /// The key that shows that a document is settings, if rules are read.
    fn settings_key(&self, root: &Node) -> Option<SettingsKey> {
        let Body::Map(entries) = &root.body else {
            return None;
        };
        let keys = entries.iter().filter_map(|(key, _)| text_of(key));
        match self.kind {
            Kind::Rules => misplaced_settings::find(keys),
            Kind::Settings => None,
        }
    }

    /// A document that is settings in place of rules, which is all that is reported of it.
    fn reject_settings(&mut self, root: Arc<Node>, key: SettingsKey) -> Document {
        misplaced_settings::report(key, self.range, self.findings);
        Document {
            is_settings: true,
            ..self.document(root)
        }
    }

    /// The same for the document with the syntax error, as far as it was read.
    pub(super) fn reject_unfinished_settings(&mut self, text: &str) -> bool {
        let root = self.open.first().filter(|open| open.is_map);
        // Keys and values take turns.
        let keys = root.map_or(&[][..], |open| &open.items).iter().step_by(2);
        let keys = keys.filter_map(|key| text_of(key));
        let key = misplaced_settings::guess(text, self.document_line, keys, self.file);
        if let Some(key) = key {
            misplaced_settings::report(key, self.range, self.findings);
        }
        key.is_some()
    }

    /// Takes one event in; a document that ends with it is returned.
    fn event(&mut self, event: Event<'_>, mark: Mark) -> Result<Option<Arc<Node>>, Unreadable> {
        match event {
            Event::DocumentStart(_) => {
                self.document_line = mark.line;
                Ok(None)
            }
            Event::Scalar(text, style, anchor, tag) => {
                let scalar = self.scalar(&text, style, tag.as_deref(), mark);
                self.place(Node::new(mark, Body::Scalar(scalar)), anchor)
            }
            Event::SequenceStart(anchor, tag) => self.begin(false, anchor, tag.as_deref(), mark),
            Event::MappingStart(anchor, tag) => self.begin(true, anchor, tag.as_deref(), mark),
            Event::SequenceEnd | Event::MappingEnd => self.end(),
            Event::Alias(anchor) => self.alias(anchor, mark),
            _ => Ok(None),
        }
    }

    /// Begins a list or a map.
    fn begin(
        &mut self,
        is_map: bool,
        anchor: usize,
        tag: Option<&Tag>,
        mark: Mark,
    ) -> Result<Option<Arc<Node>>, Unreadable> {
        self.check_depth(1, mark)?;
        let expected = if is_map { "map" } else { "seq" };
        if let Some(tag) = tag
            && !(tag.is_yaml_core_schema() && tag.suffix == expected)
        {
            self.report_unknown_tag(tag, mark);
        }
        self.open.push(Open {
            mark,
            anchor,
            is_map,
            items: Vec::new(),
        });
        Ok(None)
    }

    fn end(&mut self) -> Result<Option<Arc<Node>>, Unreadable> {
        let Some(open) = self.open.pop() else {
            return Ok(None);
        };
        let body = if open.is_map {
            Body::Map(self.entries(open.items)?)
        } else {
            Body::List(open.items)
        };
        self.place(Node::new(open.mark, body), open.anchor)
    }

    fn place(&mut self, node: Node, anchor: usize) -> Result<Option<Arc<Node>>, Unreadable> {
        // What is inside is counted already.
        let own = match &node.body {
            Body::Scalar(_) => node.size,
            Body::List(_) | Body::Map(_) => 1,
        };
        self.count(own, node.mark)?;
        let node = Arc::new(node);
        if anchor != 0 {
            self.anchors.insert(anchor, Arc::clone(&node));
        }
        Ok(self.attach(node))
    }

    fn attach(&mut self, node: Arc<Node>) -> Option<Arc<Node>> {
        match self.open.last_mut() {
            Some(open) => {
                open.items.push(node);
                None
            }
            None => Some(node),
        }
    }

    fn alias(&mut self, anchor: usize, mark: Mark) -> Result<Option<Arc<Node>>, Unreadable> {
        let Some(node) = self.anchors.get(&anchor).cloned() else {
            let message = "an alias is inside its own anchor".to_owned();
            let help = "a value cannot contain itself: write it out";
            return Err(self.stop(mark, "alias-of-itself", message, help));
        };
        self.check_depth(node.depth, mark)?;
        self.count(node.size, mark)?;
        Ok(self.attach(node))
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, tag: Option<&Tag>, mark: Mark) -> Scalar {
        let mut plain = style == ScalarStyle::Plain;
        match tag {
            None => {}
            Some(tag) if tag.is_yaml_core_schema() => match tag.suffix.as_str() {
                "str" => plain = false,
                "int" | "bool" | "float" | "null" => plain = true,
                _ => self.report_unknown_tag(tag, mark),
            },
            Some(tag) if tag.handle.is_empty() && tag.suffix == "!" => plain = false,
            Some(tag) => self.report_unknown_tag(tag, mark),
        }
        Scalar {
            text: text.to_owned(),
            plain,
            merged_at: None,
        }
    }

    fn report_unknown_tag(&mut self, tag: &Tag, mark: Mark) {
        let shown = self.findings.quote(&tag.to_string());
        let message = format!("the tag {shown} has no meaning here");
        let help = "leave it out; text that begins with `!` or looks like a number goes in quotes";
        self.findings.error(mark, "tag", message, help);
    }

    fn check_depth(&mut self, more: usize, mark: Mark) -> Result<(), Unreadable> {
        if self.open.len() + more <= DEPTH_MAX {
            return Ok(());
        }
        Err(self.too_deep(mark))
    }

    fn count(&mut self, more: usize, mark: Mark) -> Result<(), Unreadable> {
        self.nodes = self.nodes.saturating_add(more);
        if self.nodes <= NODES_MAX {
            return Ok(());
        }
        let message = format!("the file has more than {NODES_MAX} values, aliases counted in full");
        let help = "use fewer aliases, or several files";
        Err(self.stop(mark, "too-many-values", message, help))
    }

    /// Reports a syntax error with a hint at its cause.
    fn syntax(&mut self, text: &str, error: &ScanError) -> Unreadable {
        let marker = error.marker();
        let end = Span::new(*marker, *marker);
        let mark = self.mark(end);
        // At the end of a text without a last line break the parser counts one line too many.
        let last = text::end_of(text.as_bytes(), self.file);
        let mark = if mark.line > last.line { last } else { mark };
        let info = error.info();
        if info.contains("recursion limit") {
            return self.too_deep(mark);
        }
        if let Some(cause) = syntax::find(text, mark, info, self.findings) {
            return self.stop(cause.mark, cause.code, cause.message, &cause.help);
        }
        let message = format!("this is not YAML: {info}");
        let help = match self.open.last() {
            Some(open) if text::is_bracket(text, open.mark) => format!(
                "the `{}` in line {}, column {} is not closed, or is the first character of a \
                 text that needs quotes",
                if open.is_map { '{' } else { '[' },
                open.mark.line,
                open.mark.column
            ),
            Some(open) => format!(
                "it is inside the {} that begins in line {}, column {}: \
                 is it closed, and each line indented alike?",
                if open.is_map { "map" } else { "list" },
                open.mark.line,
                open.mark.column
            ),
            None => "is a quote or bracket not closed, or a line indented wrongly?".to_owned(),
        };
        self.stop(mark, "syntax", message, &help)
    }

    fn too_deep(&mut self, mark: Mark) -> Unreadable {
        let message = format!("lists and maps are nested more than {DEPTH_MAX} deep");
        let help = "descriptors need two levels each: use fewer levels";
        self.stop(mark, "too-deep", message, help)
    }

    fn stop(&mut self, mark: Mark, code: &'static str, message: String, help: &str) -> Unreadable {
        self.findings.error(mark, code, message, help);
        Unreadable { line: mark.line }
    }

    fn mark(&self, span: Span) -> Mark {
        let same_line = span.start.line() == span.end.line();
        let length = if same_line { span.len() } else { 1 };
        Mark {
            file: self.file,
            line: narrow(span.start.line()),
            column: narrow(span.start.col() + 1),
            length: narrow(length),
        }
    }
}

/// The text of a key, and where it is.
fn text_of(key: &Node) -> Option<(&str, Mark)> {
    Some((&key.scalar()?.text, key.mark))
}
