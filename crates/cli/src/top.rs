//! `tollgate top`: the dashboard of a running service in a terminal.

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use tokio::sync::mpsc::channel;

use crate::admin_client::{Access, AdminClient};
use crate::message::{print_error, with_causes};
use crate::output::{self, Output};
use crate::printable::json_lines;
use crate::service_url::ServiceUrl;
use feed::{Feed, Update, follow};
use history::History;
use report::report;
use screen::{Next, Screen};
use terminal::{Stopped, show};

mod chart;
mod feed;
mod gateway;
mod history;
mod number;
mod overview;
mod panel;
mod panels;
mod report;
#[cfg(test)]
mod sample;
mod screen;
mod snapshot;
mod terminal;
mod tone;

/// Updates that wait for the screen to be drawn; then the connection waits.
const UPDATES_MAX: usize = 4;

/// Show what a running service does now: the dashboard in a terminal.
///
/// Shows decisions per second and how long they take, the keys with the most denials and the most
/// requests, how much of each rule's budget is used, stores, and reloads. The numbers are those of
/// the page `/` of the admin listener. If standard output is not a terminal, prints them once.
///
/// Press q to quit, Tab or 1 to 5 to change the view, and the arrows, PgUp, PgDn, Home and End to
/// scroll.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The admin listener of the service.
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:6070")]
    url: ServiceUrl,
    /// Print the current state as text, and exit. This is the default if standard output is not a
    /// terminal.
    #[arg(long)]
    once: bool,
    /// How long to count keys and decisions before printing them, with --once.
    #[arg(long, value_name = "SECONDS", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Report format. JSON implies --once, and prints the latest snapshot as the service sent it.
    #[arg(long, value_enum, default_value_t = Output::Human, visible_alias = "format")]
    output: Output,
    #[command(flatten)]
    access: Access,
}

const AFTER_HELP: &str = "\
No colours are used if the environment variable NO_COLOR is set.

Exit status: 0 if it was ended by a key, SIGINT, SIGTERM or SIGHUP, or has printed; 1 if the \
service does not answer or is not Tollgate; 2 if the command line is wrong, a file cannot be \
read, or standard output cannot be written.";

/// The exit status, and why.
struct Failure(u8, String);

pub(crate) fn run(args: &Args) -> ExitCode {
    match execute(args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure(status, message)) => {
            print_error(&message);
            ExitCode::from(status)
        }
    }
}

fn execute(args: &Args) -> Result<(), Failure> {
    let client = AdminClient::open(args.url.clone(), &args.access);
    let client = client.map_err(|invalid| Failure(2, invalid))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Failure(1, with_causes(&error)))?;
    let is_once = args.once || args.output == Output::Json || !io::stdout().is_terminal();
    match is_once {
        true => {
            let text = runtime.block_on(print_once(&client, args))?;
            output::print(&text).map_err(|message| Failure(2, message))
        }
        false => runtime.block_on(watch(client)),
    }
}

/// The dashboard as text, after it has been counted for as long as the options say.
async fn print_once(client: &AdminClient, args: &Args) -> Result<String, Failure> {
    let mut feed = Feed::open(client).await?;
    let mut history = History::default();
    loop {
        let (snapshot, document) = feed.next().await?;
        history.push(snapshot);
        if let Some(latest) = history.latest()
            && history.watched_millis() >= args.seconds.saturating_mul(1000)
        {
            return Ok(match args.output {
                Output::Human => report(&client.url().to_string(), &history, latest),
                Output::Json => json_lines(&document),
            });
        }
    }
}

/// Shows the dashboard in the terminal. The first connection must succeed; later ones are tried
/// again.
async fn watch(client: AdminClient) -> Result<(), Failure> {
    let has_colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let mut screen = Screen::new(client.url().to_string(), has_colours);
    let (sender, mut updates) = channel(UPDATES_MAX);
    let following = tokio::spawn(follow(client, sender));
    match updates.recv().await {
        Some(Update::Lost(failure, _) | Update::Failed(failure)) => return Err(failure.into()),
        Some(update) => {
            if let Next::Fail(failure) = screen.update(update) {
                return Err(failure.into());
            }
        }
        None => {}
    }
    let shown = show(screen, updates).await;
    following.abort();
    shown.map_err(|stopped| match stopped {
        Stopped::Terminal(error) => Failure(1, format!("the terminal: {error}")),
        Stopped::Service(failure) => failure.into(),
    })
}

// === impl Failure ===

impl From<crate::admin_client::Failure> for Failure {
    fn from(failure: crate::admin_client::Failure) -> Failure {
        Failure(1, failure.to_string())
    }
}
