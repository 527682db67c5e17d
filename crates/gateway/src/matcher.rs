//! Which requests a route is for.

use http::header::HOST;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use tollgate_http::{InvalidSetting, InvalidSettings, NormalPath, PathSettings, Routes};

use crate::settings::{MATCHES_MAX, MatchSettings};

mod condition;

use condition::{parse_header, parse_method};

/// A segment that no template has as a fixed one, to see whether one template covers another.
const SEGMENT: &str = "~~";

/// The conditions of a route. An empty list sets no condition.
#[derive(Debug)]
pub(crate) struct Matcher {
    hosts: Vec<HostPattern>,
    templates: Vec<String>,
    paths: Routes,
    normal_form: PathSettings,
    methods: Vec<Method>,
    headers: Vec<(HeaderName, Option<HeaderValue>)>,
}

/// A host, in small letters.
#[derive(Debug, PartialEq, Eq)]
enum HostPattern {
    Exact(String),
    /// All hosts that end with this, which begins with a dot.
    Below(String),
}

/// What is compared with conditions.
#[derive(Debug)]
pub(crate) struct Target<'a> {
    /// `None` also if no route has a condition on it.
    pub(crate) host: Option<&'a str>,
    /// `None` if no route has a condition on it.
    pub(crate) path: Option<&'a NormalPath>,
    pub(crate) method: &'a Method,
    pub(crate) headers: &'a HeaderMap,
}

/// The host of a request without its port, as it was sent.
pub(crate) fn host(head: &Parts) -> Option<&str> {
    let named = match head.uri.authority() {
        Some(authority) => authority.as_str(),
        None => head.headers.get(HOST)?.to_str().ok()?,
    };
    let end = match named.find(']') {
        Some(bracket) => bracket + 1,
        None => named.find(':').unwrap_or(named.len()),
    };
    let host = named.get(..end)?;
    Some(host.strip_suffix('.').unwrap_or(host))
}

// === impl Matcher ===

impl Matcher {
    /// # Errors
    ///
    /// Every condition that cannot be used.
    pub(crate) fn new(
        settings: &MatchSettings,
        normal_form: PathSettings,
    ) -> Result<Matcher, InvalidSettings> {
        let mut errors = InvalidSettings::default();
        let MatchSettings {
            hosts,
            paths,
            methods,
            headers,
        } = settings;
        for (at, count) in [
            ("hosts", hosts.len()),
            ("paths", paths.len()),
            ("methods", methods.len()),
            ("headers", headers.len()),
        ] {
            // So many errors would help nobody.
            InvalidSetting::check_at_most(at, count, "of them", MATCHES_MAX)?;
        }
        let hosts = errors.take_each("hosts", hosts, |host| HostPattern::parse(host));
        let read = Routes::new(paths, &normal_form);
        let read = read.map_err(|all| all.into_iter().map(at_paths).collect::<InvalidSettings>());
        let read = errors.take(read);
        let methods = errors.take_each("methods", methods, |method| parse_method(method));
        let headers = headers.iter();
        let headers = headers.filter_map(|(name, value)| errors.take(parse_header(name, value)));
        let headers = headers.collect();
        match read {
            Some(read) if errors.is_empty() => Ok(Matcher {
                hosts,
                templates: paths.clone(),
                paths: read,
                normal_form,
                methods,
                headers,
            }),
            _ => Err(errors),
        }
    }

    /// Whether it looks at the host.
    pub(crate) fn needs_host(&self) -> bool {
        !self.hosts.is_empty()
    }

    /// Whether paths must be normalised to compare them.
    pub(crate) fn needs_path(&self) -> bool {
        !self.templates.is_empty()
    }

    /// The headers that it looks at.
    pub(crate) fn header_names(&self) -> impl Iterator<Item = &HeaderName> {
        self.headers.iter().map(|(name, _)| name)
    }

    /// Those of them whose values it compares.
    pub(crate) fn compared_headers(&self) -> impl Iterator<Item = &HeaderName> {
        let compared = self.headers.iter().filter(|(_, value)| value.is_some());
        compared.map(|(name, _)| name)
    }

    /// What the route is called if it has no name.
    pub(crate) fn first_condition(&self) -> Option<&str> {
        let host = self.hosts.first().map(|host| match host {
            HostPattern::Exact(host) | HostPattern::Below(host) => host.as_str(),
        });
        self.templates.first().map(String::as_str).or(host)
    }

