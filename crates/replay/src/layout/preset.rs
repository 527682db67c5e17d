//! The layouts of programs whose logs are always alike.

use std::sync::Arc;

use crate::field::Field;
use crate::layout::template::Template;
use crate::layout::{FieldNames, Kind, Layout, Syntax};

/// A program or a service whose layout is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preset {
    /// JSON whose members are named as nginx's variables.
    Nginx,
    /// The default JSON of Istio and of Envoy Gateway.
    Envoy,
    /// Caddy's access log.
    Caddy,
    /// Traefik's access log with `format: json`.
    Traefik,
    /// The W3C's extended log format: IIS, and CloudFront's standard logs.
    W3c,
    /// AWS's Application Load Balancer.
    Alb,
    /// HAProxy's `option httplog`.
    Haproxy,
}

/// Variables of nginx, each as a member of that name.
const NGINX: &str = "time=time_iso8601|time_local|msec|time|timestamp|@timestamp,\
    client=remote_addr,user=remote_user,request=request,method=request_method,\
    path=request_uri|uri,query=args|query_string,protocol=server_protocol,status=status,\
    bytes=body_bytes_sent|bytes_sent,referer=http_referer|http_referrer,\
    user_agent=http_user_agent,host=host|http_host,forwarded_for=http_x_forwarded_for";
/// Istio's `accessLogEncoding: JSON` has underscores, Envoy Gateway's default hyphens.
const ENVOY: &str = "time=start_time,client=downstream_remote_address,method=method,\
    path=x-envoy-origin-path|x_envoy_original_path|path,protocol=protocol,status=response_code,\
    bytes=bytes_sent,user_agent=user_agent|user-agent,host=authority|:authority,\
    referer=referer,forwarded_for=x_forwarded_for|x-forwarded-for";
/// `client_ip` is behind Caddy's trusted proxies, and since 2.7; `remote_addr` was before 2.5.
const CADDY: &str = "time=ts,client=request.client_ip|request.remote_ip|request.remote_addr,\
    user=user_id,method=request.method,path=request.uri,protocol=request.proto,status=status,\
    bytes=size,referer=request.headers.Referer,user_agent=request.headers.User-Agent,\
    host=request.host,forwarded_for=request.headers.X-Forwarded-For";
/// Headers are kept only if Traefik's `accessLog.fields.headers` says so.
const TRAEFIK: &str = "time=StartUTC|StartLocal|time,client=ClientHost|ClientAddr,\
    user=ClientUsername,method=RequestMethod,path=RequestPath,protocol=RequestProtocol,\
    status=DownstreamStatus|OriginStatus,bytes=DownstreamContentSize|OriginContentSize,\
    referer=request_Referer,user_agent=request_User-Agent,host=RequestHost|RequestAddr,\
    forwarded_for=request_X-Forwarded-For";
/// Fields of IIS; `x-host-header`, `x-forwarded-for` and `cs-protocol-version` are CloudFront's.
const W3C: &str = "time=date+time,client=c-ip,user=cs-username,method=cs-method,\
    path=cs-uri-stem|cs-uri,query=cs-uri-query,protocol=cs-version|cs-protocol-version,\
    status=sc-status,bytes=sc-bytes,referer=cs(Referer),user_agent=cs(User-Agent),\
    host=x-host-header|cs-host|cs(Host),\
    forwarded_for=x-forwarded-for|cs(X-Forwarded-For)|X-Forwarded-For";
const ALB: &str = "$type $time_iso8601 $elb $remote_addr:$remote_port $target $request_time \
    $target_time $response_time $status $target_status $received $bytes_sent \"$request\" \
    \"$http_user_agent\"";
/// What is said of a line that is not in this format.
const ALB_EXPECTED: &str = "not in the format of AWS's load balancer: expected `TYPE TIME BALANCER \
    CLIENT:PORT TARGET:PORT …`";
/// Between the size and the request are a variable number of columns and captured headers.
/// The client always has its port, also an IPv6 address, which is not in brackets: what is behind
/// the last colon is not part of the address.
const HAPROXY: &str = "$remote_addr:$remote_port [$time_local] $frontend $backend $timers $status \
    $bytes_sent $others\"$request\"";

/// What is said of a line that is not in this format.
const HAPROXY_EXPECTED: &str = "not in HAProxy's format (`option httplog`): expected `CLIENT:PORT \
    [TIME] FRONTEND BACKEND/SERVER …`";

// === impl Preset ===

impl Preset {
    /// The layout; `names` go before those of the preset.
    ///
    /// # Errors
    ///
    /// The layout has no names, so none can be set.
    pub fn layout(self, names: Option<FieldNames>) -> Result<Layout, NoNames> {
        let own = |text: &str| -> FieldNames { text.parse().expect("a preset is valid") };
        let names_or = |text| names.clone().unwrap_or_default().or(own(text));
        let template = |text, expected| match names {
            Some(_) => Err(NoNames),
            None => {
                let template = Template::of_program(text, expected);
                let template = template.expect("a preset is valid");
                Ok(Layout(Kind::Template(Arc::new(template))))
            }
        };
        match self {
            Preset::Nginx => Ok(Layout::json(names_or(NGINX))),
            Preset::Envoy => Ok(Layout::json(names_or(ENVOY))),
            Preset::Caddy => Ok(Layout::json(names_or(CADDY))),
            Preset::Traefik => Ok(Layout::json(names_or(TRAEFIK))),
            Preset::W3c => Ok(Layout(Kind::Columns {
                syntax: Syntax::W3c,
                names: names_or(W3C),
                columns: None,
            })),
            Preset::Alb => template(ALB, ALB_EXPECTED),
            Preset::Haproxy => template(HAPROXY, HAPROXY_EXPECTED),
        }
    }
}

impl Preset {
    /// Those that can be recognised by one line; a line of the W3C's format says nothing alone.
    const BY_LINE: [Preset; 6] = [
        Preset::Nginx,
        Preset::Envoy,
        Preset::Caddy,
        Preset::Traefik,
        Preset::Alb,
        Preset::Haproxy,
    ];

    /// The program that writes such a line: the first in whose layout it has a time and a client.
    pub(crate) fn of_line(line: &[u8]) -> Option<Preset> {
        Preset::BY_LINE.into_iter().find(|preset| {
            let layout = preset.layout(None);
            layout.is_ok_and(|layout| {
                let mut reader = layout.reader(&[Field::Client]);
                let record = reader.read(line);
                record.is_ok_and(|record| record.is_some_and(|record| record.read().is_ok()))
            })
        })
    }

    /// What is said of an input that seems to be this.
    pub(crate) const fn description(self) -> &'static str {
        match self {
            Preset::Nginx => "it looks like JSON of nginx; use --format nginx-json",
            Preset::Envoy => "it looks like JSON of Envoy; use --format envoy-json",
            Preset::Caddy => "it looks like Caddy's log; use --format caddy-json",
            Preset::Traefik => "it looks like JSON of Traefik; use --format traefik-json",
            Preset::W3c => "it looks like the W3C's extended log format; use --format w3c",
            Preset::Alb => "it looks like the log of AWS's load balancer; use --format alb",
            Preset::Haproxy => "it looks like HAProxy's log; use --format haproxy",
        }
    }
}

/// The values of this layout have places and no names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoNames;
