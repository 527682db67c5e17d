//! The crates and files of the project, as ARCHITECTURE.md shows them.

use xtask::architecture;

use crate::chore::Chore;

pub(crate) const CHORE: Chore = Chore {
    name: "map",
    about: "[--write]: the graph of crates and files, printed or written to ARCHITECTURE.md",
    run,
};

fn run(args: &[String]) -> Result<(), String> {
    match args {
        [] => {
            print!("{}", architecture::generate());
            Ok(())
        }
        [option] if option == "--write" => architecture::write(),
        _ => Err("this takes `--write` and nothing else".into()),
    }
}
