//! Every input in `regressions/`: those that once failed, and the seeds of the corpus.

use std::fs;
use std::path::Path;

/// A target's name and body.
type Target = (&'static str, fn(&[u8]));

const TARGETS: [Target; 13] = [
    ("access_log", tollgate_fuzz::access_log),
    ("answers", tollgate_fuzz::answers),
    ("asks", tollgate_fuzz::asks),
    ("check", tollgate_fuzz::check),
    ("checks", tollgate_fuzz::checks),
    ("commands", tollgate_fuzz::commands),
    ("decision", tollgate_fuzz::decision),
    ("message", tollgate_fuzz::message),
    ("replies", tollgate_fuzz::replies),
    ("request", tollgate_fuzz::request),
    ("rules", tollgate_fuzz::rules),
    ("store", tollgate_fuzz::store),
    ("trace", tollgate_fuzz::trace),
];

#[test]
fn every_input_passes() {
    for (name, target) in TARGETS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
        let folder = folder.join("regressions").join(name);
        let files = fs::read_dir(&folder).expect("a folder for each target");
        let mut count = 0;
        for file in files {
            let path = file.expect("a readable folder").path();
            eprintln!("{}", path.display());
            target(&fs::read(&path).expect("a readable file"));
            count += 1;
        }
        assert!(count > 0, "{} is empty", folder.display());
    }
}

#[test]
fn every_target_is_among_them() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("targets");
    let files = fs::read_dir(folder).expect("the targets");
    let mut names: Vec<String> = files
        .map(|file| file.expect("a readable folder").path())
        .filter_map(|path| Some(path.file_stem()?.to_str()?.to_owned()))
        .collect();
    names.sort_unstable();
    assert_eq!(names, TARGETS.map(|(name, _)| name));
}
