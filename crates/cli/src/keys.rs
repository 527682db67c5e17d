//! `tollgate keys`: what Redis holds for the values that a request carries.

use std::io::{self, ErrorKind, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;
use tollgate_core::{ChargeDenied, Cost, DESCRIPTORS_MAX, Descriptor, Request, Span, Verdict};
use tollgate_redis::{Config, Held, Redis};
use tollgate_rules::escape;
use tollgate_server::Place;

use crate::complaint::{complain_of, with_reasons};
use crate::keys::report::{Key, Report};
use crate::keys::wanted::Wanted;
use crate::output::Output;
use crate::settings::{Service, Unread};

mod report;
mod wanted;

/// How long Redis may take to answer: people are more patient than requests.
const PATIENCE: Span = Span::from_secs(3);

/// Show or reset what Redis holds for the values of a request.
///
/// Names of keys in Redis are hashes: this finds the key of a client, by the same rules as the
/// service.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    deed: Deed,
}

#[derive(Debug, Subcommand)]
enum Deed {
    /// Show what is held for each limit that a request would meet. Charges nothing.
    Show(Which),
    /// Make Redis forget it, so that the budgets begin anew. Asks nothing, and says what it did.
    Reset(Which),
}

#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
struct Which {
    /// The settings of the service.
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
    /// A descriptor of the request: its entries in their order. `\,` is a comma and `\\` a
    /// backslash of a key or value.
    #[arg(required = true, value_name = "KEY=VALUE[,KEY=VALUE...]")]
    descriptors: Vec<Wanted>,
}

const AFTER_HELP: &str = "\
Exit status: 0 if a limit is met and Redis has answered; 1 if none is met, the domain is not kept \
in Redis, its rules have mistakes, or Redis does not answer; 2 if the command line or the settings \
are wrong, or a file cannot be read.";

/// Why nothing can be told, and the exit status.
struct Failure(u8, String);

pub(crate) fn run(args: &Args) -> ExitCode {
    let (which, resets) = match &args.deed {
        Deed::Show(which) => (which, false),
        Deed::Reset(which) => (which, true),
    };
    match execute(which, resets) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure(status, message)) => {
            complain_of(&message);
            ExitCode::from(status)
        }
    }
}

fn execute(which: &Which, resets: bool) -> Result<(), Failure> {
    if which.descriptors.len() > DESCRIPTORS_MAX {
        let message = "more than 128 descriptors; that is the most a request may have";
        return Err(Failure(2, message.to_owned()));
    }
    let service = Service::read(&which.config)?;
    check_domain(&service, &which.domain)?;
    let (store, place) = service.config.store_of(&which.domain);
    let Place::Redis(config) = place else {
        return Err(Failure(1, in_memory(&which.domain, store)));
    };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure(1, with_reasons(&error)))?;
    let report = runtime.block_on(report(which, &service, config, resets))?;
    let mut out = io::stdout().lock();
    let told = match which.output.or_json(which.json) {
        Output::Human => write!(out, "{report}"),
        Output::Json => writeln!(out, "{:#}", report.to_json()),
    };
    match told {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Failure(1, with_reasons(&error)))
        }
        _ if report.keys.is_empty() => Err(Failure(1, no_limit(which))),
        _ => Ok(()),
    }
}

/// The domain has rules, and none of them has a mistake.
fn check_domain(service: &Service, domain: &str) -> Result<(), Failure> {
    let rules = &service.loaded.rules;
    if rules.domains().any(|known| known == domain) {
        return Ok(());
    }
    let diagnostics = service.loaded.diagnostics.iter();
    let mistakes: Vec<String> = diagnostics
        .filter(|found| found.is_error())
        .map(ToString::to_string)
        .collect();
    if !mistakes.is_empty() {
        let mistakes = mistakes.join("\n");
        return Err(Failure(
            1,
            format!("the domain `{domain}` is not there, or has mistakes; mend these:\n{mistakes}"),
        ));
    }
    let known: Vec<&str> = rules.domains().collect();
    let known = escape(&known.join("`, `"));
    Err(Failure(
        1,
        format!("there are no rules for the domain `{domain}`, only for `{known}`"),
    ))
}

fn in_memory(domain: &str, store: &str) -> String {
    format!(
        "the store of `{domain}` (`{store}` in the settings) is in memory: its keys are in the \
         memory of the process that serves, which forgets them when it ends"
    )
}

fn no_limit(which: &Which) -> String {
    format!(
        "no descriptor meets a limit of `{}`: give all entries of a descriptor, in the order of \
         the rules, as in user=ann,path=/x",
        which.domain
    )
}

async fn report(
    which: &Which,
    service: &Service,
    config: &Config,
    resets: bool,
) -> Result<Report, Failure> {
    let config = Config {
        timeout: config.timeout.max(PATIENCE),
        connections: 1,
        ..config.clone()
    };
    let redis = Redis::connect(&config).map_err(|error| Failure(2, with_reasons(&error)))?;
    let request = Request {
        domain: which.domain.as_bytes(),
        descriptors: which.descriptors.iter().map(descriptor).collect(),
        cost: Cost::Peek(1),
        charge_denied: ChargeDenied::Never,
    };
    let resolved = service.loaded.rules.resolve(&request, &redis);
    let charges = resolved.charges();
    let (mut held, mut forgotten): (Vec<Held>, Vec<bool>) = (Vec::new(), Vec::new());
    for charge in &charges {
        let asked = redis.inspect(charge).await;
        held.push(asked.map_err(|error| away(&redis, &error))?);
    }
    if resets {
        for charge in &charges {
            let asked = redis.reset(charge.key).await;
            forgotten.push(asked.map_err(|error| away(&redis, &error))?);
        }
    }
    // The answer pairs the decisions with the descriptors and the rules that they met.
    let verdict = Verdict {
        decisions: held.iter().map(|held| held.decision).collect(),
        denial: None,
    };
    let mut keys = charges
        .iter()
        .zip(held)
        .enumerate()
        .map(|(index, (charge, held))| Key {
            name: redis.name_of(charge.key),
            sharing: charge.sharing,
            held,
            forgotten: forgotten.get(index).copied(),
        });
    Ok(Report::new(which, &resolved.answer(&verdict), &mut keys))
}

fn descriptor(wanted: &Wanted) -> Descriptor<'_> {
    Descriptor {
        entries: wanted.entries(),
        ..Descriptor::default()
    }
}

/// Why Redis has not answered, with what it or the system said about it.
fn away(redis: &Redis, error: &dyn std::error::Error) -> Failure {
    let message = with_reasons(error);
    let trouble = redis.trouble().filter(|why| !message.contains(why));
    let trouble = trouble.map(|why| format!(" ({why})"));
    Failure(1, message + &trouble.unwrap_or_default())
}

// === impl Failure ===

impl From<Unread> for Failure {
    fn from(unread: Unread) -> Failure {
        Failure(2, unread.shown())
    }
}
