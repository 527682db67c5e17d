//! The program's arguments.

use std::path::PathBuf;
use std::time::Duration;

/// The first word of the process that is the well-behaved client.
pub(crate) const CLIENT: &str = "client";

pub(crate) const USAGE: &str = "\
Usage: tollgate-attack --tollgate PATH [OPTION]...

  --tollgate PATH        the program to attack
  --seconds N            duration of each attack (default: 10)
  --settle N             seconds until memory must have been returned (default: 20)
  --address-space MIB    limit the address space to this size; 0 is no limit
                         (default: 0, then 512)
  --p99 MS               a p99 of the client that is not below this is a fault
                         (default: 50)
  --only WORDS           run only attacks with these words in their names
";

/// Address spaces of the service: unlimited, and so many MiB.
const ADDRESS_SPACES: [Option<u64>; 2] = [None, Some(512)];

/// What the client's p99 must be below on a machine that does nothing else.
const P99_BOUND: Duration = Duration::from_millis(50);

/// The parsed arguments.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Arguments {
    pub(crate) help: bool,
    pub(crate) tollgate: PathBuf,
    pub(crate) lasts: Duration,
    pub(crate) settle: Duration,
    pub(crate) address_spaces: Vec<Option<u64>>,
    /// What the client's p99 must be below.
    pub(crate) p99_bound: Duration,
    only: Option<String>,
}

// === impl Arguments ===

impl Arguments {
    /// Parses the command line.
    pub(crate) fn parse(words: &[String]) -> Result<Arguments, String> {
        let mut arguments = Arguments {
            help: false,
            tollgate: PathBuf::new(),
            lasts: Duration::from_secs(10),
            settle: Duration::from_secs(20),
            address_spaces: ADDRESS_SPACES.to_vec(),
            p99_bound: P99_BOUND,
            only: None,
        };
        let mut words = words.iter();
        while let Some(option) = words.next() {
            if option == "--help" {
                arguments.help = true;
                return Ok(arguments);
            }
            let value = words
                .next()
                .ok_or_else(|| format!("{option} needs a value"))?;
            let number = || {
                let number = value.parse::<u64>();
                number.map_err(|_| format!("{option} takes a whole number, not `{value}`"))
            };
            match option.as_str() {
                "--tollgate" => arguments.tollgate = value.into(),
                "--seconds" => arguments.lasts = Duration::from_secs(number()?),
                "--settle" => arguments.settle = Duration::from_secs(number()?),
                "--address-space" => {
                    let mib = number()?;
                    arguments.address_spaces = vec![(mib > 0).then_some(mib)];
                }
                "--p99" => arguments.p99_bound = Duration::from_millis(number()?),
                "--only" => arguments.only = Some(value.clone()),
                _ => return Err(format!("there is no option {option}\n{USAGE}")),
            }
        }
        if arguments.tollgate.as_os_str().is_empty() {
            return Err(format!("--tollgate is missing\n{USAGE}"));
        }
        Ok(arguments)
    }

    /// Whether the attack of this name is selected.
    pub(crate) fn chooses(&self, name: &str) -> bool {
        self.only.as_ref().is_none_or(|words| name.contains(words))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Arguments, String> {
        let words: Vec<String> = text.split(' ').map(str::to_owned).collect();
        Arguments::parse(&words)
    }

    #[test]
    fn arguments_are_read() {
        let read = parse("--tollgate t --seconds 2 --address-space 512 --only ping").expect("good");
        assert_eq!(read.lasts, Duration::from_secs(2));
        assert_eq!(read.address_spaces, [Some(512)]);
        assert_eq!(read.p99_bound, Duration::from_millis(50));
        let read_bound = parse("--tollgate t --p99 1000").expect("good");
        assert_eq!(read_bound.p99_bound, Duration::from_secs(1));
        assert!(read.chooses("ping flood") && !read.chooses("rapid reset"));
        let both = parse("--tollgate t").expect("good");
        assert_eq!(both.address_spaces, [None, Some(512)]);
        for wrong in [
            "--seconds 2",
            "--tollgate",
            "--tollgate t --seconds x",
            "--tollgate t --p99 50ms",
            "--no 1",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
