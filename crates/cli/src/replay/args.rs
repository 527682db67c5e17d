//! The arguments of `tollgate replay`, and what they mean together.

use std::num::NonZeroU32;
use std::path::PathBuf;

use clap::ArgGroup;
use clap::builder::TypedValueParser;
use tollgate_core::{Moment, Sharing, Span};
use tollgate_replay::{Condition, Filter, KEYS_MAX, LogKind, Pattern, Selection, parse_moment};
use tollgate_rules::{RuleSet, read_paths};

use super::drive::DriveArgs;
use super::failure::{Failure, is_standard};
use super::report_args::{ReportArgs, add_compared_metrics, add_compared_report};
use crate::log_args::{LogArgs, LogFormat};
use crate::message::{print_notice, with_causes};
use crate::same_file;

/// Apply rules to recorded traffic, in virtual time.
///
/// Reads access logs or traces, decides each event at its recorded time with the same engine as the
/// service, and reports what would have been denied.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
#[command(group = ArgGroup::new("decided_by").required(true).args(["rules", "target"]))]
#[command(
    mut_arg("fail_if", add_compared_metrics),
    mut_arg("report", add_compared_report)
)]
pub(crate) struct Args {
    /// A rules file, or a directory of `*.yaml` and `*.yml` files; may be repeated.
    #[arg(long, value_name = "PATH")]
    pub(super) rules: Vec<PathBuf>,
    /// Allow several documents to add descriptors to one domain.
    #[arg(long)]
    pub(super) merge_domains: bool,
    /// Compare with these rules, which --rules would replace: what changes, and for whom.
    ///
    /// A file or a directory, as for --rules; may be repeated. Decides every event by both sets of
    /// rules, and reports which requests are newly denied and no longer denied: by rule, key and
    /// client. --decisions then writes the decisions of --rules.
    #[arg(long, value_name = "OLD-RULES")]
    pub(super) compare: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) log: LogArgs,
    /// The domain whose rules apply to an access log. Not needed if the rules have only one.
    #[arg(long, value_name = "NAME")]
    pub(super) domain: Option<String>,
    /// A descriptor for each line of an access log; may be repeated.
    ///
    /// A list such as `client={client}` or `path={path},method={method}`. `{field}` is replaced by
    /// a field of the line; all other text is literal. Fields: client, user, method, path (without
    /// query), query, protocol, status, bytes, referer, user_agent; and where the format has them,
    /// host and forwarded_for. A field that the line does not have is empty.
    #[arg(long = "descriptor", value_name = "KEY={FIELD},...")]
    pub(super) descriptors: Vec<Pattern>,
    /// For --format counts: the number of keys of the generated events, all equally likely.
    ///
    /// The field `{client}` is the key: key-0, key-1 and so on. Default: 10000.
    #[arg(long, value_name = "N", value_parser = keys())]
    pub(super) keys: Option<u32>,
    /// For --format counts: when the first second begins, at most 2500-01-01. Default: the
    /// start of 1970.
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    pub(super) start: Option<Moment>,
    /// Decide only events from this time on.
    ///
    /// RFC 3339, a date, a date and a time in UTC, the time of an access log, or seconds since
    /// 1970. Earlier events are not decided, so they do not count against any limit.
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    pub(super) from: Option<Moment>,
    /// Decide only events before this time.
    #[arg(long, value_name = "TIME", value_parser = parse_moment)]
    pub(super) to: Option<Moment>,
    /// Decide only events for which this comparison holds; if repeated, all of them must hold.
    ///
    /// A field, an operator and a value, such as `method=POST` or `path^=/api`. The operators are
    /// `=`, `!=` (not equal), `^=` (begins with), `$=` (ends with) and `*=` (contains). Fields are
    /// those of --descriptor; in a trace, the keys of entries.
    #[arg(long = "where", value_name = "FIELD=VALUE")]
    pub(super) filters: Vec<Filter>,
    #[command(flatten)]
    pub(super) written: ReportArgs,
    #[command(flatten)]
    pub(super) drive: DriveArgs,
    /// Access logs or traces, which may be compressed by gzip, xz, zstd or bzip2. Several files are
    /// read as one input, in this order. `-` is standard input.
    #[arg(value_name = "FILE", required = true)]
    pub(super) files: Vec<PathBuf>,
}

/// How many keys generated events have by default.
const KEYS: NonZeroU32 = NonZeroU32::new(10_000).expect("not zero");

const AFTER_HELP: &str = "\
Exit status: 0 if rules and input were read, even if events were denied or lines skipped; 1 if the \
rules have errors; 2 if the command line is wrong, a file cannot be read or written, no line of \
the input is an event, or a condition of --fail-if cannot be judged because no event met a limit; \
3 if a condition of --fail-if holds; 130 if interrupted. \
With --target: 0 if the service decided on at least one request, 2 if on none.";

/// Parses how many keys generated events have.
fn keys() -> impl TypedValueParser {
    clap::value_parser!(u32).range(1..=i64::from(KEYS_MAX))
}

/// The format that the command line gives, if the options are complete and fit together.
pub(super) fn format(args: &Args, rules: &RuleSet) -> Result<tollgate_replay::Format, Failure> {
    let kind = kind(args)?;
    if args.log.format == LogFormat::Jsonl {
        return Ok(tollgate_replay::Format::Trace);
    }
    let descriptors = args.descriptors.clone();
    let domain = domain(args.domain.as_deref(), rules)?;
    Ok(match args.log.format {
        LogFormat::Counts => {
            let (keys, start) = generation(args);
            tollgate_replay::Format::Counts {
                domain,
                descriptors,
                keys,
                start,
            }
        }
        _ => tollgate_replay::Format::AccessLog {
            kind: kind.unwrap_or(LogKind::Combined),
            domain,
            descriptors,
        },
    })
}

