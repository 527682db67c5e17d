//! `tollgate replay --target`: the requests of a log, sent to a running service.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use tokio::time::Instant;
use tollgate_core::Span;
use tollgate_replay::{Format, LogKind, Outgoing, Traffic};
use tollgate_server::TokenSources;

use super::args::{Args, generation};
use super::failure::Failure;
use super::found::print;
use super::interrupt::Interrupt;
use super::progress::{Work, bar};
use crate::admin_client::bearer;
use crate::log_args::LogFormat;
use crate::message::{pluralize, print_notice, with_causes};
use crate::output::Output;
use crate::printable::json_lines;
use crate::service_url::ServiceUrl;
use crate::tls_args::TlsArgs;

mod answer;
mod bounds;
mod histogram;
mod pace;
mod schedule;
mod sums;
mod target;

use pace::{Pace, Speed};
use schedule::{End, Schedule};
use sums::{DriveReport, Sums};
use target::Target;

/// How many requests may wait for their answers by default.
const IN_FLIGHT: NonZeroUsize = NonZeroUsize::new(256).expect("not zero");
/// The most requests that may wait for their answers: each has a connection.
const IN_FLIGHT_MAX: usize = 10_000;

/// Where requests are sent, and how fast.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Sending to a running service")]
pub(crate) struct DriveArgs {
    /// Send the requests to the `http` listener of a running service, which decides with its own
    /// rules and clock, instead of deciding them here.
    ///
    /// http://HOST:PORT or https://HOST:PORT. Each request is sent at its time, whether or not
    /// earlier ones have been answered. Access logs need --domain. Reports how many requests were
    /// allowed, denied and failed, how late they were sent, and how long the answers took.
    #[arg(long, value_name = "URL", conflicts_with_all = ["rules", "merge_domains", "compare",
        "fail_if", "top", "report", "decisions", "max_keys"])]
    pub(super) target: Option<ServiceUrl>,
    /// The speed, as a multiple of the log's own pace: `1x`, `10x`, `0.5x`. With `max`, requests
    /// are sent as fast as the service answers them, --in-flight of them at a time. Default: 1x.
    ///
    /// Limits run in real time: at 10x, they are ten times as tight for these requests.
    #[arg(long, value_name = "SPEED")]
    speed: Option<Speed>,
    /// The largest number of requests that wait for an answer at the same time. Default: 256.
    ///
    /// When this many are waiting, the next request is held back. If none of them is answered
    /// within a second, the request is dropped, and the report counts it as not sent.
    #[arg(long, value_name = "N", value_parser = in_flight)]
    in_flight: Option<NonZeroUsize>,
    /// A file with a bearer token: its first line that is neither empty nor a comment (`#`), for a
    /// proxy in front of the service that requires one.
    #[arg(
        long,
        value_name = "PATH",
        requires = "target",
        conflicts_with = "token_env"
    )]
    token_file: Option<PathBuf>,
    /// An environment variable with a bearer token.
    #[arg(long, value_name = "NAME")]
    token_env: Option<String>,
    #[command(flatten)]
    tls: TlsArgs,
}

/// Parses how many requests may be in flight.
fn in_flight(text: &str) -> Result<NonZeroUsize, String> {
    let number = text.parse().ok().and_then(NonZeroUsize::new);
    let number = number.filter(|number| number.get() <= IN_FLIGHT_MAX);
    number.ok_or_else(|| format!("must be a whole number from 1 to {IN_FLIGHT_MAX}"))
}

/// Reads all inputs, sends their requests, and prints what came of them.
pub(super) fn execute(args: &Args, url: &ServiceUrl) -> Result<(), Failure> {
    let drive = &args.drive;
    let token = drive.token().map_err(Failure::Message)?;
    let tls = drive.tls.config(url).map_err(Failure::Message)?;
    let traffic = Traffic::new(format(args)?);
    let mut traffic = super::prepare(args, traffic)?;
    let interrupt = Interrupt::listen(None);
    let read = super::read(&args.files, &mut traffic, &interrupt).and_then(|()| traffic.check());
    read.map_err(|why| Failure::Message(with_causes(&why)))?;
    let outgoing = traffic.outgoing_requests();
    let target = Target::new(url.clone(), outgoing.path(), token, tls);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let runtime = runtime
        .map_err(|error| Failure::Message(format!("cannot start the event loop: {error}")))?;
    let sent = runtime.block_on(send(drive, &outgoing, Arc::new(target), &interrupt));
    // A request that the service never answers must not keep the process.
    runtime.shutdown_background();
    let (end, sums, elapsed) = sent?;
    let report = DriveReport {
        sums: &sums,
        url,
        speed: drive.speed_or_default(),
        elapsed,
        in_flight: drive.in_flight(),
    };
    let text = match args.written.output.or_json(args.written.json) {
        Output::Human => report.to_string(),
        Output::Json => json_lines(&report.to_json()),
    };
    print(&text, false)?;
    let events = outgoing.count();
    match end {
        End::Interrupted => Err(Failure::Interrupted(format!(
            "interrupted after {} of {events} requests; the sums are of these",
            sums.offered
        ))),
        End::NoDecision => Err(Failure::Message(format!(
            "{url}: no decision on the first {}, the rest was not sent; is this the `http` \
             listener of a Tollgate?",
            pluralize(sums.errors, "request")
        ))),
        End::Done if sums.decisions() == 0 && sums.offered > 0 => Err(Failure::Message(format!(
            "{url}: no decision on any request"
        ))),
        End::Done => Ok(()),
    }
}

