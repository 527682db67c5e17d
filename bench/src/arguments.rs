//! The program's arguments.

use std::error::Error;
use std::path::PathBuf;

use tollgate_bench::command_line::read_options;

use crate::instructions::COUNT_ONE;
use crate::scenario::Scenario;

/// Hidden: the option with which this program starts a process that measures one scenario.
pub(crate) const RUN_ONE: &str = "--run-one";

pub(crate) const USAGE: &str = "\
Compares Tollgate with other rate limiters.

Usage: cargo run --release -p tollgate-bench -- [options]

  --quick            run only the scenarios for which there are targets: under three
                     minutes, instead of about three quarters of an hour
  --scenario PART    run only scenarios with PART in their names
  --instructions     also count the instructions of a decision, with valgrind: a few minutes more
  --list             print the names of the scenarios, and run none
  --json PATH        also write the results as JSON
  --svg PATH         also write the results as a picture
  --help             print this help
";

/// The parsed arguments.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Arguments {
    pub(crate) quick: bool,
    pub(crate) instructions: bool,
    pub(crate) list: bool,
    pub(crate) help: bool,
    pub(crate) json: Option<PathBuf>,
    pub(crate) svg: Option<PathBuf>,
    pub(crate) part: Option<String>,
    pub(crate) run_one: Option<String>,
    /// A scenario, and a contender of it.
    pub(crate) count_one: Option<(String, String)>,
}

// === impl Arguments ===

impl Arguments {
    /// Parses the command line.
    pub(crate) fn from_args(
        args: impl Iterator<Item = String>,
    ) -> Result<Arguments, Box<dyn Error>> {
        let mut arguments = Arguments::default();
        read_options(args, |option, value| {
            match option {
                "--quick" => arguments.quick = true,
                "--list" => arguments.list = true,
                "--help" => arguments.help = true,
                "--json" => arguments.json = Some(value()?.into()),
                "--svg" => arguments.svg = Some(value()?.into()),
                "--scenario" => arguments.part = Some(value()?),
                "--instructions" => arguments.instructions = true,
                COUNT_ONE => arguments.count_one = Some((value()?, value()?)),
                RUN_ONE => arguments.run_one = Some(value()?),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(arguments)
    }

    /// The scenarios to measure, in order.
    pub(crate) fn scenarios(&self) -> Vec<Scenario> {
        let mut scenarios = if self.quick {
            Scenario::quick()
        } else {
            Scenario::all()
        };
        if let Some(part) = &self.part {
            scenarios.retain(|scenario| scenario.name().contains(part));
        }
        scenarios
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
        let line = "--quick --instructions --json a.json --svg a.svg --scenario hot";
        let all = parse(line).expect("all are known");
        assert!(all.quick && all.instructions && !all.list);
        assert_eq!(all.json, Some("a.json".into()));
        let names: Vec<String> = all.scenarios().iter().map(Scenario::name).collect();
        let hot = ["hot-u64-denied-2t", "hot-u64-allowed-2t"];
        let loads = ["denied-2t", "allowed-1t", "allowed-2t"];
        assert_eq!(names[..2], hot);
        assert_eq!(
            names[2..],
            loads.map(|load| format!("algorithms-hot-u64-{load}"))
        );
    }

    #[test]
    fn errors_are_reported() {
        assert!(
            parse("--json")
                .expect_err("no path")
                .contains("needs a value")
        );
        assert!(
            parse("--fast")
                .expect_err("no such option")
                .contains("`--fast` is unknown")
        );
    }

    #[test]
    fn no_two_scenarios_share_a_name_and_the_quick_ones_are_in_all() {
        let names: Vec<String> = Scenario::all().iter().map(Scenario::name).collect();
        let distinct: std::collections::HashSet<&String> = names.iter().collect();
        assert_eq!(distinct.len(), names.len());
        assert!(
            Scenario::quick()
                .iter()
                .all(|quick| names.contains(&quick.name()))
        );
    }
}
