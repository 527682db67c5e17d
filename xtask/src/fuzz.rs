//! The fuzz targets.

use std::fs;

use xtask::source::root;

use crate::chore::{Chore, parse_seconds};
use crate::step::{Step, target};
use crate::tools;

pub(crate) const CHORE: Chore = Chore {
    name: "fuzz",
    about: "[--seconds 60] [TARGET...]: every fuzz target, or those named, for a minute each",
    run,
};

const PROGRAM: &str = "cargo-fuzz";
const VERSION: &str = "0.13.2";
const SECONDS: u64 = 60;

/// Fuzzes every target, or those named, each for the given time.
fn run(args: &[String]) -> Result<(), String> {
    let (seconds, named) = match args {
        [option, seconds, named @ ..] if option == "--seconds" => (parse_seconds(seconds)?, named),
        named => (SECONDS, named),
    };
    let all = targets()?;
    if let Some(unknown) = named.iter().find(|name| !all.contains(name)) {
        let all = all.join(", ");
        return Err(format!("there is no target `{unknown}`, only {all}"));
    }
    tools::ensure_debian("g++", "g++")?;
    tools::ensure_cargo(PROGRAM, VERSION)?;
    let chosen = if named.is_empty() { &all[..] } else { named };
    let failed = chosen
        .iter()
        .filter(|name| fuzz(name, seconds).is_err())
        .map(String::as_str)
        .collect::<Vec<_>>();
    match failed[..] {
        [] => Ok(()),
        _ => Err(format!(
            "{} failed: put the input named above into fuzz/regressions/TARGET/, where `cargo \
             test -p tollgate-fuzz` runs it from now on, and fix the defect",
            failed.join(", ")
        )),
    }
}

fn targets() -> Result<Vec<String>, String> {
    let folder = root().join("fuzz/targets");
    let files = fs::read_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let stem = |file: fs::DirEntry| Some(file.path().file_stem()?.to_str()?.to_owned());
    let mut targets: Vec<String> = files.filter_map(Result::ok).filter_map(stem).collect();
    targets.sort_unstable();
    Ok(targets)
}

/// With AddressSanitizer, which the stable compiler gives out under `RUSTC_BOOTSTRAP`; cargo would
/// keep that variable from a subcommand, so the program is called by its own name.
fn fuzz(name: &str, seconds: u64) -> Result<(), String> {
    let corpus = target("fuzz/corpus").join(name);
    let regressions = root().join("fuzz/regressions").join(name);
    for folder in [&corpus, &regressions] {
        fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    }
    Step::new("fuzz", PROGRAM)
        .args(["run", "--fuzz-dir", "fuzz", "--features", "libfuzzer"])
        .args(["--target-dir".into(), target("fuzz")])
        .args([name.as_ref(), corpus.as_os_str(), regressions.as_os_str()])
        .args(["--".into(), format!("-max_total_time={seconds}")])
        .args(["-timeout=10", "-rss_limit_mb=2048", "-print_final_stats=1"])
        .env("RUSTC_BOOTSTRAP", "1")
        // Linking the whole program for each target takes longer than it fuzzes.
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
        .run()
}
