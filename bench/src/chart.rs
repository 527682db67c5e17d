//! The results as a picture: one panel for each scenario, one bar for each contender.

use std::fmt::{self, Write as _};

use crate::record::{Measured, Record};

const WIDTH: usize = 760;
const LABEL_WIDTH: usize = 120;
const BAR_WIDTH: usize = 520;
const BAR_HEIGHT: usize = 18;
const TITLE_HEIGHT: usize = 34;
const OURS: &str = "#1f6feb";
const FLOOR: &str = "#9aa4b2";
const PEERS: &str = "#d0885a";

/// Everything that was measured, as SVG.
pub(crate) fn svg(measured: &[Measured]) -> String {
    let mut scenarios: Vec<&str> = Vec::new();
    for one in measured {
        if !scenarios.contains(&one.record.scenario.as_str()) {
            scenarios.push(&one.record.scenario);
        }
    }
    let (mut body, mut top) = (String::new(), 10);
    for scenario in scenarios {
        let all = measured.iter().map(|one| &one.record);
        let records: Vec<&Record> = all.filter(|record| record.scenario == scenario).collect();
        // Writing to a string does not fail.
        let _drawn = panel(&mut body, scenario, &records, &mut top);
    }
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{top}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{body}</svg>\n"
    )
}

/// Draws the bars of one scenario.
fn panel(out: &mut String, scenario: &str, records: &[&Record], top: &mut usize) -> fmt::Result {
    let is_memory = records.iter().all(|record| record.ops_per_second.is_none());
    let unit = if is_memory {
        "bytes a key"
    } else {
        "million decisions a second"
    };
    let value = |record: &Record| match is_memory {
        true => record.bytes_per_key,
        false => record.ops_per_second.map(|speed| speed / 1e6),
    };
    let most = records
        .iter()
        .filter_map(|record| value(record))
        .fold(0.0, f64::max);
    let title_y = *top + 20;
    writeln!(
        out,
        "<text x=\"10\" y=\"{title_y}\" font-weight=\"bold\">{scenario}</text>\
         <text x=\"{}\" y=\"{title_y}\" fill=\"#666\" text-anchor=\"end\">{unit}</text>",
        WIDTH - 10
    )?;
    *top += TITLE_HEIGHT;
    for record in records {
        let Some(value) = value(record) else { continue };
        let (length, text_y) = (bar(value, most), *top + BAR_HEIGHT - 5);
        let color = match record.contender.as_str() {
            ours if ours.starts_with("tollgate") => OURS,
            floor if floor.starts_with("floor") => FLOOR,
            _ => PEERS,
        };
        writeln!(
            out,
            "<text x=\"{}\" y=\"{text_y}\" text-anchor=\"end\">{}</text>\
             <rect x=\"{LABEL_WIDTH}\" y=\"{top}\" width=\"{length:.1}\" height=\"{}\" \
             fill=\"{color}\"/><text x=\"{:.1}\" y=\"{text_y}\" fill=\"#333\">{value:.1}</text>",
            LABEL_WIDTH - 8,
            record.contender,
            BAR_HEIGHT - 3,
            length + 126.0,
        )?;
        *top += BAR_HEIGHT;
    }
    Ok(())
}

#[expect(clippy::as_conversions, reason = "a width in pixels")]
fn bar(value: f64, most: f64) -> f64 {
    if most > 0.0 {
        value / most * BAR_WIDTH as f64
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_contender_has_a_bar_in_proportion() {
        let one = |contender: &str, ops_per_second| Measured {
            record: Record {
                scenario: "hot".to_owned(),
                contender: contender.to_owned(),
                ops_per_second,
                ..Record::default()
            },
            ..Measured::default()
        };
        let measured = [
            one("tollgate", Some(2e6)),
            one("quota", Some(1e6)),
            one("ratelimit", None),
        ];
        let svg = svg(&measured);
        assert!(svg.contains("width=\"520.0\""), "{svg}");
        assert!(svg.contains("width=\"260.0\""), "{svg}");
        assert!(
            !svg.contains("ratelimit"),
            "who was not measured has no bar"
        );
        assert_eq!(svg.matches("<rect").count(), 3);
    }
}
