//! What a chore is.

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
