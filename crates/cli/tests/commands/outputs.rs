//! What commands write: never over a file that they read, and without a panic where nothing can be
//! written.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Stdio;

use tempfile::TempDir;

use crate::house::{RULES, SETTINGS, Service, directory, run, text, tollgate};

const LINE: &str = "192.0.2.1 - - [01/Jan/2026:10:00:00 +0000] \"GET / HTTP/1.1\" 200 1\n";
const BAD_RULES: &str = "domain: d\ndescriptors: [{key: k, rate_limt: 1/day}]\n";

fn scene() -> TempDir {
    directory(&[
        ("rules.yaml", RULES),
        ("bad.yaml", BAD_RULES),
        ("tollgate.yaml", SETTINGS),
        ("x.log", LINE),
        ("x.partial", LINE),
    ])
}

fn read(directory: &TempDir, name: &str) -> String {
    fs::read_to_string(directory.path().join(name)).unwrap()
}

fn partial_files(directory: &TempDir) -> Vec<String> {
    let names = fs::read_dir(directory.path()).unwrap();
    let names = names.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.ends_with(".partial")).collect()
}

#[test]
fn no_option_overwrites_a_file_that_the_command_reads() {
    let directory = scene();
    symlink("x.log", directory.path().join("link")).unwrap();
    let suggest: &[&str] = &["suggest"];
    let replay: &[&str] = &[
        "replay",
        "--rules",
        "rules.yaml",
        "--descriptor",
        "k={client}",
    ];
    for (command, option, path, input) in [
        (suggest, "--write-rules", "x.log", "x.log"),
        (suggest, "--write-rules", "./x.log", "x.log"),
        (suggest, "--write-rules", "link", "x.log"),
        (suggest, "--write-rules", "x", "x.partial"),
        (replay, "--decisions", "x.log", "x.log"),
        (replay, "--decisions", "link", "x.log"),
        (replay, "--decisions", "x", "x.partial"),
        (replay, "--decisions", "rules.yaml", "rules.yaml"),
        (replay, "--report", "link", "x.log"),
        (replay, "--report", "x", "x.partial"),
    ] {
        let arguments = [command, &[option, path, "x.log", "x.partial"]].concat();
        let shown = text(&run(directory.path(), &arguments), 2);
        let expected = format!("error: {option} would overwrite {input}; name another file\n");
        assert_eq!(shown, expected, "{arguments:?}");
    }
    let both = ["--report", "./new", "--decisions", "new", "x.log"];
    let shown = text(&run(directory.path(), &[replay, &both].concat()), 2);
    assert_eq!(
        shown,
        "error: --report would overwrite new; name another file\n"
    );
    for (name, expected) in [("x.log", LINE), ("x.partial", LINE), ("rules.yaml", RULES)] {
        assert_eq!(read(&directory, name), expected);
    }
}

/// A link in the directory leads to the name that an output has until it is complete.
#[test]
fn no_option_overwrites_a_rules_file_in_a_directory() {
    let directory = directory(&[("rules.yaml", RULES), ("x.log", LINE), ("x.partial", RULES)]);
    let path = |name: &str| directory.path().join(name);
    for (name, file) in [
        ("rd", "rules.yaml"),
        ("old", "rules.yml"),
        ("linked", "a.yaml"),
    ] {
        fs::create_dir(path(name)).unwrap();
        fs::write(path(name).join("notes.txt"), LINE).unwrap();
        match name {
            "linked" => symlink("../x.partial", path(name).join(file)).unwrap(),
            _ => fs::write(path(name).join(file), RULES).unwrap(),
        }
    }
    symlink("rd/rules.yaml", path("link")).unwrap();
    let by = ["--descriptor", "k={client}"];
    let replay = [&["replay", "x.log"][..], &by].concat();
    let simulate = [&["simulate", "--traffic", "constant 1/s"][..], &by].concat();
    let [replay_rd, simulate_rd] =
        [&replay, &simulate].map(|command| [&command[..], &["--rules", "rd"]].concat());
    let compared = ["--rules", "rules.yaml", "--compare", "old"];
    let compare = [&replay[..], &compared].concat();
    for (command, option, output, input) in [
        (&replay_rd, "--report", "rd/rules.yaml", "rd/rules.yaml"),
        (&replay_rd, "--decisions", "link", "rd/rules.yaml"),
        (&simulate_rd, "--report", "link", "rd/rules.yaml"),
        (
            &simulate_rd,
            "--decisions",
            "rd/rules.yaml",
            "rd/rules.yaml",
        ),
        (
            &[&replay[..], &["--rules", "linked"]].concat(),
            "--report",
            "x",
            "linked/a.yaml",
        ),
        (&compare, "--report", "old/rules.yml", "old/rules.yml"),
        (&compare, "--decisions", "old/rules.yml", "old/rules.yml"),
    ] {
        let arguments = [&command[..], &[option, output]].concat();
        let shown = text(&run(directory.path(), &arguments), 2);
        let expected = format!("error: {option} would overwrite {input}; name another file\n");
        assert_eq!(shown, expected, "{arguments:?}");
    }
    for name in ["rd/rules.yaml", "old/rules.yml", "x.partial"] {
        assert_eq!(read(&directory, name), RULES);
    }
    // Other files in the directory are not rules.
    let other = [&replay[..], &["--rules", "rd", "--report", "rd/notes.txt"]].concat();
    text(&run(directory.path(), &other), 0);
    assert!(read(&directory, "rd/notes.txt").contains("</html>"));
}

