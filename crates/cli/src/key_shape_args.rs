//! Options that make keys of logs as the gateway makes them of requests.

use tollgate_http::{AddressSource, ClientAddressSettings, InvalidSetting, InvalidSettings};
use tollgate_replay::KeyShape;

/// The bits of an IPv6 address that make a key by default: all, unlike in the gateway.
const IPV6_PREFIX: u8 = 128;

/// How the values of keys are made of a log's lines.
#[derive(Debug, clap::Args)]
pub(crate) struct KeyShapeArgs {
    /// The proxies whose X-Forwarded-For is trusted: their networks, or the number of hops.
    ///
    /// `{client}` is then the client that the gateway would find behind them, with the setting
    /// `trusted_proxies` or, for a number, `trusted_hops`. The format must have `forwarded_for`.
    #[arg(long, value_name = "CIDR,...|HOPS", value_delimiter = ',')]
    trusted_proxies: Vec<String>,
    /// How many leading bits of an IPv4 `{client}` make up the key: with 24, 192.0.2.7 is counted
    /// as 192.0.2.0/24. Default: all.
    #[arg(long, value_name = "BITS")]
    ipv4_prefix: Option<u8>,
    /// How many leading bits of an IPv6 `{client}` make up the key. Default: all, whereas the
    /// gateway's default is 64.
    #[arg(long, value_name = "BITS")]
    ipv6_prefix: Option<u8>,
    /// A template such as `/users/{id}`: for every path that matches it, `{path}` is the template;
    /// may be repeated.
    ///
    /// Templates work as in the gateway's `routes`: `{id}` stands for one segment, `{*rest}` at the
    /// end for one or more, and the template with more fixed segments wins. For other paths,
    /// `{path}` is the path itself.
    #[arg(long, value_name = "TEMPLATE")]
    path_template: Vec<String>,
}

// === impl KeyShapeArgs ===

impl KeyShapeArgs {
    /// The first of these options that is given.
    pub(crate) fn first_option(&self) -> Option<&'static str> {
        let options = [
            ("--trusted-proxies", !self.trusted_proxies.is_empty()),
            ("--ipv4-prefix", self.ipv4_prefix.is_some()),
            ("--ipv6-prefix", self.ipv6_prefix.is_some()),
            ("--path-template", !self.path_template.is_empty()),
        ];
        options
            .into_iter()
            .find_map(|(option, is_given)| is_given.then_some(option))
    }

    /// What the options say together.
    ///
    /// # Errors
    ///
    /// Which option cannot be used, and what to write instead.
    pub(crate) fn shape(&self) -> Result<KeyShape, String> {
        let mut shape = KeyShape::default();
        if let Some(settings) = self.client_settings()? {
            shape = shape.with_clients(&settings).map_err(in_options)?;
        }
        if !self.path_template.is_empty() {
            let templates = &self.path_template;
            shape = shape.with_templates(templates).map_err(in_options)?;
        }
        Ok(shape)
    }

    /// The gateway's settings for the same; `None` if clients stay as they are.
    fn client_settings(&self) -> Result<Option<ClientAddressSettings>, String> {
        let defaults = ClientAddressSettings::default();
        let prefixes = ClientAddressSettings {
            ipv4_prefix: self.ipv4_prefix.unwrap_or(defaults.ipv4_prefix),
            ipv6_prefix: self.ipv6_prefix.unwrap_or(IPV6_PREFIX),
            ..defaults
        };
        let settings = |trusted_proxies, trusted_hops| ClientAddressSettings {
            source: AddressSource::XForwardedFor,
            trusted_proxies,
            trusted_hops,
            ..prefixes.clone()
        };
        let proxies = self.trusted_proxies.as_slice();
        let hops = match proxies {
            [only] => only.parse().ok(),
            _ => None,
        };
        match (proxies, hops) {
            ([], _) if self.ipv4_prefix.is_none() && self.ipv6_prefix.is_none() => Ok(None),
            ([], _) => Ok(Some(prefixes)),
            (_, Some(0)) => Err(
                "--trusted-proxies: with 0 hops, no proxy is trusted; leave the option out"
                    .to_owned(),
            ),
            (_, Some(hops)) => Ok(Some(settings(Vec::new(), Some(hops)))),
            (proxies, None) => Ok(Some(settings(proxies.to_vec(), None))),
        }
    }
}

/// The errors of settings as those of the options that set them, one line each.
fn in_options(errors: InvalidSettings) -> String {
    let lines: Vec<String> = errors.into_iter().map(in_option).collect();
    lines.join("\n")
}

fn in_option(error: InvalidSetting) -> String {
    let setting = error.at.split('[').next().unwrap_or_default();
    let option = match setting {
        "ipv4_prefix" => "--ipv4-prefix",
        "ipv6_prefix" => "--ipv6-prefix",
        "routes" => "--path-template",
        _ => "--trusted-proxies",
    };
    let instead = error.instead.replace("`trusted_hops`", "a number of hops");
    format!("{option}: {}; {instead}", error.problem)
}
