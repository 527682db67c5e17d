//! Prometheus's text format, version 0.0.4, made of OpenMetrics.

/// The same metrics for whoever does not read OpenMetrics.
///
/// There a counter's family has the name of its series, `_total` at the end, so that help and type
/// are found by that name; units and the mark of the end do not exist.
pub(super) fn prometheus(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len());
    // Help comes before the type, and is named after it.
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
