//! What a page shows of simulated traffic: its workloads, and the instances that decided it.

use std::fmt;

use super::InstancesSection;
use super::escape::{Number, Text};
use crate::simulate::WorkloadTotals;

/// What a page shows of simulated traffic.
#[derive(Clone, Debug)]
pub struct SimulationSection {
    /// The seed that makes the same traffic again.
    pub seed: u64,
    /// The workloads, and what came of each.
    pub workloads: Vec<WorkloadTotals>,
    /// What instances that share limits cost, if they decided it.
    pub instances: Option<InstancesSection>,
}

impl fmt::Display for SimulationSection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "<h2 id=\"traffic\">Traffic</h2>\n<div class=\"scroll\"><table>\n<tr><th>traffic</th>\
             <th class=\"number\">requests</th><th class=\"number\">attempts</th>\
             <th class=\"number\">allowed</th><th class=\"number\">given up</th></tr>"
        )?;
        for totals in &self.workloads {
            write!(f, "<tr><td>{}</td>", Text(&totals.text))?;
            let counts = [totals.requests, totals.attempts, totals.allowed];
            for count in counts.into_iter().chain([totals.given_up()]) {
                write!(f, "<td class=\"number\">{}</td>", Number(count))?;
            }
            f.write_str("</tr>\n")?;
        }
        writeln!(
            f,
            "</table></div>\n<p class=\"faint\">Seed {}: the same makes the same requests.</p>",
            self.seed
        )?;
        match &self.instances {
            Some(instances) => write!(f, "{instances}"),
            None => Ok(()),
        }
    }
}
