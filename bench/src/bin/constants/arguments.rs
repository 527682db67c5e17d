//! The program's arguments.

use std::error::Error;
use std::path::PathBuf;

use tollgate_bench::command_line::{number, read_options};

pub(crate) const USAGE: &str = "\
Measures the constants of `tollgate plan`.

Usage: cargo xtask bench constants [options]

  --write FILE   where they are written (crates/cli/src/plan/constants.json)
  --rounds N     how many rounds, of which medians count (3)
  --help         print this help

Given by the chore, which builds them:
  --tollgate PATH, --server PATH, --gateway PATH
";

/// The parsed arguments.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Arguments {
    pub(crate) help: bool,
    pub(crate) rounds: u32,
    pub(crate) write: PathBuf,
    pub(crate) tollgate: PathBuf,
    /// The comparisons of the service and of the gateway.
    pub(crate) server: PathBuf,
    pub(crate) gateway: PathBuf,
}

// === impl Arguments ===

impl Arguments {
    /// Parses the command line.
    pub(crate) fn from_args(
        args: impl Iterator<Item = String>,
    ) -> Result<Arguments, Box<dyn Error>> {
        let mut arguments = Arguments {
            help: false,
            rounds: 3,
            write: PathBuf::from("crates/cli/src/plan/constants.json"),
            tollgate: PathBuf::from("target/release/tollgate"),
            server: PathBuf::from("target/release/tollgate-bench-server"),
            gateway: PathBuf::from("target/release/tollgate-bench-gateway"),
        };
        read_options(args, |option, value| {
            match option {
                "--help" => arguments.help = true,
                "--rounds" => arguments.rounds = number(option, &value()?)?,
                "--write" => arguments.write = value()?.into(),
                "--tollgate" => arguments.tollgate = value()?.into(),
                "--server" => arguments.server = value()?.into(),
                "--gateway" => arguments.gateway = value()?.into(),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(arguments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Arguments, String> {
        let args = line.split_whitespace().map(str::to_owned);
        Arguments::from_args(args).map_err(|error| error.to_string())
    }

    #[test]
    fn options_are_parsed() {
        let all = parse("--write a --rounds 2 --tollgate b --server c --gateway d");
        let all = all.expect("all are known");
        let paths = [&all.write, &all.tollgate, &all.server, &all.gateway];
        assert_eq!(
            paths.map(|path| path.display().to_string()),
            ["a", "b", "c", "d"]
        );
        assert_eq!((all.rounds, all.help), (2, false));
    }

    #[test]
    fn errors_are_reported() {
        let error = |line| parse(line).expect_err("it is invalid");
        assert!(error("--write").contains("needs a value"));
        assert!(error("--fast").contains("`--fast` is unknown"));
        assert!(error("--rounds 0").contains("a number from 1 to 1000"));
    }
}
