//! Bars over time, of the characters that a terminal has for them.

use ratatui::text::Line;

use super::tone::Tone;

/// The characters of a bar that fills so many eighths of a cell.
const EIGHTHS: [&str; 9] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

/// The rows of a chart.
const ROWS: u64 = 2;

/// The latest values as bars, the newest on the right; the highest fills the chart. A second
/// without a value has no bar.
pub(super) fn bars(
    values: impl DoubleEndedIterator<Item = Option<u64>>,
    width: usize,
    tone: Tone,
) -> Vec<Line<'static>> {
    let mut values: Vec<Option<u64>> = values.rev().take(width).collect();
    values.resize(width, None);
    values.reverse();
    let highest = values.iter().flatten().copied().max().unwrap_or(0).max(1);
    let rows = (0..ROWS).rev().map(|row| {
        let cells = values.iter().map(|value| {
            let filled = value.map_or(0, |value| eighths(value, highest));
            let cell = filled.saturating_sub(row * 8).min(8);
            EIGHTHS[usize::try_from(cell).unwrap_or(0)]
        });
        Line::from(tone.span(cells.collect::<String>()))
    });
    rows.collect()
}

/// The eighths of a cell that a bar is high, at least one if its value is not 0.
fn eighths(value: u64, highest: u64) -> u64 {
    let filled = (u128::from(value) * u128::from(ROWS) * 8).div_ceil(u128::from(highest));
    u64::try_from(filled).unwrap_or(ROWS * 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_bar_fills_the_chart_and_the_newest_is_on_the_right() {
        let shown = |values: &[Option<u64>], width: usize| {
            let lines = bars(values.iter().copied(), width, Tone::Plain).into_iter();
            let lines: Vec<String> = lines.map(|line| line.to_string()).collect();
            lines
        };
        let values = [Some(0), None, Some(1), Some(8), Some(u64::MAX)];
        assert_eq!(shown(&values, 6), ["     █", "   ▁▁█"]);
        assert_eq!(shown(&[Some(2), Some(4)], 3), ["  █", " ██"]);
        assert_eq!(shown(&[Some(2), Some(4)], 1), ["█", "█"]);
        assert_eq!(shown(&[], 2), ["  ", "  "]);
        assert_eq!(shown(&[Some(1)], 0), ["", ""]);
    }
}
