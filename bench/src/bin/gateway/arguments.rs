//! The program's arguments.

use std::error::Error;
use std::path::PathBuf;

use tollgate_bench::command_line::{number, read_options};

pub(crate) const USAGE: &str = "\
Compares the gateway with other reverse proxies.

Usage: cargo xtask bench gateway [options]

  --seconds N    measure each contender for N seconds in each round (4)
  --rounds N     how many rounds (5)
  --json PATH    also write the results as JSON
  --help         print this help

Given by the chore, which builds or installs them:
  --tollgate PATH, --envoy PATH
";

/// The parsed arguments.
#[derive(Debug)]
pub(crate) struct Arguments {
    pub(crate) seconds: u32,
    pub(crate) rounds: u32,
    pub(crate) help: bool,
    pub(crate) json: Option<PathBuf>,
    pub(crate) tollgate: PathBuf,
    /// `None` to leave Envoy out.
    pub(crate) envoy: Option<PathBuf>,
}

// === impl Arguments ===

impl Arguments {
    /// Parses the command line.
    pub(crate) fn from_args(
        args: impl Iterator<Item = String>,
    ) -> Result<Arguments, Box<dyn Error>> {
        let mut arguments = Arguments {
            seconds: 4,
            rounds: 5,
            help: false,
            json: None,
            tollgate: PathBuf::from("target/release/tollgate"),
            envoy: None,
        };
        read_options(args, |option, value| {
            match option {
                "--seconds" => arguments.seconds = number(option, &value()?)?,
                "--rounds" => arguments.rounds = number(option, &value()?)?,
                "--json" => arguments.json = Some(value()?.into()),
                "--tollgate" => arguments.tollgate = value()?.into(),
                "--envoy" => arguments.envoy = Some(value()?.into()),
                "--help" => arguments.help = true,
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
        let all = parse("--seconds 2 --rounds 3 --json a --tollgate b --envoy c");
        let all = all.expect("all are known");
        assert_eq!((all.seconds, all.rounds), (2, 3));
        assert_eq!(all.json, Some("a".into()));
        assert_eq!(all.tollgate, PathBuf::from("b"));
        assert_eq!(all.envoy, Some("c".into()));
    }

    #[test]
    fn errors_are_reported() {
        let error = |line| parse(line).expect_err("it is invalid");
        assert!(error("--json").contains("needs a value"));
        assert!(error("--fast").contains("`--fast` is unknown"));
        assert!(error("--rounds 0").contains("a number from 1 to 1000"));
    }
}