/// How many keys generated events have, and when their first second begins.
pub(super) fn generation(args: &Args) -> (NonZeroU32, Moment) {
    let keys = args.keys.and_then(NonZeroU32::new);
    (keys.unwrap_or(KEYS), args.start.unwrap_or(Moment::ZERO))
}

/// Where the values of an access log's lines are, if the options about the input are complete and
/// fit together; `None` if the input is not an access log.
pub(super) fn kind(args: &Args) -> Result<Option<LogKind>, Failure> {
    let usage = |message: &str| Err(Failure::Message(message.to_owned()));
    let standard_inputs = args.files.iter().filter(|file| is_standard(file));
    if standard_inputs.count() > 1 {
        return usage("`-`, standard input, can be read only once");
    }
    same_file::check(&args.files, "each of its lines would count twice")
        .map_err(Failure::Message)?;
    let is_counts = args.log.format == LogFormat::Counts;
    if !is_counts && (args.keys.is_some() || args.start.is_some()) {
        return usage("--keys and --start are about generated events; add --format counts");
    }
    if is_counts && !args.filters.is_empty() {
        return usage("generated events have no fields; drop --where, or --format counts");
    }
    let kind = args.log.kind().map_err(Failure::Message)?;
    if args.log.format == LogFormat::Jsonl {
        if args.domain.is_some() || !args.descriptors.is_empty() {
            return usage(
                "the events of a trace have their own domain and descriptors; \
                 drop --domain and --descriptor, or --format jsonl",
            );
        }
        return Ok(kind);
    }
    if args.descriptors.is_empty() {
        return usage(
            "an access log needs at least one --descriptor 'key={field}'; \
             a trace needs --format jsonl",
        );
    }
    if args.descriptors.len() > tollgate_replay::DESCRIPTORS_MAX {
        return usage("more than 128 descriptors; that is the most a request may have");
    }
    Ok(kind)
}

/// The domain of events that have none: the one that is named, or else the only one of the rules.
pub(crate) fn domain(named: Option<&str>, rules: &RuleSet) -> Result<String, Failure> {
    let known: Vec<_> = rules.domains().collect();
    match (named, known.as_slice()) {
        (Some(""), _) => Err(Failure::Message(
            "--domain is empty; leave it out if the rules have one domain".to_owned(),
        )),
        (Some(domain), _) => {
            if !known.contains(&domain) {
                print_notice(format_args!(
                    "warning: no rules for domain `{domain}`, so nothing is limited; \
                     there are rules for: {}",
                    known.join(", ")
                ));
            }
            Ok(domain.to_owned())
        }
        (None, [only]) => Ok((*only).to_owned()),
        (None, _) => Err(Failure::Message(format!(
            "the rules have several domains; name one with --domain: {}",
            known.join(", ")
        ))),
    }
}

/// Which events are decided.
pub(super) fn selection(args: &Args) -> Result<Selection, Failure> {
    if let (Some(from), Some(to)) = (args.from, args.to)
        && from >= to
    {
        return Err(Failure::Message(
            "--to is not after --from, so no event can be between them".to_owned(),
        ));
    }
    if args.log.format == LogFormat::Counts {
        check_whole_seconds(args)?;
    }
    Ok(Selection {
        from: args.from,
        to: args.to,
        filters: args.filters.clone(),
    })
}

/// Fails if a second of generated events would be selected in part.
fn check_whole_seconds(args: &Args) -> Result<(), Failure> {
    let (_, start) = generation(args);
    for (option, at) in [("--from", args.from), ("--to", args.to)] {
        let since = at.map_or(0, |at| at.as_nanos().abs_diff(start.as_nanos()));
        if !since.is_multiple_of(Span::SECOND.as_nanos()) {
            return Err(Failure::Message(format!(
                "{option}: with --format counts, it must be a whole number of seconds from --start \
                 (1970-01-01 without it), because a second is decided as a whole"
            )));
        }
    }
    Ok(())
}

/// The rules in these files; what is wrong with them is printed.
pub(crate) fn rules(paths: &[PathBuf], merge_domains: bool) -> Result<RuleSet, Failure> {
    rules_shared_as(paths, merge_domains, Sharing::default())
}

/// As [`rules`]; `sharing` is how instances share the limits that do not say it themselves.
pub(crate) fn rules_shared_as(
    paths: &[PathBuf],
    merge_domains: bool,
    sharing: Sharing,
) -> Result<RuleSet, Failure> {
    let sources = read_paths(paths).map_err(|error| Failure::Message(with_causes(&error)))?;
    let options = tollgate_rules::Options {
        merge_domains,
        sharing,
    };
    let loaded = RuleSet::parse(&sources, &options);
    for diagnostic in &loaded.diagnostics {
        print_notice(diagnostic);
    }
    if loaded.has_errors() {
        return Err(Failure::Rules);
    }
    Ok(loaded.rules)
}

/// Fails if a condition is about a comparison, for a command that makes none; `instead` says what
/// to do.
pub(crate) fn check_conditions(conditions: &[Condition], instead: &str) -> Result<(), Failure> {
    match conditions.iter().find_map(Condition::of_comparison) {
        Some(metric) => Err(Failure::Message(format!("--fail-if {metric} {instead}"))),
        None => Ok(()),
    }
}
