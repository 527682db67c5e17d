//! The rates and times of now, and of the last minutes.

use ratatui::text::Line;

use super::chart::bars;
use super::history::{History, Point};
use super::number::{Rate, UNKNOWN, per_second, percent, time};
use super::panel;
use super::snapshot::Snapshot;
use super::tone::Tone;

/// The numbers of now, four or two in a line where there is room.
pub(super) fn numbers(history: &History, width: usize) -> Vec<Line<'static>> {
    let (all, denied) = (
        history.rate(Snapshot::total),
        history.rate(Snapshot::denied),
    );
    let share = match (all, denied) {
        (Some(all), Some(denied)) if all.0 > 0 => percent(denied.0, all.0),
        _ => UNKNOWN.to_owned(),
    };
    let at_most = |thousandths: u64| match history.percentile(thousandths) {
        None => time(None),
        found => format!("≤ {}", time(found)),
    };
    let pairs = [
        ("decisions/s", per_second(all)),
        ("denied", format!("{share} ({}/s)", per_second(denied))),
        ("time p50", at_most(500)),
        ("p99", at_most(990)),
    ];
    let texts = pairs.map(|(name, value)| (format!("{name} "), format!("{value:<10}  ")));
    let widths = texts
        .each_ref()
        .map(|(name, value)| panel::width(name) + panel::width(value));
    let fits = |in_line: &usize| {
        let mut lines = widths.chunks(*in_line);
        // The last one ends with two spaces, which may be cut off.
        lines.all(|line| line.iter().sum::<usize>() <= width.saturating_add(2))
    };
    let in_line = [4, 2].into_iter().find(fits).unwrap_or(1);
    let lines = texts.chunks(in_line).map(|texts| {
        let spans = texts.iter().flat_map(|(name, value)| {
            let (name, value) = (name.clone(), value.clone());
            [Tone::Muted.span(name), Tone::Title.span(value)]
        });
        Line::from(spans.collect::<Vec<_>>())
    });
    lines.collect()
}

/// Charts of the last minutes, a second for each column of the terminal.
pub(super) fn charts(history: &History, width: usize) -> Vec<Line<'static>> {
    let nanos = |point: &Point| {
        let nanos = point.p99?.as_nanos();
        u64::try_from(nanos).ok()
    };
    let mut lines = Vec::new();
    let mut chart = |title: &str, highest: String, values: Vec<Option<u64>>, tone: Tone| {
        lines.push(Line::from(vec![
            Tone::Title.span(format!("{title}  ")),
            Tone::Muted.span(format!("highest {highest}")),
        ]));
        lines.extend(bars(values.into_iter(), width, tone));
    };
    let points = || history.points().iter().rev().take(width).rev();
    let allowed: fn(&Point) -> Option<Rate> = |point| point.allowed;
    let denied: fn(&Point) -> Option<Rate> = |point| point.denied;
    for (title, read, tone) in [
        ("Allowed per second", allowed, Tone::Good),
        ("Denied per second", denied, Tone::Bad),
    ] {
        let highest = points().filter_map(read).max();
        let values = points().map(|point| read(point).map(|rate| rate.0));
        chart(title, per_second(highest), values.collect(), tone);
    }
    let highest = points().filter_map(|point| point.p99).max();
    chart(
        "Time p99",
        time(highest),
        points().map(nanos).collect(),
        Tone::Plain,
    );
    lines
}
