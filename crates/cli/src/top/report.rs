//! The dashboard as text, once.

use ratatui::text::Line;

use super::gateway;
use super::history::History;
use super::overview::numbers;
use super::panels;
use super::screen::{live, stack};
use super::snapshot::Snapshot;

/// All panels, as wide as their longest lines. Nothing is shortened.
pub(super) fn report(url: &str, history: &History, snapshot: &Snapshot) -> String {
    let mut lines = vec![Line::from(format!("Tollgate {url}: {}", live(snapshot)))];
    lines.extend(numbers(history, usize::MAX));
    lines.push(Line::default());
    let mut panels = vec![
        panels::outcomes(history, snapshot),
        panels::most_denied(&snapshot.keys),
        panels::hottest(&snapshot.keys),
        panels::rules(history, snapshot),
        panels::stores(snapshot),
    ];
    panels.extend(gateway::panels(history, snapshot));
    panels.push(panels::reloads(&snapshot.reloads));
    lines.extend(stack(&panels, usize::MAX));
    let mut text = String::new();
    for line in lines {
        text.push_str(line.to_string().trim_end());
        text.push('\n');
    }
    text
}
