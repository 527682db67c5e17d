//! Prometheus's text format, version 0.0.4, from OpenMetrics.

/// Converts metrics for scrapers that do not read OpenMetrics.
///
/// In this format, help and type of a counter have the name of its series, with `_total` at the
/// end. Units and the end mark do not exist.
pub(super) fn prometheus(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len());
    // HELP comes before TYPE, and its name depends on the type.
    let mut help: Option<&str> = None;
    for line in open_metrics.lines() {
        let comment = line
            .strip_prefix("# ")
            .and_then(|rest| rest.split_once(' '));
        match comment {
            Some(("HELP", named)) => help = Some(named),
            Some(("TYPE", named)) => {
                let (name, kind) = named.split_once(' ').unwrap_or((named, "untyped"));
                let name = match kind {
                    "counter" => format!("{name}_total"),
                    _ => name.to_owned(),
                };
                if let Some((_, about)) = help.take().and_then(|help| help.split_once(' ')) {
                    text.push_str(&format!("# HELP {name} {about}\n"));
                }
                text.push_str(&format!("# TYPE {name} {kind}\n"));
            }
            _ if line.starts_with('#') => {}
            _ => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    text
}
