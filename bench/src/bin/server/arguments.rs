//! The program's arguments.

use std::error::Error;
use std::path::PathBuf;

use tollgate_bench::command_line::{number, read_options};

use crate::contender::{Contender, Launch};
use crate::floor::Floor;
use crate::question::Question;

/// Hidden: the option with which this program starts itself as a floor.
pub(crate) const SERVE_FLOOR: &str = "--serve-floor";

pub(crate) const USAGE: &str = "\
Compares the service over sockets with Redis and other rate limiters.

Usage: cargo xtask bench server [options]

  --quick              only five loads, for a second in each of three rounds, and half of the
                       highest rate: nine minutes instead of hours
  --only WORD          only contenders and loads with this word in their names; may be repeated,
                       and then a name with any of the words is enough
  --instructions       count the instructions of a decision in place of its time, with `valgrind`:
                       those of user mode, which other load on the machine does not change
  --list               print the names of the contenders and of the loads
  --seconds N          measure each contender for N seconds in each round (2; quick: 1)
  --rounds N           how many rounds (3)
  --contender NAME=KIND=COMMAND
                       another contender: COMMAND is run by sh, with {port} replaced by where it is
                       to listen and {settings} by settings of Tollgate for that port. KIND is how
                       it is asked: incr, cl.throttle, tg.check, throttle, throttle-http,
                       throttle-grpc, check, check-list, json, grpc, grpc-2 or grpc-stream
  --json PATH          also write the results as JSON
  --svg PATH           also write processor time per decision as a picture
  --help               print this help

Given by the chore, which builds or installs them:
  --tollgate PATH, --redis-cell PATH, --throttlecrab PATH
";

/// The parsed arguments.
#[derive(Debug, Default)]
pub(crate) struct Arguments {
    pub(crate) quick: bool,
    pub(crate) instructions: bool,
    pub(crate) list: bool,
    pub(crate) help: bool,
    seconds: Option<u32>,
    rounds: Option<u32>,
    only: Vec<String>,
    pub(crate) json: Option<PathBuf>,
    pub(crate) svg: Option<PathBuf>,
    tollgate: PathBuf,
    /// `None` if they are not there.
    pub(crate) redis_cell: Option<PathBuf>,
    pub(crate) throttlecrab: Option<PathBuf>,
    others: Vec<Contender>,
    /// The floor that this process is to be, and its port.
    pub(crate) floor: Option<(Floor, u16)>,
}

// === impl Arguments ===

