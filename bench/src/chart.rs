//! Results as a picture: panels of bars.

use std::fmt::{self, Write as _};

const WIDTH: usize = 760;
const BAR_HEIGHT: usize = 18;
const TITLE_HEIGHT: usize = 34;
/// Room for the longest value right of its bar.
const VALUE_WIDTH: usize = 60;
/// The width of a letter, on average.
const LETTER_WIDTH: usize = 7;
const OURS: &str = "#1f6feb";
const FLOOR: &str = "#9aa4b2";
const PEERS: &str = "#d0885a";

/// Bars that can be compared.
#[derive(Clone, Debug, Default)]
pub struct Panel {
    /// What they show.
    pub title: String,
    /// The unit of their values.
    pub unit: String,
    /// The name of each, and its value.
    pub bars: Vec<(String, f64)>,
}

/// The panels below each other, as SVG. The color of a bar says whether its name is ours, a floor's
/// or another's.
pub fn svg(panels: &[Panel]) -> String {
    let (mut body, mut top) = (String::new(), 10);
    for panel in panels {
        // Writing to a string does not fail.
        let _drawn = panel.draw(&mut body, &mut top);
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{top}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{body}</svg>\n"
    )
}

// === impl Panel ===

impl Panel {
    /// Draws the title and the bars below it, and moves `top` down.
    fn draw(&self, out: &mut String, top: &mut usize) -> fmt::Result {
        let title_y = *top + 20;
        writeln!(
            out,
            "<text x=\"10\" y=\"{title_y}\" font-weight=\"bold\">{}</text>\
             <text x=\"{}\" y=\"{title_y}\" fill=\"#666\" text-anchor=\"end\">{}</text>",
            self.title,
            WIDTH - 10,
            self.unit
        )?;
        *top += TITLE_HEIGHT;
        let longest = self.bars.iter().map(|(name, _)| name.len()).max();
        let left = (longest.unwrap_or(0) * LETTER_WIDTH + 16).clamp(120, WIDTH / 2);
        let most = self.bars.iter().fold(0.0, |most, bar| bar.1.max(most));
        for (name, value) in &self.bars {
            let text_y = *top + BAR_HEIGHT - 5;
            let length = bar_length(*value, most, WIDTH - left - VALUE_WIDTH);
            let value_x = bar_end(left, length) + 6.0;
            let color = match name.as_str() {
                ours if ours.starts_with("tollgate") => OURS,
                floor if floor.starts_with("floor") => FLOOR,
                _ => PEERS,
            };
            writeln!(
                out,
                "<text x=\"{}\" y=\"{text_y}\" text-anchor=\"end\">{name}</text>\
                 <rect x=\"{left}\" y=\"{top}\" width=\"{length:.1}\" height=\"{}\" \
                 fill=\"{color}\"/><text x=\"{value_x:.1}\" y=\"{text_y}\" \
                 fill=\"#333\">{}</text>",
                left - 8,
                BAR_HEIGHT - 3,
                shown(*value),
            )?;
            *top += BAR_HEIGHT;
        }
        Ok(())
    }
}

/// Two decimals of small values, one of others.
fn shown(value: f64) -> String {
    let digits = if value < 10.0 { 2 } else { 1 };
    format!("{value:.digits$}")
}

#[expect(clippy::as_conversions, reason = "a width in pixels")]
fn bar_length(value: f64, most: f64, width: usize) -> f64 {
    if most > 0.0 {
        value / most * width as f64
    } else {
        0.0
    }
}

#[expect(clippy::as_conversions, reason = "a width in pixels")]
const fn bar_end(left: usize, length: f64) -> f64 {
    left as f64 + length
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_bar_is_in_proportion() {
        let bar = |name: &str, value| (name.to_owned(), value);
        let panel = Panel {
            title: "hot".to_owned(),
            unit: "million decisions a second".to_owned(),
            bars: vec![bar("tollgate", 2.0), bar("quota", 1.0), bar("floor", 0.0)],
        };
        let svg = svg(&[panel]);
        for length in ["width=\"580.0\"", "width=\"290.0\"", "width=\"0.0\""] {
            assert!(svg.contains(length), "{length} in {svg}");
        }
        for color in [OURS, PEERS, FLOOR] {
            assert_eq!(svg.matches(color).count(), 1, "{color} in {svg}");
        }
        assert!(svg.contains("2.00</text>"), "{svg}");
    }
}
