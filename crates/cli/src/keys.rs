//! `tollgate keys`: shows or resets what a shared store holds for the values of a request.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use tollgate_backends::{Inspector, OpenError, SharedConfig, backend_names};
use tollgate_core::{
    ChargeDenied, Cost, DESCRIPTORS_MAX, Descriptor, KeyState, Request, StoreError, Verdict,
};
use tollgate_rules::escape;
use tollgate_server::{DescriptorText, Place};

use crate::keys::report::{Key, Report};
use crate::message::{Reason, with_causes};
use crate::output::{Output, written};
use crate::printable::json_lines;
use crate::settings::{Service, Unread};

mod report;

#[derive(Debug, clap::Args)]
#[command(about = about(), long_about = long_about())]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Show the state of each limit that a request would match. Charges nothing.
    Show(Target),
    /// Delete the state of each limit that a request would match, so that its budget starts over.
    /// Does not ask for confirmation; reports what was deleted.
    Reset(Target),
}

#[derive(Debug, clap::Args)]
#[command(after_help = after_help())]
struct Target {
    /// The settings file of the service.
    #[arg(long, value_name = "PATH", default_value = "tollgate.yaml")]
    config: PathBuf,
    /// Report format.
    #[arg(long, value_enum, default_value_t = Output::Human, alias = "format")]
    output: Output,
    /// Another name of `--output json`.
    #[arg(long, hide = true, conflicts_with = "output")]
    json: bool,
    /// The domain of the rules.
    domain: String,
    /// A descriptor of the request: its entries, in order. A backslash before `,`, `=` or `\` makes
    /// it part of a key or value.
    #[arg(required = true, value_name = "KEY=VALUE[,KEY=VALUE...]")]
    descriptors: Vec<DescriptorText>,
}

// The help names the backends, so it is made from their list.

fn about() -> String {
    let backends = backend_names();
    format!("Show or reset the state that {backends} holds for a client")
}

fn long_about() -> String {
    let (about, backends) = (about(), backend_names());
    format!(
        "{about}.\n\nNames of keys in {backends} are hashes. This command computes them from a \
         request's descriptors and the service's rules."
    )
}

fn after_help() -> String {
    let backends = backend_names();
    format!(
        "Exit status: 0 if a limit matches and {backends} answers; 1 if no limit matches, the \
         domain is not kept in {backends}, its rules have errors, or {backends} does not answer; 2 \
         if the command line or the settings are wrong, a file cannot be read, or standard output \
         cannot be written."
    )
}

/// The exit status, and why there is no report.
struct Failure(u8, Reason);

pub(crate) fn run(args: &Args) -> ExitCode {
    let (target, resets) = match &args.action {
        Action::Show(target) => (target, false),
        Action::Reset(target) => (target, true),
    };
    match execute(target, resets) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure(status, reason)) => {
            reason.print();
            ExitCode::from(status)
        }
    }
}

/// Finds the keys of the descriptors by the rules of the service, then prints what the store holds
/// for each. With `resets`, the keys are deleted after they were inspected.
fn execute(target: &Target, resets: bool) -> Result<(), Failure> {
    if target.descriptors.len() > DESCRIPTORS_MAX {
        let message = "more than 128 descriptors; that is the most a request may have";
        return Err(Failure::new(2, message.to_owned()));
    }
    let service = Service::read(&target.config)?;
    check_domain(&service, &target.domain)?;
    let (store, place) = service.config.store_of(&target.domain);
    let Place::Shared(config) = place else {
        return Err(Failure::new(1, in_memory(&target.domain, store)));
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(1, with_causes(&error)))?;
    let report = runtime.block_on(report(target, &service, config, resets))?;
    let mut out = io::stdout().lock();
    let printed = match target.output.or_json(target.json) {
        Output::Human => write!(out, "{report}"),
        Output::Json => write!(out, "{}", json_lines(&report.to_json())),
    };
    match written(printed) {
        Err(message) => Err(Failure::new(2, message)),
        Ok(()) if report.keys.is_empty() => Err(Failure::new(1, no_limit(target, &report))),
        Ok(()) => Ok(()),
    }
}

/// Fails unless the domain has rules and they have no error.
fn check_domain(service: &Service, domain: &str) -> Result<(), Failure> {
    let rules = &service.loaded.rules;
    if rules.domains().any(|known| known == domain) {
        return Ok(());
    }
    let diagnostics = service.loaded.diagnostics.iter();
    let errors: Vec<String> = diagnostics
        .filter(|found| found.is_error())
        .map(ToString::to_string)
        .collect();
    if !errors.is_empty() {
        let errors = errors.join("\n");
        return Err(Failure::new(
            1,
            format!(
                "the domain `{domain}` has no valid rules; fix the errors in its files:\n{errors}"
            ),
        ));
    }
    let known: Vec<&str> = rules.domains().collect();
    let known = escape(&known.join("`, `"));
    Err(Failure::new(
        1,
        format!("there are no rules for the domain `{domain}`, only for `{known}`"),
    ))
}

