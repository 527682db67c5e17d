//! What a text means, and how that looks with and without colours.

use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

/// What a text means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tone {
    Plain,
    Title,
    Muted,
    /// All is well.
    Good,
    /// This needs attention.
    Bad,
}

// === impl Tone ===

impl Tone {
    /// A text of this tone.
    pub(super) fn span(self, text: impl Into<String>) -> Span<'static> {
        Span::styled(text.into(), self.style())
    }

    fn style(self) -> Style {
        match self {
            Tone::Plain => Style::new(),
            Tone::Title => Style::new().add_modifier(Modifier::BOLD),
            Tone::Muted => Style::new().add_modifier(Modifier::DIM),
            Tone::Good => Style::new().fg(Color::Green),
            Tone::Bad => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
        }
    }
}

/// Takes the colours from lines; bold and dim text stays.
pub(super) fn remove_colours(lines: &mut [Line<'static>]) {
    for span in lines.iter_mut().flat_map(|line| &mut line.spans) {
        span.style.fg = None;
        span.style.bg = None;
    }
}
