//! The results for people, and as JSON.

use std::fmt;

use serde_json::{Value, json};
use tollgate_bench::target::Target;

use crate::layer::LayerFigures;
use crate::load::Figures;

/// The contenders that targets name.
const NGINX: &str = "nginx limit_req";
const ENVOY: &str = "envoy local limit";
const ONE_LIMIT: &str = "tollgate, 1 limit";
const NO_LIMIT: &str = "tollgate, no limit";
const TEN_LIMITS: &str = "tollgate, 10 limits";
/// The connections of the scenario to which the targets belong.
const CONNECTIONS: usize = 64;

/// What was measured.
#[derive(Debug, Default)]
pub(crate) struct Report {
    rows: Vec<Row>,
    layer: Option<LayerFigures>,
}

#[derive(Debug)]
struct Row {
    connections: usize,
    name: &'static str,
    figures: Figures,
}

// === impl Report ===

impl Report {
    pub(crate) fn add(&mut self, connections: usize, name: &'static str, figures: Figures) {
        self.rows.push(Row {
            connections,
            name,
            figures,
        });
    }

    pub(crate) const fn set_layer(&mut self, layer: LayerFigures) {
        self.layer = Some(layer);
    }

    fn find(&self, connections: usize, name: &str) -> Option<Figures> {
        let mut rows = self.rows.iter();
        let row = rows.find(|row| row.connections == connections && row.name == name);
        row.map(|row| row.figures)
    }

    /// The targets for which there are figures.
    fn targets(&self) -> Vec<Target> {
        let find = |name| self.find(CONNECTIONS, name);
        let mut targets = Vec::new();
        let mut add = |what: &str, is_least, bound, measured: Option<f64>| {
            targets.push(Target {
                what: what.to_owned(),
                is_least,
                bound,
                measured,
            });
        };
        let cpu = |of: Option<Figures>, by: Option<Figures>| Some(of?.cpu_micros / by?.cpu_micros);
        let ours = find(ONE_LIMIT);
        add(
            "CPU of nginx / CPU of tollgate",
            true,
            0.85,
            cpu(find(NGINX), ours),
        );
        let p99 = ours.zip(find(NGINX));
        let p99 = p99.map(|(ours, nginx)| ours.p99_micros / nginx.p99_micros);
        add("p99 of tollgate / p99 of nginx", false, 1.0, p99);
        add(
            "CPU with 1 limit / with none",
            false,
            1.02,
            cpu(ours, find(NO_LIMIT)),
        );
        add(
            "CPU with 10 limits / with none",
            false,
            1.05,
            cpu(find(TEN_LIMITS), find(NO_LIMIT)),
        );
        add(
            "CPU of Envoy / CPU of tollgate",
            true,
            1.5,
            cpu(find(ENVOY), ours),
        );
        let layer = self
            .layer
            .map(|layer| (layer.with - layer.without) / 1000.0);
        add("middleware in axum: us of CPU a request", false, 1.0, layer);
        targets
    }

    /// All figures.
    pub(crate) fn json(&self) -> String {
        let rows = self.rows.iter().map(|row| {
            json!({
                "connections": row.connections,
                "contender": row.name,
                "requests_per_second": row.figures.per_second,
                "cpu_us_per_request": row.figures.cpu_micros,
                "p50_us": row.figures.p50_micros,
                "p99_us": row.figures.p99_micros,
            })
        });
        let layer = self
            .layer
            .map(|layer| json!({"ns_without": layer.without, "ns_with": layer.with}));
        let rows: Vec<Value> = rows.collect();
        json!({"proxies": rows, "middleware": layer}).to_string()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = None;
        for row in &self.rows {
            if shown != Some(row.connections) {
                shown = Some(row.connections);
                writeln!(f, "\n{} connections", row.connections)?;
                writeln!(
                    f,
                    "  {:<22}{:>10}{:>12}{:>9}{:>9}{:>9}",
                    "", "req/s", "CPU us/req", "x nginx", "p50 us", "p99 us"
                )?;
            }
            let Figures {
                per_second,
                cpu_micros,
                p50_micros,
                p99_micros,
            } = row.figures;
            let nginx = self.find(row.connections, NGINX);
            let ratio = nginx.map_or(f64::NAN, |nginx| nginx.cpu_micros / cpu_micros);
            writeln!(
                f,
                "  {:<22}{per_second:>10.0}{cpu_micros:>12.2}{ratio:>9.2}{p50_micros:>9.0}\
                 {p99_micros:>9.0}",
                row.name
            )?;
        }
        if let Some(LayerFigures { without, with }) = self.layer {
            writeln!(f, "\naxum service in this process, ns of CPU a request")?;
            writeln!(
                f,
                "  without the middleware {without:.0}, with it {with:.0}"
            )?;
        }
        writeln!(f, "\ntargets")?;
        self.targets()
            .iter()
            .try_for_each(|target| write!(f, "{target}"))
    }
}
