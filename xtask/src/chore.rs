//! What a chore is.

use std::num::NonZeroU64;

/// What `cargo xtask NAME ...` does.
pub(crate) struct Chore {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// Does it, with the arguments after its name; says what went wrong.
    pub(crate) run: fn(&[String]) -> Result<(), String>,
}

/// The error of a chore that takes no arguments.
pub(crate) fn no_arguments(args: &[String]) -> Result<(), String> {
    match args.first() {
        None => Ok(()),
        Some(arg) => Err(format!(
            "`{arg}` is not understood: this takes no arguments"
        )),
    }
}

/// The value of an option `--seconds`. None would be no test at all, and to the fuzzer no end.
///
/// # Errors
///
/// What is wrong, and what to write.
pub(crate) fn parse_seconds(text: &str) -> Result<u64, String> {
    let seconds: Option<NonZeroU64> = text.parse().ok();
    let seconds = seconds.ok_or_else(|| format!("--seconds takes 1 or more, not `{text}`"))?;
    Ok(seconds.get())
}
