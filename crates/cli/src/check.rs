//! `tollgate check`.

use std::io::{self, Read, Write, stdin, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ArgGroup;
use tollgate_rules::{
    Diagnostic, FILE_BYTES_MAX, Options, ReadError, RuleSet, SettingPlaces, Source, escape,
    read_paths, rule_files, warn_of_unread,
};
use tollgate_server::ConfigError;

use crate::message::{Reason, pluralize, print_error, with_causes};
use crate::output::{Output, written};
use crate::printable::json_lines;
use crate::replay::failure::is_standard;
use crate::same_file;
use crate::settings::{Hint, Service, Unread};

/// Check rules files, and report every error and warning.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
#[command(group = ArgGroup::new("checked").required(true).args(["paths", "config"]))]
pub(crate) struct Args {
    /// Rules files, and directories of `*.yaml` and `*.yml` files; `-` is standard input.
    #[arg(value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// Check this settings file and the rules that it names, and whether its stores can keep every
    /// limit.
    #[arg(long, value_name = "PATH", conflicts_with = "merge_domains")]
    config: Option<PathBuf>,
    /// Report format.
    #[arg(long, value_enum, default_value_t = Output::Human, alias = "format")]
    output: Output,
    /// Another name of `--output json`.
    #[arg(long, hide = true, conflicts_with = "output")]
    json: bool,
    /// Exit with 1 if there are warnings, too: for a check before a deployment.
    #[arg(long)]
    deny_warnings: bool,
    /// Allow several documents to add descriptors to one domain.
    #[arg(long)]
    merge_domains: bool,
}

const AFTER_HELP: &str = "\
Exit status: 0 if there are no errors, even if there are warnings; 1 if there are errors, or \
warnings with --deny-warnings; 2 if the command line is wrong, the settings or a rules file cannot \
be read, or standard output cannot be written.";

/// The outcome of a check.
struct Checked {
    diagnostics: Vec<Diagnostic>,
    hints: Vec<Hint>,
    /// How many rules files there are; `None` if the settings are too wrong to tell.
    files: Option<usize>,
    /// Why some paths cannot be read.
    unreadable: Vec<String>,
    /// The rules of the domains without errors.
    rules: RuleSet,
}

/// Exits with 0 if there is no error, with 1 if there is one, or a warning that is denied, with 2
/// if a file cannot be read or standard output cannot be written.
pub(crate) fn run(args: &Args) -> ExitCode {
    let output = args.output.or_json(args.json);
    let checked = match &args.config {
        Some(config) => Checked::service(config).map_err(|unread| {
            let nothing = Checked::of_unread(&unread);
            (unread.reason(), nothing)
        }),
        None => Checked::rules(&args.paths, args.merge_domains).map_err(|why| {
            let nothing = Checked::of_nothing(why.text(), Vec::new());
            (why, nothing)
        }),
    };
    let checked = match checked {
        Ok(checked) => checked,
        Err((why, nothing)) => {
            if let Output::Json = output
                && let Err(message) = written(nothing.print_json())
            {
                print_error(&message);
            }
            why.print();
            return ExitCode::from(2);
        }
    };
    let printed = match output {
        // The errors say it all.
        Output::Human if checked.files == Some(0) => Ok(()),
        Output::Human => checked.print(),
        Output::Json => checked.print_json(),
    };
    match written(printed) {
        Err(message) => {
            print_error(&message);
            ExitCode::from(2)
        }
        Ok(()) if !checked.unreadable.is_empty() => {
            checked.unreadable.iter().for_each(|why| print_error(why));
            ExitCode::from(2)
        }
        Ok(()) if checked.errors() > 0 => ExitCode::FAILURE,
        Ok(()) if args.deny_warnings && checked.warnings() > 0 => ExitCode::FAILURE,
        Ok(()) => ExitCode::SUCCESS,
    }
}

/// The files of these paths, and why some paths cannot be read: the others are checked anyway.
fn read_all(paths: &[PathBuf]) -> Result<(Vec<Source>, Vec<String>), Reason> {
    // A link in a directory to a file beside it is for the rules to report.
    let files = paths.iter().flat_map(|path| {
        let files = rule_files(path).unwrap_or_else(|_| vec![path.clone()]);
        same_file::distinct(files)
    });
    let files: Vec<PathBuf> = files.collect();
    same_file::check(&files, "all of its rules would be duplicates").map_err(Reason::Message)?;
    let (standard, paths): (Vec<PathBuf>, Vec<PathBuf>) =
        paths.iter().cloned().partition(|path| is_standard(path));
    let mut sources = Vec::new();
    if !standard.is_empty() {
        sources.push(read_standard()?);
    }
    match read_paths(&paths) {
        Ok(read) => return Ok(([sources, read].concat(), Vec::new())),
        Err(ReadError::Io { .. } | ReadError::NoFiles { .. }) => {}
        Err(error) => return Err(Reason::Message(with_causes(&error))),
    }
    let mut unreadable = Vec::new();
    for path in &paths {
        match read_paths(std::slice::from_ref(path)) {
            Ok(read) => sources.extend(read),
            Err(error) => unreadable.push(with_causes(&error)),
        }
    }
    Ok((sources, unreadable))
}

/// The rules in standard input; the parser rejects what is longer than a file may be.
fn read_standard() -> Result<Source, Reason> {
    let most = u64::try_from(FILE_BYTES_MAX).unwrap_or(u64::MAX);
    let mut text = Vec::new();
    match stdin().lock().take(most + 1).read_to_end(&mut text) {
        Ok(_) => Ok(Source::new("-", text)),
        Err(error) => Err(Reason::Message(format!(
            "cannot read standard input: {error}"
        ))),
    }
}

/// A hint for each file that begins with settings: rules may follow them, and are all that is
/// checked. Where no rules follow, there is an error already.
fn unchecked_settings(sources: &[Source], diagnostics: &[Diagnostic]) -> Vec<Hint> {
    let is_reported = |name: &str| {
        let mut found = diagnostics.iter();
        found.any(|found| found.code == "not-rules" && found.file == name)
    };
    let has_documents = |source: &&Source| source.text.windows(3).any(|text| text == b"---");
    let sources = sources.iter().filter(has_documents);
    let skipped = sources
        .filter(|source| !is_reported(&source.name) && SettingPlaces::new(source).are_settings());
    let hints = skipped.map(|source| Hint {
        file: source.name.as_str().into(),
        line: 1,
        message: format!(
            "the settings in this file are not checked: `tollgate check --config {}` checks them, \
             and the rules",
            source.name
        ),
    });
    hints.collect()
}

// === impl Checked ===

impl Checked {
    /// Checks rules alone, without regard to a store.
    fn rules(paths: &[PathBuf], merge_domains: bool) -> Result<Checked, Reason> {
        let (sources, unreadable) = read_all(paths)?;
        let options = Options {
            merge_domains,
            ..Options::default()
        };
        let loaded = RuleSet::parse(&sources, &options);
        Ok(Checked {
            hints: unchecked_settings(&sources, &loaded.diagnostics),
            diagnostics: [warn_of_unread(paths), loaded.diagnostics].concat(),
            files: Some(sources.len()),
            unreadable,
            rules: loaded.rules,
        })
    }

    /// Checks settings, and the rules that they name.
    fn service(config: &Path) -> Result<Checked, Unread> {
        match Service::read(config) {
            Ok(service) => Ok(Checked {
                hints: service.hints(),
                files: Some(service.sources.len()),
                unreadable: Vec::new(),
                diagnostics: [
                    service.warnings(),
                    warn_of_unread(&service.config.rules),
                    service.loaded.diagnostics,
                ]
                .concat(),
                rules: service.loaded.rules,
            }),
            Err(Unread::Settings(ConfigError::Invalid(diagnostics))) => Ok(Checked {
                diagnostics,
                hints: Vec::new(),
                files: None,
                unreadable: Vec::new(),
                rules: RuleSet::default(),
            }),
            Err(unread) => Err(unread),
        }
    }

    /// What a program reads if nothing was checked, because something cannot be read.
    fn of_nothing(why: &str, diagnostics: Vec<Diagnostic>) -> Checked {
        Checked {
            diagnostics,
            hints: Vec::new(),
            files: None,
            unreadable: vec![why.to_owned()],
            rules: RuleSet::default(),
        }
    }

    fn of_unread(unread: &Unread) -> Checked {
        match unread {
            Unread::Rules(error, found) => Checked::of_nothing(&with_causes(error), found.clone()),
            Unread::Settings(_) => Checked::of_nothing(unread.reason().text(), Vec::new()),
        }
    }

    fn errors(&self) -> usize {
        let errors = self.diagnostics.iter().filter(|found| found.is_error());
        errors.count()
    }

    fn warnings(&self) -> usize {
        self.diagnostics.len() - self.errors()
    }

    /// Prints diagnostics and hints, and then a summary line with their numbers.
    fn print(&self) -> io::Result<()> {
        let mut out = stdout().lock();
        for diagnostic in &self.diagnostics {
            writeln!(out, "{diagnostic}")?;
        }
        for hint in &self.hints {
            let Hint {
                file,
                line,
                message,
            } = hint;
            let text = format!("{file}:{line}: {message}");
            writeln!(out, "hint: {}", escape(&text))?;
        }
        let blank = if self.hints.is_empty() { "" } else { "\n" };
        let mut found = format!(
            "{}, {}",
            pluralize(self.errors(), "error"),
            pluralize(self.warnings(), "warning")
        );
        if !self.hints.is_empty() {
            found += &format!(", {}", pluralize(self.hints.len(), "hint"));
        }
        let Some(files) = self.files else {
            return writeln!(out, "the settings, not the rules that they name: {found}");
        };
        writeln!(
            out,
            "{blank}{}, {} with {}: {found}",
            pluralize(files, "file"),
            pluralize(self.rules.domains().count(), "valid domain"),
            pluralize(self.rules.rule_count(), "rule"),
        )
    }

    fn print_json(&self) -> io::Result<()> {
        let diagnostics = self.diagnostics.iter().map(Diagnostic::to_json);
        let hints = self.hints.iter().map(|hint| {
            serde_json::json!({"file": *hint.file, "line": hint.line, "message": hint.message})
        });
        let document = serde_json::json!({
            "errors": self.errors(),
            "warnings": self.warnings(),
            "domains": self.rules.domains().collect::<Vec<_>>(),
            "rules": self.rules.rule_count(),
            "diagnostics": diagnostics.collect::<Vec<_>>(),
            "hints": hints.collect::<Vec<_>>(),
            "unreadable": self.unreadable,
        });
        write!(stdout().lock(), "{}", json_lines(&document))
    }
}
