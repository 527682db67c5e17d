//! The `tollgate` command.

mod replay;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// An exact, bounded, fast rate limiter.
#[derive(Debug, Parser)]
#[command(name = "tollgate", version, arg_required_else_help = true)]
struct Tollgate {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Replay(replay::Args),
}

fn main() -> ExitCode {
    match Tollgate::parse().command {
        Command::Replay(args) => replay::run(&args),
    }
}