impl Arguments {
    /// Parses the command line.
    pub(crate) fn from_args(
        args: impl Iterator<Item = String>,
    ) -> Result<Arguments, Box<dyn Error>> {
        let mut arguments = Arguments {
            tollgate: PathBuf::from("target/release/tollgate"),
            ..Arguments::default()
        };
        read_options(args, |option, value| {
            match option {
                "--quick" => arguments.quick = true,
                "--instructions" => arguments.instructions = true,
                "--list" => arguments.list = true,
                "--help" => arguments.help = true,
                "--seconds" => arguments.seconds = Some(number(option, &value()?)?),
                "--rounds" => arguments.rounds = Some(number(option, &value()?)?),
                "--only" => arguments.only.push(value()?),
                "--contender" => arguments.others.push(other(&value()?)?),
                "--json" => arguments.json = Some(value()?.into()),
                "--svg" => arguments.svg = Some(value()?.into()),
                "--tollgate" => arguments.tollgate = value()?.into(),
                "--redis-cell" => arguments.redis_cell = Some(value()?.into()),
                "--throttlecrab" => arguments.throttlecrab = Some(value()?.into()),
                SERVE_FLOOR => {
                    let (name, port) = (value()?, value()?);
                    let mut floors = Floor::ALL.into_iter();
                    let floor = floors.find(|(known, _)| *known == name);
                    let (_, floor) = floor.ok_or_else(|| format!("`{name}` is not a floor"))?;
                    arguments.floor = Some((floor, port.parse()?));
                }
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(arguments)
    }

    pub(crate) fn seconds(&self) -> u32 {
        self.seconds.unwrap_or(if self.quick { 1 } else { 2 })
    }

    pub(crate) fn rounds(&self) -> u32 {
        self.rounds.unwrap_or(3)
    }

    /// What is selected of these names; all of them, if no word is in any.
    pub(crate) fn select<T>(&self, all: Vec<T>, name: impl Fn(&T) -> String) -> Vec<T> {
        let is_named = |one: &T| {
            let name = name(one);
            self.only.iter().any(|word| name.contains(word.as_str()))
        };
        match all.iter().any(is_named) {
            true => all.into_iter().filter(is_named).collect(),
            false => all,
        }
    }

    /// All contenders that are there.
    pub(crate) fn contenders(&self) -> Vec<Contender> {
        let contender = |name: &str, question, launch| Contender {
            name: name.to_owned(),
            question,
            launch,
        };
        let redis = || Launch::Redis { module: None };
        let mut all = vec![
            contender("redis INCR", Question::Incr, redis()),
            contender("redis GCRA script", Question::Script, redis()),
        ];
        if let Some(module) = self.redis_cell.clone() {
            let launch = Launch::Redis {
                module: Some(module),
            };
            all.push(contender(
                "redis-cell CL.THROTTLE",
                Question::ClThrottle,
                launch,
            ));
        }
        if let Some(program) = &self.throttlecrab {
            for (transport, question) in [
                ("redis", Question::Throttle),
                ("http", Question::ThrottleHttp),
                ("grpc", Question::ThrottleGrpc),
            ] {
                let program = program.clone();
                let launch = Launch::Throttlecrab { program, transport };
                all.push(contender(
                    &format!("throttlecrab {transport}"),
                    question,
                    launch,
                ));
            }
        }
        let grpc = |descriptors| Question::RateLimit { descriptors };
        let floor = |name, question, floor| contender(name, question, Launch::Floor(floor));
        all.extend([
            floor("floor http", Question::Check, Floor::Http),
            floor("floor grpc", grpc(1), Floor::Grpc),
            floor("floor grpc 2", grpc(2), Floor::Grpc),
        ]);
        for (name, question) in [
            ("tollgate CL.THROTTLE", Question::ClThrottle),
            ("tollgate TG.CHECK", Question::TgCheck),
            ("tollgate /v1/check", Question::Check),
            ("tollgate /v1/check list", Question::CheckList),
            ("tollgate /json", Question::Json),
            ("tollgate grpc", grpc(1)),
            ("tollgate grpc 2", grpc(2)),
            ("tollgate grpc stream", Question::Stream),
        ] {
            all.push(contender(
                name,
                question,
                Launch::Tollgate(self.tollgate.clone()),
            ));
        }
        all.extend(self.others.iter().cloned());
        all
    }
}

/// A contender of the command line.
fn other(text: &str) -> Result<Contender, String> {
    let mut parts = text.splitn(3, '=');
    let (Some(name), Some(kind), Some(command)) = (parts.next(), parts.next(), parts.next()) else {
        return Err(format!("`--contender {text}`: write NAME=KIND=COMMAND"));
    };
    // A script must be loaded first, which only ours is.
    let kinds = Question::ALL.iter();
    let mut kinds = kinds.filter(|(_, question)| *question != Question::Script);
    let question = kinds.find(|(known, _)| *known == kind);
    let (_, question) = question.ok_or_else(|| {
        let problem = "is not a kind of request; `--help` lists them";
        format!("`--contender {text}`: `{kind}` {problem}")
    })?;
    Ok(Contender {
        name: name.to_owned(),
        question: *question,
        launch: Launch::Command(command.to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Scenario;

    fn parse(words: &[&str]) -> Result<Arguments, String> {
        let args = words.iter().map(|word| (*word).to_owned());
        Arguments::from_args(args).map_err(|error| error.to_string())
    }

    #[test]
    fn a_contender_may_have_equals_signs_in_its_command() {
        let other = "old=tg.check=A=b ./tollgate serve {settings}";
        let parsed = parse(&["--contender", other, "--seconds", "7"]).expect("all are known");
        let all = parsed.contenders();
        let last = all.last().expect("there are contenders");
        assert_eq!(
            (last.name.as_str(), last.question),
            ("old", Question::TgCheck)
        );
        assert_eq!(last.launch.settings(), "A=b ./tollgate serve {settings}");
        assert_eq!((parsed.seconds(), parsed.rounds()), (7, 3));
    }

    #[test]
    fn a_word_selects_contenders_or_loads() {
        let parsed = parse(&["--only", "INCR", "--only", "CL.T"]).expect("all are known");
        let contenders = parsed.select(parsed.contenders(), |one| one.name.clone());
        let names: Vec<&str> = contenders.iter().map(|one| one.name.as_str()).collect();
        assert_eq!(names, ["redis INCR", "tollgate CL.THROTTLE"]);
        let loads = parsed.select(Scenario::all(true), Scenario::name);
        assert_eq!(loads.len(), 5, "no word is in their names");
    }

    #[test]
    fn errors_are_reported() {
        let error = |words: &[&str]| parse(words).expect_err("it is invalid");
        assert!(error(&["--json"]).contains("needs a value"));
        assert!(error(&["--fast"]).contains("`--fast` is unknown"));
        assert!(error(&["--rounds", "0"]).contains("a number from 1 to 1000"));
        assert!(error(&["--contender", "a=b"]).contains("NAME=KIND=COMMAND"));
        assert!(error(&["--contender", "a=b=c"]).contains("`b` is not a kind"));
        assert!(error(&["--contender", "a=script=c"]).contains("is not a kind"));
    }
}