/// Sends all requests, until the user interrupts; the sums, and how long it took.
async fn send(
    drive: &DriveArgs,
    outgoing: &Outgoing<'_>,
    target: Arc<Target>,
    interrupt: &Interrupt,
) -> Result<(End, Sums, Duration), Failure> {
    let unreachable = |why| Failure::Message(format!("{}: {why}", target.url()));
    target.connect_first().await.map_err(unreachable)?;
    let events = u64::try_from(outgoing.count()).unwrap_or(u64::MAX);
    print_plan(drive.speed_or_default(), outgoing);
    let bar = bar(Work::Sending, Some(events));
    let sums = Arc::new(Mutex::new(Sums::default()));
    let schedule = Schedule {
        pace: Pace::new(
            drive.speed_or_default(),
            outgoing.bounds().map(|(first, _)| first),
        ),
        in_flight: drive.in_flight(),
        sums: Arc::clone(&sums),
    };
    let start = Instant::now();
    let requests = outgoing.iter().map(|request| {
        bar.inc(1);
        (request.at, request)
    });
    let sending = schedule.run(requests, |request| {
        let (target, body) = (Arc::clone(&target), outgoing.body(request));
        async move { target.ask(body).await }
    });
    // Up to here, Ctrl-C ends the process. This one is polled first, so that it listens before the
    // other one only takes note.
    let mut interrupted = pin!(tokio::signal::ctrl_c().fuse());
    let _ = interrupted.as_mut().now_or_never();
    interrupt.decide();
    let end = tokio::select! {
        biased;
        _ = interrupted => End::Interrupted,
        end = sending => end,
    };
    let elapsed = start.elapsed();
    bar.finish_and_clear();
    let sums = sums.lock().unwrap_or_else(PoisonError::into_inner).clone();
    Ok((end, sums, elapsed))
}

/// Says how long it will take, because logs can be of years.
fn print_plan(speed: Speed, outgoing: &Outgoing<'_>) {
    let Some((first, last)) = outgoing.bounds() else {
        return;
    };
    let Some(takes) = Pace::new(speed, Some(first)).due(last) else {
        return;
    };
    let log = last.as_nanos().saturating_sub(first.as_nanos());
    let takes = u64::try_from(takes.as_nanos()).unwrap_or(u64::MAX);
    print_notice(format_args!(
        "{} of {} at {speed}: sending takes {}",
        pluralize(outgoing.count(), "request"),
        whole_seconds(log),
        whole_seconds(takes)
    ));
}

/// A time in words, without fractions of a second.
fn whole_seconds(nanos: u64) -> Span {
    Span::from_secs(nanos.div_ceil(Span::SECOND.as_nanos()))
}

/// The format that the command line gives, if the options are complete and fit together.
fn format(args: &Args) -> Result<Format, Failure> {
    let usage = |message: &str| Err(Failure::Message(message.to_owned()));
    let kind = super::args::kind(args)?;
    if args.log.format == LogFormat::Jsonl {
        return Ok(Format::Trace);
    }
    let Some(domain) = &args.domain else {
        return usage(
            "with --target, name the domain of the service's rules that applies: --domain NAME",
        );
    };
    if domain.is_empty() {
        return usage("--domain is empty; name a domain of the service's rules");
    }
    let (domain, descriptors) = (domain.clone(), args.descriptors.clone());
    if args.log.format == LogFormat::Counts {
        let (keys, start) = generation(args);
        return Ok(Format::Counts {
            domain,
            descriptors,
            keys,
            start,
        });
    }
    Ok(Format::AccessLog {
        kind: kind.unwrap_or(LogKind::Combined),
        domain,
        descriptors,
    })
}

// === impl DriveArgs ===

impl DriveArgs {
    /// The first of these options that is given without an address.
    pub(super) fn without_target(&self) -> Option<&'static str> {
        let options = [
            ("--speed", self.speed.is_some()),
            ("--in-flight", self.in_flight.is_some()),
            ("--token-file", self.token_file.is_some()),
            ("--token-env", self.token_env.is_some()),
            ("--ca, --cert and --key", self.tls != TlsArgs::default()),
        ];
        let given = options.into_iter().find(|(_, is_given)| *is_given);
        given
            .map(|(name, _)| name)
            .filter(|_| self.target.is_none())
    }

    fn speed_or_default(&self) -> Speed {
        self.speed.unwrap_or(Speed::LOG)
    }

    fn in_flight(&self) -> NonZeroUsize {
        self.in_flight.unwrap_or(IN_FLIGHT)
    }

    /// The token to send, if one is named.
    fn token(&self) -> Result<Option<http::HeaderValue>, String> {
        let sources = TokenSources {
            file: self.token_file.clone(),
            env: self.token_env.clone(),
        };
        let option = match self.token_file {
            Some(_) => "--token-file",
            None => "--token-env",
        };
        let tokens = sources.read();
        let tokens = tokens.map_err(|invalid| format!("{option}: {invalid}"))?;
        Ok(tokens.first().map(|token| bearer(token)))
    }
}