#[test]
fn no_file_is_named_as_standard_output_is() {
    let directory = scene();
    let replay = [
        "replay",
        "--rules",
        "rules.yaml",
        "--descriptor",
        "k={client}",
        "x.log",
    ];
    let simulate = [
        "simulate",
        "--rules",
        "rules.yaml",
        "--traffic",
        "constant 1/s",
    ];
    for (command, option) in [
        (&replay[..], "--report"),
        (&simulate, "--report"),
        (&["suggest", "x.log"], "--write-rules"),
    ] {
        let shown = text(
            &run(directory.path(), &[command, &[option, "-"]].concat()),
            2,
        );
        let expected = format!(
            "error: {option} must name a file, because standard output has the report; write \
             `./-` for a file of the name `-`\n"
        );
        assert_eq!(shown, expected);
        assert!(!directory.path().join("-").exists());
        text(
            &run(directory.path(), &[command, &[option, "./-"]].concat()),
            0,
        );
        fs::remove_file(directory.path().join("-")).unwrap();
    }
}

#[test]
fn a_file_gets_its_name_when_it_is_complete_and_a_pipe_stays_a_pipe() {
    let directory = scene();
    fs::remove_file(directory.path().join("x.partial")).unwrap();
    fs::write(directory.path().join("target.yaml"), "before").unwrap();
    symlink("target.yaml", directory.path().join("out.yaml")).unwrap();
    let suggest = |path| {
        run(
            directory.path(),
            &["suggest", "--write-rules", path, "x.log"],
        )
    };
    text(&suggest("out.yaml"), 0);
    let rules = read(&directory, "target.yaml");
    assert!(rules.contains("domain: \"web\""), "{rules}");
    let link = fs::symlink_metadata(directory.path().join("out.yaml")).unwrap();
    assert!(link.is_symlink());
    symlink("/proc/self/fd/1", directory.path().join("stdout")).unwrap();
    let shown = text(&suggest("stdout"), 0);
    assert!(shown.contains("domain: \"web\""), "{shown}");
    let replay = [
        "replay",
        "--rules",
        "rules.yaml",
        "--descriptor",
        "k={client}",
    ];
    let page = [&replay[..], &["--report", "stdout", "x.log"]].concat();
    let shown = text(&run(directory.path(), &page), 0);
    assert!(shown.contains("</html>"), "{shown}");
    for (path, expected) in [
        ("no/rules.yaml", "cannot write no/rules.yaml: No such file"),
        (".", "cannot write .: "),
        ("/dev/full", "cannot write /dev/full: No space left"),
    ] {
        let shown = text(&suggest(path), 2);
        assert!(shown.contains(expected), "{path}: {shown}");
    }
    assert_eq!(partial_files(&directory), [""; 0]);
}

/// An output that has no space left, and a pipe that nobody reads.
fn unwritable() -> [Stdio; 2] {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    [full.into(), writer.into()]
}

fn status(directory: &Path, arguments: &[&str], stdout: Stdio, stderr: Stdio) -> Option<i32> {
    let mut command = tollgate(directory);
    let ended = command
        .args(arguments)
        .stdout(stdout)
        .stderr(stderr)
        .status();
    ended.unwrap().code()
}

#[test]
fn the_exit_status_is_the_same_when_standard_error_cannot_be_written() {
    let directory = scene();
    for (arguments, expected) in [
        ("replay --rules bad.yaml --descriptor k={client} x.log", 1),
        (
            "replay --rules rules.yaml --domain z --descriptor k={client} x.log",
            0,
        ),
        (
            "replay --rules rules.yaml --descriptor k={client} no.log",
            2,
        ),
        (
            "replay --rules rules.yaml --descriptor k={client} --decisions - x.log",
            2,
        ),
        ("simulate --rules bad.yaml --traffic constant", 2),
        ("simulate --rules bad.yaml --table --limit", 2),
        (
            "plan --rules bad.yaml --users 1 --rate 1 --descriptor u={client}",
            1,
        ),
        ("check bad.yaml", 1),
        ("suggest no.log", 2),
        ("schema", 0),
    ] {
        let words: Vec<&str> = arguments.split(' ').collect();
        let [full, closed] = unwritable();
        let found = status(directory.path(), &words, Stdio::null(), full);
        assert_eq!(found, Some(expected), "{arguments}");
        let found = status(directory.path(), &words, Stdio::null(), closed);
        assert_ne!(found, Some(101), "{arguments}");
    }
    let traffic = ["--traffic", "constant 1/s for 3s"];
    let simulate = [&["simulate", "--rules", "bad.yaml"][..], &traffic].concat();
    for stderr in unwritable() {
        let found = status(directory.path(), &simulate, Stdio::null(), stderr);
        assert_eq!(found, Some(1));
    }
}

