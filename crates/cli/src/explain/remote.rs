//! The explanation of a running service.

use form_urlencoded::Serializer;
use serde_json::Value;
use tollgate_server::DescriptorText;

use super::{Args, Failure, NAME_DOMAIN};
use crate::admin_client::{self, AdminClient};
use crate::output::Output;
use crate::printable::{Printable, json_lines};
use crate::service_url::ServiceUrl;

const JSON: &str = "application/json";
const TEXT: &str = "text/plain";
const RULES: &str = "/v1/rules";

/// Asks the service why the request would be allowed or denied.
pub(super) async fn explain(url: &ServiceUrl, args: &Args) -> Result<String, Failure> {
    let client = AdminClient::open(url.clone(), &args.access);
    let client = client.map_err(|invalid| Failure::new(2, invalid))?;
    let mut query = Serializer::new("/v1/explain?".to_owned());
    match &args.request_id {
        Some(id) => {
            query.append_pair("request_id", id);
        }
        None => {
            query.append_pair("domain", &domain(&client, args).await?);
            for descriptor in &args.descriptors {
                query.append_pair("descriptor", &query_text(descriptor));
            }
            if let Some(cost) = args.cost {
                query.append_pair("cost", &cost.to_string());
            }
            if args.any_order {
                query.append_pair("any_order", "true");
            }
        }
    }
    let path = query.finish();
    let explained = match args.output {
        Output::Human => {
            let text = client.get_text(&path, TEXT).await?;
            format!("{}\n", Printable::of_lines(&text))
        }
        Output::Json => json_lines(&get_json(&client, &path).await?),
    };
    match &args.domain {
        Some(domain) => has_rules(&client, domain).await.map(|()| explained),
        None => Ok(explained),
    }
}

/// Fails if the service says that it has no rules for the domain: it explains such a request as
/// one without limits.
async fn has_rules(client: &AdminClient, domain: &str) -> Result<(), Failure> {
    let Ok(rules) = get_json(client, RULES).await else {
        return Ok(());
    };
    let domains = names(&rules);
    if domains.is_empty() || domains.contains(&domain) {
        return Ok(());
    }
    let [domain, shown] = [domain, &*domains.join("`, `")].map(Printable::from);
    let message =
        format!("there are no rules for the domain `{domain}`; the service has `{shown}`");
    Err(Failure::new(1, message))
}

/// The domains that the service has.
fn names(rules: &Value) -> Vec<&str> {
    let domains = rules["domains"].as_array().into_iter().flatten();
    domains.filter_map(Value::as_str).collect()
}

/// The domain that is named, or the only one of the service.
async fn domain(client: &AdminClient, args: &Args) -> Result<String, Failure> {
    if let Some(domain) = &args.domain {
        return Ok(domain.clone());
    }
    let rules = get_json(client, RULES).await?;
    let domains = names(&rules);
    match domains[..] {
        [only] => Ok(only.to_owned()),
        _ => {
            let shown = Printable::from(&*domains.join("`, `"));
            let message = format!("{NAME_DOMAIN}; the service has `{shown}`");
            Err(Failure::new(1, message))
        }
    }
}

async fn get_json(client: &AdminClient, path: &str) -> Result<Value, Failure> {
    let text = client.get_text(path, JSON).await?;
    serde_json::from_str(&text).map_err(|_| {
        let failure = client.fail(admin_client::NotAnswered::NotTollgate);
        Failure::from(failure)
    })
}

/// A descriptor as the service reads it: a backslash before what is not a separator.
fn query_text(descriptor: &DescriptorText) -> String {
    let pairs = descriptor.pairs().iter();
    let pairs = pairs.map(|(key, value)| format!("{}={}", escape(key), escape(value)));
    let pairs: Vec<String> = pairs.collect();
    pairs.join(",")
}

fn escape(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        if matches!(character, '\\' | ',' | '=') {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}

// === impl Failure ===

impl From<admin_client::Failure> for Failure {
    fn from(failure: admin_client::Failure) -> Failure {
        Failure::new(1, failure.to_string())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_service_reads_the_same_descriptor() {
        for text in ["user=ann", r"path=/a\,b\=c,x\\y=\\", "k=", "k=a=b"] {
            let descriptor: DescriptorText = text.parse().unwrap();
            let read: DescriptorText = query_text(&descriptor).parse().unwrap();
            assert_eq!(read, descriptor, "{text}");
        }
    }
}
