//! `tollgate explain`: why a request would be allowed or denied.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use tollgate_backends::{Inspector, OpenError, SharedConfig};
use tollgate_core::{Bill, ChargeDenied, Clock, Cost, Descriptor, Request, StoreError, Verdict};
use tollgate_engine::{Engine, Explanation, Stores, peek};
use tollgate_memory::{Memory, SystemClock};
use tollgate_rules::{Loaded, NoHeadroom, Options, RuleSet, escape, read_paths};
use tollgate_server::{DescriptorText, ExplanationReport, Place, Values};

use crate::admin_client::Access;
use crate::explain::note::notes;
use crate::message::{Reason, with_causes};
use crate::output::{self, Output};
use crate::printable::json_lines;
use crate::service_url::ServiceUrl;
use crate::settings::{Service, Unread};

mod note;
mod remote;

/// Explain why a request would be allowed or denied.
///
/// Shows for each descriptor of a request how its rule is found, with file and line of everything
/// that was compared, the limit, what remains of it, and when the request would be allowed. Charges
/// nothing.
///
/// With --url, a running service explains, with the rules and counters by which it decides. With
/// --config, counters in Redis are read; those in memory can only be read from the running service.
/// With --rules, all counters are treated as unused.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// A rules file, or a directory of `*.yaml` and `*.yml` files; may be repeated.
    #[arg(long, value_name = "PATH")]
    rules: Vec<PathBuf>,
    /// Allow several documents to add descriptors to one domain.
    #[arg(long, requires = "rules", conflicts_with_all = ["config", "url"])]
    merge_domains: bool,
    /// The settings file of the service, in place of --rules.
    #[arg(long, value_name = "PATH", conflicts_with = "rules")]
    config: Option<PathBuf>,
    /// The admin listener of a running service, such as http://127.0.0.1:6070, in place of --rules.
    #[arg(long, value_name = "URL", conflicts_with_all = ["rules", "config"])]
    url: Option<ServiceUrl>,
    /// Explain the denied request with this id, which is the header `x-request-id` of its answer.
    #[arg(long, value_name = "ID")]
    #[arg(conflicts_with_all = ["descriptors", "domain", "cost", "any_order"])]
    request_id: Option<String>,
    /// The domain of the rules. Not needed if there is only one.
    #[arg(long, value_name = "NAME")]
    domain: Option<String>,
    /// What the request costs. Default: 1.
    #[arg(long, value_name = "UNITS")]
    cost: Option<u64>,
    /// Entries match nested rules in any order, as in the short form of /v1/check.
    #[arg(long)]
    any_order: bool,
    /// Report format.
    #[arg(long, value_enum, default_value_t = Output::Human)]
    output: Output,
    /// A descriptor of the request: its entries, in order. A backslash before `,`, `=` or `\` makes
    /// it part of a key or value.
    #[arg(value_name = "KEY=VALUE[,KEY=VALUE...]")]
    descriptors: Vec<DescriptorText>,
    #[command(flatten)]
    access: Access,
}

const AFTER_HELP: &str = "\
Exit status: 0 if the request was explained, whether it would be allowed or denied; 1 if the rules \
have errors or have no such domain, or the store or the service does not answer; 2 if the command \
line or the settings are wrong, a file cannot be read, or standard output cannot be written.";

/// What to do if there are several domains.
const NAME_DOMAIN: &str = "name the domain with --domain";

/// The exit status, and why there is no report.
struct Failure(u8, Reason);

/// Rules, and where the states of their keys are.
struct Subject {
    loaded: Loaded,
    service: Option<Service>,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    match execute(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure(status, reason)) => {
            reason.print();
            ExitCode::from(status)
        }
    }
}

/// Explains the request, and prints the report.
fn execute(args: &Args) -> Result<(), Failure> {
    if let Some(message) = args.lack() {
        return Err(Failure::new(2, message.to_owned()));
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure::new(1, with_causes(&error)))?;
    let report = runtime.block_on(async {
        match &args.url {
            Some(url) => remote::explain(url, args).await,
            None if args.needs_url() => {
                let message = "tokens, certificates and ids of requests are for a running service; \
                               add --url URL";
                Err(Failure::new(2, message.to_owned()))
            }
            None => explain(args).await,
        }
    });
    output::print(&report?).map_err(|message| Failure::new(2, message))
}

/// Reads the rules, and explains the request by the states that can be read.
async fn explain(args: &Args) -> Result<String, Failure> {
    let subject = Subject::read(args)?;
    let domain = subject.domain(args.domain.as_deref())?;
    let descriptors = args.descriptors.iter().map(|text| Descriptor {
        entries: text.entries(),
        is_unordered: args.any_order,
        ..Descriptor::default()
    });
    let request = Request {
        domain: domain.as_bytes(),
        descriptors: descriptors.collect(),
        cost: Cost::Peek(args.cost.unwrap_or(1)),
        charge_denied: ChargeDenied::Never,
    };
    let bounds = request.check_bounds();
    bounds.map_err(|invalid| Failure::new(2, invalid.to_string()))?;
    let (explanation, notes) = match subject.shared(&domain) {
        Some((name, config)) => inspect(&subject, name, config, &request).await?,
        None => (explain_unused(&subject, &request).await?, None),
    };
    let report = ExplanationReport {
        request: &request,
        explanation: &explanation,
        values: Values::Show,
        denial: None,
        has_states: notes.is_some(),
    };
    Ok(match args.output {
        Output::Human => format!("{report}{}", notes.unwrap_or_default().concat()),
        Output::Json => json_lines(&report.to_json()),
    })
}

