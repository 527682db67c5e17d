//! A crate's modules: their files, their items, and the paths that they name.
//!
//! Only what the program itself is made of: items for tests and for the model checker are left out.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{Expr, Item, ItemMod, Meta, Token, UseTree};

use crate::function::is_for_tests;
use crate::source::{Source, root};

/// A path as written, in its segments: `crate`, `limit`, `Limit`.
pub(crate) type Segments = Vec<String>;

/// A module; several may share a file.
#[derive(Default)]
pub(crate) struct Module {
    /// An index into [`Modules::files`].
    pub(crate) file: usize,
    pub(crate) parent: Option<usize>,
    /// Several for one name if the platform chooses.
    pub(crate) children: BTreeMap<String, Vec<usize>>,
    /// The names of what is defined here.
    pub(crate) items: BTreeSet<String>,
    pub(crate) imports: Vec<Import>,
    /// The paths named in code, imports aside.
    pub(crate) paths: Vec<Segments>,
}

/// One name of a `use` declaration.
pub(crate) struct Import {
    pub(crate) path: Segments,
    /// `None` for `*`.
    pub(crate) name: Option<String>,
}

/// All modules of a crate.
#[derive(Default)]
pub(crate) struct Modules {
    /// Roots of their own: `lib.rs` and `main.rs`.
    pub(crate) modules: Vec<Module>,
    pub(crate) files: Vec<Source>,
}

// === impl Modules ===

impl Modules {
    /// The modules of the crate in this folder, relative to the project's root.
    pub(crate) fn read(crate_folder: &str) -> Modules {
        let mut modules = Modules::default();
        let source_folder = root().join(crate_folder).join("src");
        for name in ["lib.rs", "main.rs"] {
            let file = source_folder.join(name);
            if file.is_file() {
                modules.read_file(&file, &source_folder, None);
            }
        }
        modules
    }

    /// Reads a file and the modules below it; `folder` is where those lie.
    fn read_file(&mut self, file: &Path, folder: &Path, parent: Option<usize>) -> usize {
        let source = Source::read(file);
        let syntax = source.syntax();
        let known = self.files.iter().position(|file| file.path == source.path);
        let index = known.unwrap_or(self.files.len());
        if known.is_none() {
            self.files.push(source);
        }
        let module = self.add(index, parent);
        let mut reader = Reader {
            modules: self,
            module,
            folder: folder.to_owned(),
            file: file.to_owned(),
        };
        reader.visit_file(&syntax);
        module
    }

    fn add(&mut self, file: usize, parent: Option<usize>) -> usize {
        self.modules.push(Module {
            file,
            parent,
            ..Module::default()
        });
        self.modules.len() - 1
    }
}

/// Walks one file's syntax.
struct Reader<'a> {
    modules: &'a mut Modules,
    /// The module that the walk is in.
    module: usize,
    /// Where the files of its children lie.
    folder: PathBuf,
    file: PathBuf,
}

// === impl Reader ===

impl Reader<'_> {
    fn here(&mut self) -> &mut Module {
        &mut self.modules.modules[self.module]
    }

    /// The file of a module that is declared here without a body.
    fn find_file(&self, module: &ItemMod) -> PathBuf {
        let named = module.attrs.iter().find_map(|attribute| {
            let Meta::NameValue(pair) = &attribute.meta else {
                return None;
            };
            match &pair.value {
                Expr::Lit(value) if pair.path.is_ident("path") => match &value.lit {
                    syn::Lit::Str(path) => Some(path.value()),
                    _ => None,
                },
                _ => None,
            }
        });
        match named {
            Some(path) => self.file.with_file_name(path),
            None => self.folder.join(format!("{}.rs", module.ident)),
        }
    }

    fn import(&mut self, prefix: &[String], tree: &UseTree) {
        let extended = |name: &syn::Ident| [prefix, &[name.to_string()]].concat();
        let (path, name) = match tree {
            UseTree::Path(path) => return self.import(&extended(&path.ident), &path.tree),
            UseTree::Group(group) => {
                for tree in &group.items {
                    self.import(prefix, tree);
                }
                return;
            }
            UseTree::Name(name) if name.ident == "self" => {
                (prefix.to_vec(), prefix.last().cloned())
            }
            UseTree::Name(name) => (extended(&name.ident), Some(name.ident.to_string())),
            UseTree::Rename(rename) => (extended(&rename.ident), Some(rename.rename.to_string())),
            UseTree::Glob(_) => (prefix.to_vec(), None),
        };
        self.here().imports.push(Import { path, name });
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        let (attributes, name) = match item {
            Item::Const(item) => (&item.attrs, Some(&item.ident)),
            Item::Enum(item) => (&item.attrs, Some(&item.ident)),
            Item::Fn(item) => (&item.attrs, Some(&item.sig.ident)),
            Item::Macro(item) => (&item.attrs, item.ident.as_ref()),
            Item::Static(item) => (&item.attrs, Some(&item.ident)),
            Item::Struct(item) => (&item.attrs, Some(&item.ident)),
            Item::Trait(item) => (&item.attrs, Some(&item.ident)),
            Item::Type(item) => (&item.attrs, Some(&item.ident)),
            Item::Union(item) => (&item.attrs, Some(&item.ident)),
            Item::Impl(item) => (&item.attrs, None),
            Item::Mod(item) => (&item.attrs, None),
            Item::Use(item) => (&item.attrs, None),
            _ => return visit::visit_item(self, item),
        };
        if is_for_tests(attributes) {
            return;
        }
        if let Some(name) = name {
            let name = name.to_string();
            self.here().items.insert(name);
        }
        visit::visit_item(self, item);
    }

    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        let (outer, name) = (self.module, module.ident.to_string());
        let child = if let Some((_, items)) = &module.content {
            let file = self.here().file;
            let child = self.modules.add(file, Some(outer));
            let inner = self.folder.join(&name);
            let outer_folder = std::mem::replace(&mut self.folder, inner);
            self.module = child;
            items.iter().for_each(|item| self.visit_item(item));
            (self.module, self.folder) = (outer, outer_folder);
            child
        } else {
            let file = self.find_file(module);
            if !file.is_file() {
                // Generated by a build script.
                return;
            }
            let below = file.with_extension("");
            self.modules.read_file(&file, &below, Some(outer))
        };
        self.here().children.entry(name).or_default().push(child);
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.import(&[], &item.tree);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !is_for_tests(&function.attrs) {
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.segments.len() > 1 {
            let segments = path.segments.iter();
            let segments = segments.map(|segment| segment.ident.to_string()).collect();
            self.here().paths.push(segments);
        }
        visit::visit_path(self, path);
    }

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {}

    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}

    /// Arguments that are expressions, as those of `assert!` and `format!`.
    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        let arguments = call.parse_body_with(Punctuated::<Expr, Token![,]>::parse_terminated);
        if let Ok(arguments) = arguments {
            for argument in &arguments {
                // Borrowed from what lives no longer than this call, so it is walked apart.
                Reader {
                    modules: self.modules,
                    module: self.module,
                    folder: self.folder.clone(),
                    file: self.file.clone(),
                }
                .visit_expr(argument);
            }
        }
    }
}
