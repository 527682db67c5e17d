//! The constants that `cargo xtask bench constants` measured.

use std::collections::BTreeMap;
use std::path::Path;
use std::{fmt, fs, io};

use serde::Deserialize;
use serde_json::{Value, json};

/// The constants that this program was built with.
const BUILT_IN: &str = include_str!("constants.json");
/// The version of the format.
const VERSION: u32 = 1;
/// The largest file.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// The largest value: with it, no product overflows a u128.
const VALUE_MAX: u64 = 1 << 50;
/// Every constant that a plan can need.
pub(super) const NAMES: [&str; 34] = [
    "library.token_bucket",
    "library.leaky_bucket",
    "library.fixed_window",
    "library.fixed_window_first",
    "library.sliding_window",
    "library.sliding_window_segments",
    "library.sliding_log",
    "service.grpc",
    "service.http",
    "service.json",
    "service.redis",
    "service.gateway",
    "service.limit",
    "service.idle",
    "service.idle_with_redis",
    "redis.cpu.token_bucket",
    "redis.cpu.leaky_bucket",
    "redis.cpu.fixed_window",
    "redis.cpu.fixed_window_first",
    "redis.cpu.sliding_window",
    "redis.cpu.sliding_window_segments",
    "redis.cpu.sliding_log",
    "redis.instance",
    "redis.bytes.token_bucket",
    "redis.bytes.leaky_bucket",
    "redis.bytes.fixed_window",
    "redis.bytes.fixed_window_first",
    "redis.bytes.sliding_window",
    "redis.bytes.sliding_window_segments",
    "redis.bytes.sliding_log",
    "redis.bytes.segment",
    "redis.bytes.log_unit",
    "redis.bytes.overhead",
    "redis.idle",
];

/// Constants, and where they come from.
#[derive(Debug)]
pub(super) struct Constants {
    source: String,
    measured: Measured,
    values: BTreeMap<String, Constant>,
}

/// One constant.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Constant {
    value: u64,
    unit: String,
    what: String,
}

/// Where and when the constants were measured.
#[derive(Clone, Debug, Deserialize)]
struct Measured {
    at: String,
    commit: String,
    processor: String,
    processors: u32,
    redis: String,
    load_average: String,
}

#[derive(Deserialize)]
struct File {
    version: u32,
    measured: Measured,
    constants: BTreeMap<String, Constant>,
}

// === impl Constants ===

impl Constants {
    /// Those of a file, or those that this program was built with.
    pub(super) fn read(path: Option<&Path>) -> Result<Constants, String> {
        let Some(path) = path else {
            return Constants::parse("built in", BUILT_IN);
        };
        let shown = path.display().to_string();
        let text = read_bounded(path).map_err(|error| format!("cannot read {shown}: {error}"))?;
        Constants::parse(&shown, &text)
    }

    /// Parses a file, which must have all of [`NAMES`].
    fn parse(source: &str, text: &str) -> Result<Constants, String> {
        let again = "write it with `cargo xtask bench constants --write FILE`";
        let file: File = serde_json::from_str(text)
            .map_err(|error| format!("{source} has no constants ({error}); {again}"))?;
        if file.version != VERSION {
            let found = file.version;
            return Err(format!(
                "{source} has version {found} of the format, not {VERSION}; {again}"
            ));
        }
        for name in NAMES {
            match file.constants.get(name) {
                None => return Err(format!("{source} has no constant `{name}`; {again}")),
                Some(constant) if constant.value > VALUE_MAX => {
                    return Err(format!(
                        "{source}: `{name}` is more than {VALUE_MAX}; {again}"
                    ));
                }
                Some(_) => {}
            }
        }
        Ok(Constants {
            source: source.to_owned(),
            measured: file.measured,
            values: file.constants,
        })
    }

    /// The value of one of [`NAMES`].
    pub(super) fn get(&self, name: &str) -> u64 {
        debug_assert!(NAMES.contains(&name), "{name}");
        self.values.get(name).map_or(0, |constant| constant.value)
    }

    /// These constants, and where all come from.
    pub(super) fn to_json<'n>(&self, names: impl Iterator<Item = &'n str>) -> Value {
        let measured = &self.measured;
        let used = names.filter_map(|name| {
            let Constant { value, unit, what } = self.values.get(name)?;
            let constant = json!({"value": value, "unit": unit, "what": what});
            Some((name.to_owned(), constant))
        });
        json!({
            "source": self.source,
            "measured": {
                "at": measured.at,
                "commit": measured.commit,
                "processor": measured.processor,
                "processors": measured.processors,
                "redis": measured.redis,
                "loadAverage": measured.load_average,
            },
            "used": Value::Object(used.collect()),
        })
    }

    /// A line for each of these constants.
    pub(super) fn write_lines<'n>(
        &self,
        names: impl Iterator<Item = &'n str>,
        f: &mut fmt::Formatter<'_>,
    ) -> fmt::Result {
        for name in names {
            if let Some(Constant { value, unit, what }) = self.values.get(name) {
                writeln!(f, "  {name}: {value} {unit}, {what}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Constants {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Measured {
            at,
            commit,
            processor,
            processors,
            redis,
            load_average,
        } = &self.measured;
        writeln!(
            f,
            "constants ({}), measured {at} at commit {commit}\non {processors} processors \
             ({processor}), Redis {redis}, load average {load_average}:",
            self.source
        )
    }
}

fn read_bounded(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    let file = fs::File::open(path)?;
    io::Read::read_to_string(&mut io::Read::take(file, FILE_BYTES_MAX), &mut text)?;
    Ok(text)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_file_has_every_constant_and_no_other() {
        let constants = Constants::read(None).unwrap();
        let mut known = NAMES.to_vec();
        known.sort_unstable();
        let found: Vec<&String> = constants.values.keys().collect();
        assert_eq!(found, known);
        for name in NAMES {
            let zero_is_possible = name.ends_with(".calls") || name.ends_with(".cpu");
            assert!(constants.get(name) > 0 || zero_is_possible, "{name}");
        }
        let [used] = constants.to_json(["redis.idle"].into_iter())["used"]
            .as_object()
            .map(|used| [used.len()])
            .unwrap();
        assert_eq!(used, 1);
    }

    #[test]
    fn files_that_are_no_constants_say_how_to_write_them() {
        let mut file: Value = serde_json::from_str(BUILT_IN).unwrap();
        file["constants"]["redis.idle"] = Value::Null;
        let error = |text: &str| Constants::parse("mine.json", text).unwrap_err();
        assert!(error(&file.to_string()).contains("cargo xtask bench constants"));
        file["constants"]
            .as_object_mut()
            .unwrap()
            .remove("redis.idle");
        let missing = error(&file.to_string());
        assert!(
            missing.starts_with("mine.json has no constant `redis.idle`"),
            "{missing}"
        );
        file["version"] = json!(2);
        assert!(error(&file.to_string()).contains("version 2"));
        assert!(error("[").contains("has no constants"));
    }
}