/// Explains by keys that were never used.
async fn explain_unused(subject: &Subject, request: &Request<'_>) -> Result<Explanation, Failure> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let engine = Engine::new(Stores::new(
        Memory::builder().max_keys(1).clock(clock).build(),
    ));
    engine.replace_rules(subject.loaded.rules.clone());
    let explained = engine.explain(request).await;
    let mut explanation = explained.map_err(|error| Failure::new(1, with_causes(&error)))?;
    if let Some(service) = &subject.service {
        let domain = request.domain_name().unwrap_or_default();
        service
            .config
            .store_of(domain)
            .0
            .clone_into(&mut explanation.store);
    }
    Ok(explanation)
}

/// Explains by the states in a shared store, and adds notes about what is not in it.
async fn inspect(
    subject: &Subject,
    name: &str,
    config: &SharedConfig,
    request: &Request<'_>,
) -> Result<(Explanation, Option<Vec<String>>), Failure> {
    let backend = config.backend().name;
    let opened = config.open_inspector().ok_or_else(|| {
        let message = format!("the keys of {backend} cannot be read by this command");
        Failure::new(1, message)
    })?;
    let store = opened.map_err(|error: OpenError| Failure::new(2, with_causes(&*error)))?;
    let explained = subject.loaded.rules.explain(request, &store, &NoHeadroom);
    let mut charges = explained.resolved.charges();
    charges.iter_mut().for_each(peek);
    let bill = Bill::new(&charges).map_err(|error| Failure::new(2, error.to_string()))?;
    let (mut decisions, mut states) = (Vec::new(), Vec::new());
    for line in bill.lines() {
        let mut charge = line.charge;
        charge.cost = Cost::Peek(line.units_needed().unwrap_or(1));
        let state = store.inspect(&charge).await;
        let state = state.map_err(|error| no_answer(&store, &error))?;
        decisions.push(state.decision);
        states.push((charge.sharing.mode, state));
    }
    let verdict = match decisions.is_empty() {
        true => Verdict::default(),
        false => bill.combine(&decisions),
    };
    let explanation = Explanation {
        answer: explained.resolved.answer(&verdict),
        findings: explained.findings,
        store: name.to_owned(),
        is_shared: true,
        shares: None,
    };
    Ok((explanation, Some(notes(&states))))
}

/// The store's failure, with the reason that it has noted.
fn no_answer(store: &Inspector, error: &StoreError) -> Failure {
    let message = with_causes(error);
    let trouble = store.trouble().filter(|why| !message.contains(why));
    let trouble = trouble.map(|why| format!(" ({why})"));
    Failure::new(1, message + &trouble.unwrap_or_default())
}

// === impl Args ===

impl Args {
    /// What is missing of the question, and what to write.
    fn lack(&self) -> Option<&'static str> {
        let has_rules = self.url.is_some() || self.config.is_some() || !self.rules.is_empty();
        if !has_rules {
            return Some(
                "explain by which rules? name a running service with --url, such as \
                 http://127.0.0.1:6070, or its settings with --config, or rules with --rules",
            );
        }
        if self.descriptors.is_empty() && self.request_id.is_none() {
            return Some(
                "explain which request? write its descriptors as KEY=VALUE, such as user=alice, or \
                 with --url the id of a denied request, --request-id ID",
            );
        }
        None
    }

    /// Whether an option has a meaning only for a running service. (clap leaves out `requires` of
    /// an option that conflicts with one that is present.)
    fn needs_url(&self) -> bool {
        self.request_id.is_some() || self.access != Access::default()
    }
}

// === impl Subject ===

impl Subject {
    /// Reads the rules, and the settings if they are named.
    fn read(args: &Args) -> Result<Subject, Failure> {
        if let Some(path) = &args.config {
            let service = Service::read(path)?;
            let loaded = service.loaded.clone();
            return Ok(Subject {
                loaded,
                service: Some(service),
            });
        }
        let sources = read_paths(&args.rules);
        let sources = sources.map_err(|error| Failure::new(2, with_causes(&error)))?;
        let options = Options {
            merge_domains: args.merge_domains,
            ..Options::default()
        };
        Ok(Subject {
            loaded: RuleSet::parse(&sources, &options),
            service: None,
        })
    }

    /// The domain to explain: the one that is named, or the only one.
    fn domain(&self, named: Option<&str>) -> Result<String, Failure> {
        let known: Vec<&str> = self.loaded.rules.domains().collect();
        let shown = escape(&known.join("`, `"));
        let found = match (named, &known[..]) {
            (Some(name), _) if known.contains(&name) => return Ok(name.to_owned()),
            (None, [only]) if !self.loaded.has_errors() => return Ok((*only).to_owned()),
            (Some(name), _) => format!("there are no valid rules for the domain `{name}`"),
            (None, _) if self.loaded.has_errors() => {
                "correct the rules, or name a domain without errors with --domain".to_owned()
            }
            (None, _) => NAME_DOMAIN.to_owned(),
        };
        let diagnostics = self.loaded.diagnostics.iter();
        let errors = diagnostics.filter(|one| one.is_error());
        let errors: Vec<String> = errors.map(|error| format!("\n{error}")).collect();
        let message = match errors.is_empty() {
            true => format!("{found}; the rules have `{shown}`"),
            false => format!("{found}; the rules have errors:{}", errors.concat()),
        };
        Err(Failure::new(1, message))
    }

    /// The shared store of a domain, if it has one.
    fn shared(&self, domain: &str) -> Option<(&str, &SharedConfig)> {
        match self.service.as_ref()?.config.store_of(domain) {
            (name, Place::Shared(config)) => Some((name, config)),
            (_, Place::Memory) => None,
        }
    }
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
