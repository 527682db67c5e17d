//! Files and directories.

use std::fs;
use std::path::PathBuf;

use tollgate_rules::{Options, ReadError, RuleSet, Source, read_paths, warn_of_unread};

/// A directory of this test's own, removed at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let unique = format!("tollgate-rules-{}-{name}", std::process::id());
        let path = std::env::temp_dir().join(unique);
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn names(sources: &[Source]) -> Vec<String> {
    let names = sources.iter().map(|source| {
        let name = source.name.rsplit('/').next();
        name.unwrap_or_default().to_owned()
    });
    names.collect()
}

#[test]
fn a_directory_gives_its_yaml_files_sorted() {
    let folder = Folder::new("sorted");
    for name in [
        "b.yaml",
        "a.yml",
        "c.yaml",
        "D.YAML",
        "e.Yml",
        "f.yaml.bak",
        "readme.md",
        ".hidden.yaml",
        "sub/d.yaml",
    ] {
        folder.write(name, "domain: a");
    }
    let sources = read_paths(std::slice::from_ref(&folder.0)).unwrap();
    assert_eq!(
        names(&sources),
        ["D.YAML", "a.yml", "b.yaml", "c.yaml", "e.Yml"]
    );
}

#[test]
fn a_config_map_counts_each_file_once() {
    let folder = Folder::new("config-map");
    folder.write("..2026_11_21/rules.yaml", "domain: a");
    std::os::unix::fs::symlink("..2026_11_21", folder.0.join("..data")).unwrap();
    std::os::unix::fs::symlink("..data/rules.yaml", folder.0.join("rules.yaml")).unwrap();
    let sources = read_paths(std::slice::from_ref(&folder.0)).unwrap();
    assert_eq!(names(&sources), ["rules.yaml"]);
    assert_eq!(sources[0].text, b"domain: a");
}

/// Envoy's service reads every file below its directory.
#[test]
fn rules_in_a_directory_that_are_not_read_are_warned_of() {
    let folder = Folder::new("not-read");
    let rules = "# ours\ndomain: a\ndescriptors: []\n";
    for name in ["a.yaml", "b.YML", "noext", "e.txt", "team/deep/x.yaml"] {
        folder.write(name, rules);
    }
    // Copies, hidden files, and what has no rules.
    for name in ["a.yaml.bak", "a.yaml~", ".git/a.yaml", "..data/a.yaml"] {
        folder.write(name, rules);
    }
    folder.write("readme.md", "Our rules, one `domain: a` each.");
    folder.write("scripts/deploy.sh", "exit");
    let warnings = warn_of_unread(std::slice::from_ref(&folder.0));
    let files = warnings.iter().map(|warning| {
        let path = warning.file.rsplit('/').next().unwrap_or_default();
        (path, warning.code, warning.is_error())
    });
    assert_eq!(
        files.collect::<Vec<_>>(),
        ["e.txt", "noext", "team"].map(|name| (name, "not-read", false))
    );
    folder.write("old/a.yaml.bak", rules);
    let named = ["", "e.txt", "noext", "team/deep"].map(|name| folder.0.join(name));
    assert_eq!(warn_of_unread(&named), [], "all of these are read");
}

#[test]
fn a_link_in_a_directory_that_leads_nowhere_is_an_error() {
    let folder = Folder::new("dangling");
    folder.write("a.yaml", "domain: a");
    std::os::unix::fs::symlink("gone.yaml", folder.0.join("b.yaml")).unwrap();
    let error = read_paths(std::slice::from_ref(&folder.0)).unwrap_err();
    assert!(error.to_string().ends_with("b.yaml"), "{error}");
    // Other files are ignored.
    fs::remove_file(folder.0.join("b.yaml")).unwrap();
    for name in ["b.txt", ".b.yaml"] {
        std::os::unix::fs::symlink("gone.yaml", folder.0.join(name)).unwrap();
    }
    let sources = read_paths(std::slice::from_ref(&folder.0)).unwrap();
    assert_eq!(names(&sources), ["a.yaml"]);
}

#[test]
fn a_link_in_a_directory_to_what_is_no_file_is_an_error() {
    let folder = Folder::new("link-to-no-file");
    folder.write("a.yaml", "domain: a");
    folder.write("more/c.yaml", "domain: c");
    // A plain directory is ignored, whatever its name.
    folder.write("plain.yaml/d.yaml", "domain: d");
    let read = || read_paths(std::slice::from_ref(&folder.0));
    assert_eq!(names(&read().unwrap()), ["a.yaml"]);
    let link = folder.0.join("b.yaml");
    for (target, why) in [("more", "a directory"), ("/dev/null", "a regular file")] {
        std::os::unix::fs::symlink(target, &link).unwrap();
        let error = read().unwrap_err();
        assert!(error.to_string().ends_with("b.yaml"), "{error}");
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert!(source.contains(why), "{source}");
        fs::remove_file(&link).unwrap();
    }
}

#[test]
fn what_cannot_be_read_is_named() {
    let folder = Folder::new("unreadable");
    let empty = read_paths(std::slice::from_ref(&folder.0));
    assert!(matches!(empty, Err(ReadError::NoFiles { .. })));
    let missing = read_paths(&[folder.0.join("missing.yaml")]).unwrap_err();
    assert!(missing.to_string().ends_with("missing.yaml"));
    assert!(std::error::Error::source(&missing).is_some());
}

