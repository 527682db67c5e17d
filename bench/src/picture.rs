//! What of the results is drawn: one panel for each scenario, one bar for each contender.

use tollgate_bench::chart::Panel;

use crate::record::{Measured, Record};

/// The panels of everything that was measured.
pub(crate) fn panels(measured: &[Measured]) -> Vec<Panel> {
    let mut scenarios: Vec<&str> = Vec::new();
    for one in measured {
        if !scenarios.contains(&one.record.scenario.as_str()) {
            scenarios.push(&one.record.scenario);
        }
    }
    let of = |scenario: &&str| {
        let all = measured.iter().map(|one| &one.record);
        let records: Vec<&Record> = all.filter(|record| record.scenario == **scenario).collect();
        panel(scenario, &records)
    };
    scenarios.iter().map(of).collect()
}

/// The bars of one scenario. What was not measured has none.
fn panel(scenario: &str, records: &[&Record]) -> Panel {
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
    let bar = |record: &&Record| Some((record.contender.clone(), value(record)?));
    Panel {
        title: scenario.to_owned(),
        unit: unit.to_owned(),
        bars: records.iter().filter_map(bar).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_scenario_has_a_panel_of_what_was_measured() {
        let one = |scenario: &str, contender: &str, ops_per_second| Measured {
            record: Record {
                scenario: scenario.to_owned(),
                contender: contender.to_owned(),
                ops_per_second,
                bytes_per_key: Some(24.0),
                ..Record::default()
            },
            ..Measured::default()
        };
        let measured = [
            one("hot", "tollgate", Some(2e6)),
            one("hot", "ratelimit", None),
            one("memory", "tollgate", None),
        ];
        let panels = panels(&measured);
        let bar = |value| vec![("tollgate".to_owned(), value)];
        assert_eq!(panels[0].bars, bar(2.0));
        assert_eq!(panels[1].bars, bar(24.0));
        assert_eq!(panels[1].unit, "bytes a key");
    }
}
