//! A titled table that fits the width of a terminal.

use ratatui::text::{Line, Span};

use super::tone::Tone;

/// What is between two columns.
const GAP: usize = 2;
/// The narrowest that a column of text becomes before the line is cut off.
const TEXT_MIN: usize = 10;

/// A table with a title and a note.
#[derive(Debug)]
pub(super) struct Panel {
    pub(super) title: &'static str,
    pub(super) note: String,
    pub(super) columns: Vec<Column>,
    pub(super) rows: Vec<Vec<Cell>>,
    /// What stands for no rows.
    pub(super) empty: &'static str,
}

/// A column and what becomes of it where there is no room for all.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    title: &'static str,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Aligned to the left, and shortened.
    Text,
    /// Aligned to the right.
    Number,
    /// Left out first.
    Spare,
}

/// A text in a table.
#[derive(Clone, Debug)]
pub(super) struct Cell {
    text: String,
    tone: Tone,
}

// === impl Column ===

impl Column {
    pub(super) const fn text(title: &'static str) -> Column {
        let kind = Kind::Text;
        Column { title, kind }
    }

    pub(super) const fn number(title: &'static str) -> Column {
        let kind = Kind::Number;
        Column { title, kind }
    }

    pub(super) const fn spare(title: &'static str) -> Column {
        let kind = Kind::Spare;
        Column { title, kind }
    }
}

// === impl Cell ===

impl Cell {
    pub(super) fn new(text: impl Into<String>) -> Cell {
        Cell::with_tone(text, Tone::Plain)
    }

    pub(super) fn with_tone(text: impl Into<String>, tone: Tone) -> Cell {
        Cell {
            text: text.into(),
            tone,
        }
    }

    fn width(&self) -> usize {
        width(&self.text)
    }
}

// === impl Panel ===

impl Panel {
    /// Its lines, none of which is wider than the terminal if that has room for two columns.
    pub(super) fn lines(&self, width: usize) -> Vec<Line<'static>> {
        let mut lines = vec![Line::from(Tone::Title.span(self.title))];
        if !self.note.is_empty() {
            lines.extend(wrap(&self.note, width).map(|line| Line::from(Tone::Muted.span(line))));
        }
        if self.rows.is_empty() {
            lines.push(Line::from(Tone::Muted.span(self.empty)));
            return lines;
        }
        let widths = self.widths(width);
        let heads = self.columns.iter();
        let heads: Vec<Cell> = heads
            .map(|one| Cell::with_tone(one.title, Tone::Muted))
            .collect();
        if heads.iter().any(|head| !head.text.is_empty()) {
            lines.push(self.line(&heads, &widths));
        }
        lines.extend(self.rows.iter().map(|row| self.line(row, &widths)));
        lines
    }

    /// The width of each column; `None` for those that are left out.
    fn widths(&self, most: usize) -> Vec<Option<usize>> {
        let natural = self.columns.iter().enumerate().map(|(index, column)| {
            let cells = self.rows.iter().filter_map(|row| row.get(index));
            let widest = cells.map(Cell::width).max().unwrap_or(0);
            Some(widest.max(width(column.title)))
        });
        let mut widths: Vec<Option<usize>> = natural.collect();
        let excess = |widths: &[Option<usize>]| {
            let shown = widths.iter().flatten();
            let total: usize = shown.map(|width| width + GAP).sum();
            total.saturating_sub(GAP).saturating_sub(most)
        };
        for (index, column) in self.columns.iter().enumerate().rev() {
            if column.kind == Kind::Spare && excess(&widths) > 0 {
                widths[index] = None;
            }
        }
        for (index, column) in self.columns.iter().enumerate().rev() {
            let excess = excess(&widths);
            if let (Kind::Text, Some(width)) = (column.kind, &mut widths[index]) {
                *width = width.saturating_sub(excess).max(TEXT_MIN.min(*width));
            }
        }
        widths
    }

    /// One row, each cell of which has the width of its column.
    fn line(&self, cells: &[Cell], widths: &[Option<usize>]) -> Line<'static> {
        let mut spans: Vec<Span<'static>> = Vec::new();
        for ((cell, column), width) in cells.iter().zip(&self.columns).zip(widths) {
            let Some(width) = *width else {
                continue;
            };
            if !spans.is_empty() {
                spans.push(Span::raw(" ".repeat(GAP)));
            }
            let text = shorten(&cell.text, width);
            let pad = " ".repeat(width.saturating_sub(self::width(&text)));
            let (before, after) = match column.kind {
                Kind::Number => (pad, String::new()),
                Kind::Text | Kind::Spare => (String::new(), pad),
            };
            spans.push(Span::raw(before));
            spans.push(cell.tone.span(text));
            spans.push(Span::raw(after));
        }
        Line::from(spans)
    }
}

/// The words of a text in lines of at most this width, but for a word that is wider.
fn wrap(text: &str, most: usize) -> impl Iterator<Item = String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if width(line) + 1 + width(word) <= most => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.into_iter()
}

/// The beginning of a text that fits, with an ellipsis if it is not all of it.
pub(super) fn shorten(text: &str, most: usize) -> String {
    if width(text) <= most {
        return text.to_owned();
    }
    let mut short = String::new();
    for character in text.chars() {
        let mut next = short.clone();
        next.push(character);
        if width(&next) + 1 > most {
            break;
        }
        short = next;
    }
    short.push('…');
    short
}

/// The columns of a terminal that a text takes.
pub(super) fn width(text: &str) -> usize {
    Span::raw(text).width()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel() -> Panel {
        Panel {
            title: "Keys",
            note: "One sentence. Another one.".to_owned(),
            columns: vec![
                Column::text("key"),
                Column::spare("rule"),
                Column::number("count"),
            ],
            rows: vec![
                vec![
                    Cell::new("user=日本日本日本日本"),
                    Cell::new("shop: user"),
                    Cell::new("1,200"),
                ],
                vec![Cell::new("user=a"), Cell::new("shop: user"), Cell::new("3")],
            ],
            empty: "none",
        }
    }

    #[test]
    fn columns_are_left_out_and_shortened_where_there_is_no_room() {
        let shown = |width: usize| {
            let lines = panel().lines(width).into_iter();
            let lines: Vec<String> = lines.map(|line| line.to_string()).collect();
            lines
        };
        assert_eq!(shown(80)[1], "One sentence. Another one.");
        assert_eq!(shown(80)[3], "user=日本日本日本日本  shop: user  1,200");
        assert_eq!(shown(80)[4], "user=a                 shop: user      3");
        assert_eq!(shown(20)[1..3], ["One sentence.", "Another one."]);
        assert_eq!(shown(20)[4], "user=日本日…   1,200");
        for size in 17..60 {
            assert!(shown(size).iter().all(|line| width(line) <= size), "{size}");
        }
        // No width makes it panic.
        for size in 0..17 {
            assert_eq!(
                shown(size).last().map(|line| line.ends_with('3')),
                Some(true)
            );
        }
    }
}