    /// Whether a request fits all conditions. Headers with several different values were rejected
    /// before, if any route compares them.
    pub(crate) fn matches(&self, target: &Target<'_>) -> bool {
        let is_host = |host: &str| self.hosts.iter().any(|pattern| pattern.matches(host));
        let is_path = |path: &NormalPath| self.paths.find(path).is_some();
        let is_method = |method: &Method| {
            // Many servers take `post` for POST: it must not get past the limits of POST.
            method.as_str().eq_ignore_ascii_case(target.method.as_str())
        };
        (self.methods.is_empty() || self.methods.iter().any(is_method))
            && (self.hosts.is_empty() || target.host.is_some_and(is_host))
            && (self.templates.is_empty() || target.path.is_some_and(is_path))
            && self.headers.iter().all(|(name, value)| {
                let mut values = target.headers.get_all(name).iter();
                match value {
                    Some(value) => values.any(|found| found == value),
                    None => values.next().is_some(),
                }
            })
    }

    /// Whether every request that fits `other` fits this as well. May miss rare cases.
    pub(crate) fn covers(&self, other: &Matcher) -> bool {
        let covers_host = |host: &HostPattern| self.hosts.iter().any(|one| one.covers(host));
        let has_header = |(name, value): &(HeaderName, Option<HeaderValue>)| {
            let others = other.headers.iter();
            others
                .filter(|(found, _)| found == name)
                .any(|(_, found)| value.is_none() || found == value)
        };
        covers_list(&self.methods, &other.methods, |one| {
            self.methods.contains(one)
        }) && covers_list(&self.hosts, &other.hosts, covers_host)
            && covers_list(&self.templates, &other.templates, |one| {
                self.covers_path(one)
            })
            && self.headers.iter().all(has_header)
    }

    /// Tries a rest of each number of segments, up to more than any template here has without one
    /// of its own.
    fn covers_path(&self, template: &str) -> bool {
        let finds = |rest: &str| {
            let segments = template.split('/').map(|segment| match segment {
                _ if segment.starts_with("{*") => rest,
                _ if segment.starts_with('{') => SEGMENT,
                _ => segment,
            });
            let path = segments.collect::<Vec<_>>().join("/");
            let path = self.normal_form.normalize(path.as_bytes());
            path.is_ok_and(|path| self.paths.find(&path).is_some())
        };
        let counts = self.templates.iter().map(|own| own.split('/').count());
        let mut rests = (1..=counts.max().unwrap_or(0)).map(|count| vec![SEGMENT; count].join("/"));
        rests.all(|rest| finds(&rest))
    }
}

/// Whether the conditions of one list cover those of another.
fn covers_list<T>(own: &[T], other: &[T], covers: impl Fn(&T) -> bool) -> bool {
    own.is_empty() || !other.is_empty() && other.iter().all(covers)
}

/// `paths` instead of the `routes` of identity.
fn at_paths(invalid: InvalidSetting) -> InvalidSetting {
    let at = invalid.at.replacen("routes", "paths", 1);
    InvalidSetting { at, ..invalid }
}

// === impl HostPattern ===

impl HostPattern {
    /// Reads a host, or `*` and a dot before one.
    fn parse(text: &str) -> Result<HostPattern, InvalidSetting> {
        let name = text.strip_prefix('*').unwrap_or(text);
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._[]:".contains(&byte);
        let has_port = !name.starts_with('[') && name.contains(':');
        let is_below = name.len() < text.len();
        let is_host = !name.is_empty()
            && name.bytes().all(is_allowed)
            && !has_port
            && !name.ends_with('.')
            && name.starts_with('.') == is_below;
        if !is_host {
            let problem = format!("\"{text}\" is not a valid host");
            let instead = match text {
                "*" => "leave out `hosts`, for all hosts",
                _ => {
                    "write a name without a port, such as shop.example, or *.shop.example for all \
                     below it"
                }
            };
            return Err(InvalidSetting::new("", problem, instead));
        }
        let name = name.to_ascii_lowercase();
        Ok(match is_below {
            true => HostPattern::Below(name),
            false => HostPattern::Exact(name),
        })
    }

    fn matches(&self, host: &str) -> bool {
        match self {
            HostPattern::Exact(name) => name.eq_ignore_ascii_case(host),
            HostPattern::Below(end) => {
                let at = host.len().checked_sub(end.len());
                let rest = at.filter(|at| *at > 0).and_then(|at| host.get(at..));
                rest.is_some_and(|rest| rest.eq_ignore_ascii_case(end))
            }
        }
    }

    fn covers(&self, other: &HostPattern) -> bool {
        match (self, other) {
            (one, HostPattern::Exact(host)) => one.matches(host),
            (HostPattern::Below(end), HostPattern::Below(other)) => other.ends_with(end.as_str()),
            (HostPattern::Exact(_), HostPattern::Below(_)) => false,
        }
    }
}

#[cfg(test)]
mod tests;
