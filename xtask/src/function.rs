//! The functions of a source file: where they begin, how long they are, which are documented.

use proc_macro2::Span;
use syn::visit::{self, Visit};
use syn::{Attribute, Block, ImplItemFn, ItemFn, ItemImpl, ItemMod, Signature, TraitItemFn};

use crate::source::Source;

/// A function with a body.
pub struct Function {
    /// Without its type.
    pub name: String,
    /// The line of its `fn`.
    pub line: usize,
    /// From `fn` to the closing brace.
    pub lines: usize,
    /// Whether it has a doc comment, or implements a trait, which has one for it.
    pub is_documented: bool,
    /// Whether it is compiled for tests alone.
    pub is_test: bool,
    /// Whether it implements a trait, which gives it its name.
    pub is_of_trait: bool,
}

/// The functions of a file, in its order.
#[must_use]
pub fn functions(source: &Source) -> Vec<Function> {
    let mut finder = Finder {
        functions: Vec::new(),
        in_test: source.is_test(),
        in_trait_impl: false,
    };
    finder.visit_file(&source.syntax());
    finder.functions
}

/// Whether an attribute restricts its item to tests: `#[test]`, `#[tokio::test]`, `#[cfg(test)]`.
#[must_use]
pub fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let last = attribute.path().segments.last();
        match last.map(|segment| segment.ident.to_string()).as_deref() {
            Some("test") => true,
            Some("cfg") => {
                let tokens = attribute.meta.require_list().map(|list| &list.tokens);
                let condition = tokens.map_or_else(|_| String::new(), ToString::to_string);
                condition
                    .split(|letter: char| !letter.is_alphanumeric())
                    .any(|word| word == "test" || word == "loom")
                    && !condition.contains("not")
            }
            _ => false,
        }
    })
}

struct Finder {
    functions: Vec<Function>,
    in_test: bool,
    in_trait_impl: bool,
}

// === impl Finder ===

impl Finder {
    fn add(&mut self, attributes: &[Attribute], signature: &Signature, block: &Block) {
        let line = line(signature.fn_token.span);
        let has_doc = attributes
            .iter()
            .any(|attribute| attribute.path().is_ident("doc"));
        self.functions.push(Function {
            name: signature.ident.to_string(),
            line,
            lines: block.brace_token.span.close().end().line + 1 - line,
            is_documented: has_doc || self.in_trait_impl,
            is_test: self.in_test || is_for_tests(attributes),
            is_of_trait: self.in_trait_impl,
        });
    }
}

fn line(span: Span) -> usize {
    span.start().line
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        let outer = self.in_test;
        self.in_test |= is_for_tests(&module.attrs);
        visit::visit_item_mod(self, module);
        self.in_test = outer;
    }

    fn visit_item_impl(&mut self, block: &'ast ItemImpl) {
        let (outer, outer_test) = (self.in_trait_impl, self.in_test);
        self.in_trait_impl = block.trait_.is_some();
        self.in_test |= is_for_tests(&block.attrs);
        visit::visit_item_impl(self, block);
        (self.in_trait_impl, self.in_test) = (outer, outer_test);
    }

    fn visit_item_fn(&mut self, function: &'ast ItemFn) {
        let outer = std::mem::take(&mut self.in_trait_impl);
        self.add(&function.attrs, &function.sig, &function.block);
        visit::visit_item_fn(self, function);
        self.in_trait_impl = outer;
    }

    fn visit_impl_item_fn(&mut self, function: &'ast ImplItemFn) {
        self.add(&function.attrs, &function.sig, &function.block);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast TraitItemFn) {
        if let Some(block) = &function.default {
            self.add(&function.attrs, &function.sig, block);
        }
        visit::visit_trait_item_fn(self, function);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_with_their_lengths_and_documentation() {
        let text = "fn one() {}\n/// Two.\npub const fn two(\n    a: u8,\n) -> u8 {\n    a\n}\n\n\
                    impl X {\n    async fn four() {\n        if a {\n        }\n    }\n}\n\
                    #[cfg(test)]\nmod tests {\n    fn five() {\n    }\n}\n";
        let source = Source {
            path: "crates/core/src/x.rs".into(),
            text: text.into(),
        };
        let found = functions(&source);
        let found: Vec<_> = found
            .iter()
            .map(|function| {
                (
                    function.name.as_str(),
                    function.line,
                    function.lines,
                    function.is_documented,
                    function.is_test,
                )
            })
            .collect();
        assert_eq!(
            found,
            [
                ("one", 1, 1, false, false),
                ("two", 3, 5, true, false),
                ("four", 10, 4, false, false),
                ("five", 17, 2, false, true),
            ]
        );
    }
}
