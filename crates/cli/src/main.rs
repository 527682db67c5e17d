//! The `tollgate` command.
#![deny(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "they panic if the output cannot be written: use `message`, or report the error"
)]

mod admin_client;
mod check;
mod explain;
mod key_shape_args;
mod keys;
mod log_args;
mod message;
mod output;
mod output_file;
mod plan;
mod printable;
mod replay;
mod same_file;
mod schema;
mod serve;
mod service_url;
mod settings;
mod simulate;
mod suggest;
mod tls_args;
mod top;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use message::print_error;

/// A rate limiter: the service, and tools for its rules and its keys.
#[derive(Debug, Parser)]
#[command(name = "tollgate", version, arg_required_else_help = true)]
struct Tollgate {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::Args),
    Check(check::Args),
    Explain(explain::Args),
    Keys(keys::Args),
    Plan(plan::Args),
    // Boxed: no other command has nearly as many options.
    Replay(Box<replay::Args>),
    Schema(schema::Args),
    Simulate(simulate::Args),
    Suggest(suggest::Args),
    Top(top::Args),
}

fn main() -> ExitCode {
    let parsed = match Tollgate::try_parse() {
        Ok(parsed) => parsed,
        Err(error) => return show(&error),
    };
    match parsed.command {
        Command::Serve(args) => serve::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Explain(args) => explain::run(&args),
        Command::Keys(args) => keys::run(&args),
        Command::Plan(args) => plan::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Schema(args) => schema::run(&args),
        Command::Simulate(args) => simulate::run(&args),
        Command::Suggest(args) => suggest::run(&args),
        Command::Top(args) => top::run(&args),
    }
}

/// Prints help or the version, as asked for, or what is wrong with the arguments.
fn show(error: &clap::Error) -> ExitCode {
    let printed = error.print().and_then(|()| io::stdout().flush());
    if let Err(message) = output::written(printed) {
        print_error(&message);
        return ExitCode::from(2);
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}
