//! `tollgate check`.

use std::io::{self, Write, stdout};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;
use tollgate_rules::{Diagnostic, Loaded, Options, RuleSet, read_paths};

use crate::complaint::complain;

/// Check rules files, and say everything that is wrong with them.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Files, and directories of `*.yaml` and `*.yml` files.
    #[arg(required = true, value_name = "PATH")]
    paths: Vec<PathBuf>,
    /// For people, or one JSON document.
    #[arg(long, default_value = "human")]
    format: Format,
    /// Several documents may add descriptors to one domain.
    #[arg(long)]
    merge_domains: bool,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Human,
    Json,
}

/// 0 for rules without an error, 1 for others, 2 if they cannot be read.
pub(crate) fn run(args: &Args) -> ExitCode {
    let sources = match read_paths(&args.paths) {
        Ok(sources) => sources,
        Err(error) => {
            complain(&error);
            return ExitCode::from(2);
        }
    };
    let options = Options {
        merge_domains: args.merge_domains,
        ..Options::default()
    };
    let loaded = RuleSet::parse(&sources, &options);
    let told = match args.format {
        Format::Human => tell(&loaded, sources.len()),
        Format::Json => tell_json(&loaded),
    };
    match told {
        // Whoever reads may stop early, as `head` does.
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => ExitCode::from(2),
        _ if loaded.has_errors() => ExitCode::FAILURE,
        _ => ExitCode::SUCCESS,
    }
}

fn tell(loaded: &Loaded, files: usize) -> io::Result<()> {
    let mut out = stdout().lock();
    for diagnostic in &loaded.diagnostics {
        writeln!(out, "{diagnostic}")?;
    }
    let (errors, warnings) = counted(&loaded.diagnostics);
    let (rules, domains) = (loaded.rules.rules().count(), loaded.rules.domains().count());
    writeln!(
        out,
        "{files} files, {domains} good domains with {rules} rules: \
         {errors} errors, {warnings} warnings"
    )
}

fn tell_json(loaded: &Loaded) -> io::Result<()> {
    let (errors, warnings) = counted(&loaded.diagnostics);
    let diagnostics = loaded.diagnostics.iter().map(Diagnostic::to_json);
    let document = serde_json::json!({
        "errors": errors,
        "warnings": warnings,
        "domains": loaded.rules.domains().collect::<Vec<_>>(),
        "rules": loaded.rules.rules().count(),
        "diagnostics": diagnostics.collect::<Vec<_>>(),
    });
    writeln!(stdout().lock(), "{document:#}")
}

fn counted(diagnostics: &[Diagnostic]) -> (usize, usize) {
    let errors = diagnostics.iter().filter(|found| found.is_error()).count();
    (errors, diagnostics.len() - errors)
}