#[test]
fn a_byte_order_mark_and_carriage_returns_are_no_error() {
    let text = "\u{feff}domain: a\r\ndescriptors:\r\n  - key: b\r\n    rate_limit: 1/s\r\n";
    let loaded = RuleSet::parse(&[Source::new("a.yaml", text)], &Options::default());
    assert!(loaded.diagnostics.is_empty());
    assert_eq!(loaded.rules.rules().count(), 1);
}

#[test]
fn one_file_holds_several_domains() {
    let text = "---\ndomain: a\n---\ndomain: b\n---\n";
    let loaded = RuleSet::parse(&[Source::new("a.yaml", text)], &Options::default());
    assert!(loaded.diagnostics.is_empty());
    assert_eq!(loaded.rules.domains().collect::<Vec<_>>(), ["a", "b"]);
}

#[test]
fn a_error_in_one_domain_leaves_the_others() {
    let sources = [
        Source::new("a.yaml", "domain: a\ncolour: red\n---\ndomain: b\n"),
        Source::new("c.yaml", "domain: c\n---\ndomain: d\n\tx"),
        Source::new("e.yaml", "domain: e\na: 1\na: 2\n"),
        Source::new("f.yaml", "domain: f\n"),
    ];
    let loaded = RuleSet::parse(&sources, &Options::default());
    assert_eq!(loaded.rules.domains().collect::<Vec<_>>(), ["b", "c", "f"]);
    let domains: Vec<_> = loaded
        .diagnostics
        .iter()
        .map(|d| d.domain.as_deref())
        .collect();
    assert_eq!(domains[0], Some("a"));
    assert!(domains.contains(&Some("d")) && domains.contains(&Some("e")));
}

#[test]
fn domains_are_merged_if_that_is_asked_for() {
    let sources = [
        Source::new(
            "a.yaml",
            "domain: a\ndescriptors: [{key: b, rate_limit: 1/s}]\n",
        ),
        Source::new(
            "b.yaml",
            "domain: a\ndescriptors: [{key: c, rate_limit: 1/s}]\n",
        ),
    ];
    let apart = RuleSet::parse(&sources, &Options::default());
    assert!(apart.has_errors() && apart.rules.is_empty());
    let merging = Options {
        merge_domains: true,
        ..Options::default()
    };
    let merged = RuleSet::parse(&sources, &merging);
    assert!(merged.diagnostics.is_empty());
    assert_eq!(merged.rules.rules().count(), 2);

    let twice = RuleSet::parse(&[sources[0].clone(), sources[0].clone()], &merging);
    assert_eq!(twice.diagnostics[0].code, "duplicate-descriptor");
}

/// A duplicate that every later document reported again took the places of other errors.
#[test]
fn each_error_of_a_merged_domain_is_reported_once() {
    let item = |key: &str| format!("  - {{key: {key}, rate_limit: 1/s}}\n");
    let file = |name: &str, items: &str| {
        let text = format!("domain: a\ndescriptors:\n{items}");
        Source::new(format!("{name}.yaml"), text)
    };
    let mut sources = vec![file("first", &[item("twice"), item("twice")].concat())];
    let clean = (0..1200).map(|number| format!("clean_{number}"));
    sources.extend(clean.map(|name| file(&name, &item(&name))));
    sources.push(file("last", "  - {key: other, rate_limit: 1/fortnight}\n"));
    let merging = Options {
        merge_domains: true,
        ..Options::default()
    };
    let loaded = RuleSet::parse(&sources, &merging);
    let found = loaded.diagnostics.iter();
    let found: Vec<_> = found.map(|one| (one.code, &*one.file, one.line)).collect();
    let expected = [
        ("duplicate-descriptor", "first.yaml", 4),
        ("short-form", "last.yaml", 3),
    ];
    assert_eq!(found, expected);
}

#[test]
fn a_descriptor_of_several_documents_is_reported_where_it_is_repeated() {
    let text = |keys: &[&str]| {
        let items = keys.iter();
        let items: Vec<String> = items.map(|key| format!("{{key: {key}}}")).collect();
        format!("domain: a\ndescriptors: [{}]\n", items.join(", "))
    };
    let sources = [
        Source::new("1.yaml", text(&["a", "b"])),
        Source::new("2.yaml", text(&["c", "a", "a"])),
        Source::new("3.yaml", text(&["c", "d"])),
    ];
    let merging = Options {
        merge_domains: true,
        ..Options::default()
    };
    let loaded = RuleSet::parse(&sources, &merging);
    let errors = loaded.diagnostics.iter().filter(|found| found.is_error());
    let errors: Vec<_> = errors
        .map(|error| (&*error.file, error.message.rsplit("; ").next().unwrap()))
        .collect();
    let expected = [
        ("2.yaml", "the first is at 1.yaml:2"),
        ("2.yaml", "the first is at 1.yaml:2"),
        ("3.yaml", "the first is at 2.yaml:2"),
    ];
    assert_eq!(errors, expected);
}

#[test]
fn anchors_aliases_and_merge_keys_are_understood() {
    let text = "
domain: a
descriptors:
  - key: b
    rate_limit: &limit
      unit: minute
      requests_per_unit: 7
  - key: c
    rate_limit: *limit
  - key: d
    rate_limit:
      <<: *limit
      requests_per_unit: 9
";
    let loaded = RuleSet::parse(&[Source::new("a.yaml", text)], &Options::default());
    assert!(loaded.diagnostics.is_empty());
    let limits = loaded.rules.rules().map(|rule| rule.text);
    let expected = [
        "7 per 1m fixed_window",
        "7 per 1m fixed_window",
        "9 per 1m fixed_window",
    ];
    assert_eq!(limits.collect::<Vec<_>>(), expected);
}