fn in_memory(domain: &str, store: &str) -> String {
    format!(
        "the store of `{domain}` (`{store}` in the settings) is in memory: its keys are in the \
         memory of the process that serves, and are lost when it ends"
    )
}

fn not_inspected(domain: &str, config: &SharedConfig) -> String {
    let backend = config.backend().name;
    format!("the store of `{domain}` is in {backend}, whose keys this command cannot inspect")
}

/// Why there is no key.
fn no_limit(target: &Target, report: &Report) -> String {
    if let Some(rule) = report.unlimited_rule() {
        let rule = escape(rule);
        return format!("the rule `{rule}` is unlimited, so nothing is counted or stored");
    }
    format!(
        "no descriptor meets a limit of `{}`: give all entries of a descriptor, in the order of \
         the rules, as in user=ann,path=/x",
        target.domain
    )
}

/// Inspects, and with `resets` deletes, the key of every limit that the descriptors meet. The
/// descriptors form one request, resolved by the same rules as in the service.
async fn report(
    target: &Target,
    service: &Service,
    config: &SharedConfig,
    resets: bool,
) -> Result<Report, Failure> {
    let opened = config.open_inspector();
    let opened = opened.ok_or_else(|| Failure::new(1, not_inspected(&target.domain, config)))?;
    let store = opened.map_err(|error: OpenError| Failure::new(2, with_causes(&*error)))?;
    let request = Request {
        domain: target.domain.as_bytes(),
        descriptors: target.descriptors.iter().map(descriptor).collect(),
        cost: Cost::Peek(1),
        charge_denied: ChargeDenied::Never,
    };
    let resolved = service.loaded.rules.resolve(&request, &store);
    let charges = resolved.charges();
    let mut found: Vec<Result<KeyState, StoreError>> = Vec::new();
    for charge in &charges {
        match store.inspect(charge).await {
            // It can be deleted all the same.
            Err(error) if !resets || !is_unreadable(&error) => {
                return Err(no_answer(&store, charge.key, &error));
            }
            outcome => found.push(outcome),
        }
    }
    let (mut states, mut deleted, mut unreadable) = (Vec::new(), Vec::new(), Vec::new());
    for (charge, found) in charges.iter().zip(found) {
        let failed = |error: StoreError| no_answer(&store, charge.key, &error);
        if resets {
            deleted.push(store.reset(charge.key).await.map_err(failed)?);
        }
        unreadable.push(found.as_ref().err().map(|error| with_causes(error)));
        states.push(match found {
            Ok(state) => state,
            Err(_) => store.inspect(charge).await.map_err(failed)?,
        });
    }
    // The answer pairs the decisions with the descriptors and the rules that they met.
    let decisions = states.iter().map(|state| state.decision);
    let verdict = Verdict::new(decisions.collect(), None);
    let mut keys = charges
        .iter()
        .zip(states)
        .enumerate()
        .map(|(index, (charge, state))| Key {
            name: store.name_of(charge.key),
            sharing: charge.sharing,
            state,
            unreadable: unreadable.get_mut(index).and_then(Option::take),
            denial_cache_max: store.denial_cache_max(),
            deleted: deleted.get(index).copied(),
        });
    Ok(Report::new(target, &resolved.answer(&verdict), &mut keys))
}

fn descriptor(wanted: &DescriptorText) -> Descriptor<'_> {
    Descriptor {
        entries: wanted.entries(),
        ..Descriptor::default()
    }
}

/// Whether the store answered, and what it holds for the key cannot be read.
const fn is_unreadable(error: &StoreError) -> bool {
    matches!(error, StoreError::BadReply { .. })
}

/// The store's failure, with the key if that is the cause, and the reason that the store has noted.
fn no_answer(store: &Inspector, key: tollgate_core::Key, error: &StoreError) -> Failure {
    let mut message = with_causes(error);
    let trouble = store.trouble().filter(|why| !message.contains(why));
    if let Some(why) = trouble {
        message = format!("{message} ({why})");
    }
    if is_unreadable(error) {
        let name = store.name_of(key);
        message = format!("the key {name}: {message}; `tollgate keys reset` deletes it");
    }
    Failure::new(1, message)
}

// === impl Failure ===

impl Failure {
    const fn new(status: u8, message: String) -> Failure {
        Failure(status, Reason::Message(message))
    }
}

impl From<Unread> for Failure {
    fn from(unread: Unread) -> Failure {
        Failure(2, unread.reason())
    }
}