#[test]
fn requests_are_sent_when_standard_error_cannot_be_written() {
    let directory = scene();
    let mut service = Service::start(directory.path());
    let target = format!("http://{}", service.address("http"));
    let to = ["replay", "--target", &target, "--domain", "d"];
    let arguments = [&to[..], &["--descriptor", "k={client}", "x.log"]].concat();
    for stderr in unwritable() {
        let found = status(directory.path(), &arguments, Stdio::null(), stderr);
        assert_eq!(found, Some(0));
    }
}

#[test]
fn standard_output_that_cannot_be_written_is_an_error_and_a_closed_pipe_is_none() {
    let directory = scene();
    for arguments in [
        "replay --rules rules.yaml --descriptor k={client} x.log",
        "simulate --table",
        "simulate --rules rules.yaml --traffic constant",
        "plan --users 1 --rate 1 --limit 1/s",
        "check rules.yaml",
        "check --output json bad.yaml",
        "explain --rules rules.yaml --domain d k=1",
        "suggest x.log",
        "schema",
        "--version",
        "--help",
        "replay --help",
    ] {
        let mut words: Vec<&str> = arguments.split(' ').collect();
        if words.contains(&"constant") {
            words.pop();
            words.push("constant 1/s");
        }
        let [full, closed] = unwritable();
        let output = tollgate(directory.path())
            .args(&words)
            .stdout(full)
            .output();
        let shown = text(&output.unwrap(), 2);
        let errors = shown
            .lines()
            .filter(|line| line.starts_with("error: cannot"));
        assert_eq!(
            errors.collect::<Vec<_>>(),
            ["error: cannot write to standard output: No space left on device (os error 28)"],
            "{arguments}"
        );
        let expected = Some(i32::from(words.contains(&"bad.yaml")));
        let found = status(directory.path(), &words, closed, Stdio::null());
        assert_eq!(found, expected, "{arguments}");
    }
}

#[test]
fn no_command_panics_when_standard_output_cannot_be_written() {
    let directory = scene();
    for arguments in [
        "replay --rules rules.yaml --descriptor k={client} x.log",
        "replay --rules rules.yaml --descriptor k={client} --decisions - x.log",
        "simulate --table",
        "plan --users 1 --rate 1 --limit 1/s",
        "check rules.yaml",
        "check --output json rules.yaml",
        "explain --rules rules.yaml --domain d k=1",
        "suggest x.log",
        "schema",
        "--help",
    ] {
        let words: Vec<&str> = arguments.split(' ').collect();
        for stdout in unwritable() {
            let found = status(directory.path(), &words, stdout, Stdio::null());
            assert!(matches!(found, Some(0..=2)), "{arguments}: {found:?}");
        }
    }
}

/// A character that turns the direction of the text, and the text of its escape.
#[test]
fn a_json_report_keeps_values_apart_and_controls_no_terminal() {
    let directory = scene();
    let clients = [
        "\u{202e}c",
        "\\u{202e}c",
        "\u{202e}c",
        "\\u{202e}c",
        "\u{202e}c",
    ];
    let lines = clients.map(|client| {
        let line = serde_json::json!({"time": 1_767_261_600, "client": client, "path": "/"});
        format!("{line}\n")
    });
    fs::write(directory.path().join("x.json"), lines.concat()).unwrap();
    let rules = |count| format!("domain: d\ndescriptors: [{{key: k, rate_limit: {count}/day}}]\n");
    fs::write(directory.path().join("new.yaml"), rules(0)).unwrap();
    fs::write(directory.path().join("old.yaml"), rules(9)).unwrap();
    let common = ["--format", "json", "--output", "json", "x.json"];
    let json = |words: &[&str]| {
        let output = run(directory.path(), &[words, &common].concat());
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        assert!(output.stdout.is_ascii(), "{output:?}");
        serde_json::from_slice::<serde_json::Value>(&output.stdout).unwrap()
    };
    let replay = [
        "replay",
        "--descriptor",
        "k={client}",
        "--rules",
        "new.yaml",
    ];
    let report = json(&replay);
    let values = [0, 1].map(|at| &report["topDeniedKeys"][at]["descriptor"][0]["value"]);
    assert_eq!(values, ["\u{202e}c", "\\u{202e}c"]);
    let compared = json(&[&replay[..], &["--compare", "old.yaml"]].concat());
    let changed = [0, 1].map(|at| &compared["topChangedClients"][at]["client"]);
    assert_eq!(changed, values);
    assert_eq!(json(&["suggest"])["largestKey"]["key"], "\u{202e}c");
    let words = [
        "explain",
        "--rules",
        "new.yaml",
        "--output",
        "json",
        "k=\u{202e}c",
    ];
    let explained = run(directory.path(), &words);
    assert!(explained.stdout.is_ascii(), "{explained:?}");
    let explained: serde_json::Value = serde_json::from_slice(&explained.stdout).unwrap();
    let entries = &explained["descriptors"][0]["entries"];
    assert_eq!(entries[0]["value"], "\u{202e}c");
}
