//! The metrics of the service.

use std::io::Result;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::peer::{read_answer, request, within};
use crate::target::Target;

/// All metrics, as the `admin` listener shows them.
pub(crate) async fn read(target: Target) -> Result<String> {
    let asking = async {
        let mut stream = TcpStream::connect(target.admin).await?;
        stream.write_all(&request("GET", "/metrics", "")).await?;
        let (_, body) = read_answer(&mut stream).await?;
        Ok(String::from_utf8_lossy(&body).into_owned())
    };
    within(asking).await
}

/// The value of the metric with this name and these labels; 0 if it is not among them.
pub(crate) fn value(metrics: &str, name: &str) -> u64 {
    let values = metrics.lines().filter_map(|line| line.strip_prefix(name));
    let value = values.filter_map(|rest| rest.strip_prefix(' ')).next();
    value.and_then(|value| value.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_of_a_metric_is_found_by_its_whole_name() {
        let text = "# TYPE a counter\na_total{b=\"c\"} 7\na_total 8\na 9\n";
        assert_eq!(value(text, "a_total{b=\"c\"}"), 7);
        assert_eq!(value(text, "a_total"), 8);
        assert_eq!(value(text, "a_total{b=\"d\"}"), 0);
    }
}
