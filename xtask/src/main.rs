//! `cargo xtask`: one command for each chore.
#![expect(clippy::print_stdout, reason = "a chore prints what it does")]

mod chore;

mod step;
mod test_results;

mod tools;

mod ci;

mod loom;

mod asan;

mod attack;

mod stress;

mod simulate;

mod deny;

mod miri;
mod package;

mod feature_sets;

mod fuzz;

mod bench;

mod map;

use std::process::ExitCode;

use chore::Chore;

const CHORES: [Chore; 13] = [
    ci::CHORE,
    loom::CHORE,
    asan::CHORE,
    stress::CHORE,
    attack::CHORE,
    simulate::CHORE,
    simulate::INSTANCES,
    deny::CHORE,
    miri::CHORE,
    package::CHORE,
    fuzz::CHORE,
    bench::CHORE,
    map::CHORE,
];

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let Some(name) = args.next() else {
        print_list();
        return ExitCode::SUCCESS;
    };
    let Some(chore) = CHORES.iter().find(|chore| chore.name == name) else {
        eprintln!("There is no chore `{name}`.");
        print_list();
        return ExitCode::FAILURE;
    };
    match (chore.run)(&args.collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("cargo xtask {name}: {problem}");
            ExitCode::FAILURE
        }
    }
}

fn print_list() {
    println!("Usage: cargo xtask CHORE\n");
    for Chore { name, about, .. } in CHORES {
        println!("  {name:<16}{about}");
    }
}
