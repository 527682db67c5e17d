//! Progress bars of a replay, on standard error if that is a terminal.

use indicatif::{ProgressBar, ProgressStyle};

/// The work that a bar measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Reading, in bytes of the input files, before they are decompressed.
    Reading,
    /// Simulating, in events.
    Simulating,
    /// Deciding, in events.
    Deciding,
    /// Sending, in requests.
    Sending,
}

/// A bar for work of this length; `None` if it is unknown, as for standard input.
pub(crate) fn bar(work: Work, length: Option<u64>) -> ProgressBar {
    let template = template(work, length.is_some());
    let style = ProgressStyle::with_template(template).expect("the templates are valid");
    let bar = length.map_or_else(ProgressBar::no_length, ProgressBar::new);
    bar.with_style(style)
}

const fn template(work: Work, is_known: bool) -> &'static str {
    match (work, is_known) {
        (Work::Reading, true) => {
            "reading  {percent:>3}% {wide_bar} {bytes}/{total_bytes}, {eta} left"
        }
        (Work::Reading, false) => "reading  {bytes} in {elapsed}",
        (Work::Simulating, _) => "simulating {human_pos} in {elapsed}",
        (Work::Deciding, true) => {
            "deciding {percent:>3}% {wide_bar} {human_pos}/{human_len}, {eta} left"
        }
        (Work::Sending, _) => {
            "sending  {percent:>3}% {wide_bar} {human_pos}/{human_len} in {elapsed}"
        }
        (Work::Deciding, false) => "deciding {human_pos} in {elapsed}",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_template_is_valid_and_a_known_length_is_shown_with_what_remains() {
        for work in [Work::Reading, Work::Deciding] {
            for length in [None, Some(7)] {
                assert_eq!(bar(work, length).length(), length);
            }
            let known = template(work, true);
            for part in ["{percent", "{eta}"] {
                assert!(known.contains(part), "{known}");
            }
        }
    }
}
