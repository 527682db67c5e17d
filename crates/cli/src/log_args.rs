//! Options that say what the lines of a log are like, for all subcommands that read logs.

use std::ffi::OsStr;

use clap::builder::{EnumValueParser, PossibleValue, TypedValueParser};
use clap::error::ErrorKind;
use clap::{Arg, Command, ValueEnum};
use tollgate_replay::{FieldNames, KeyShape, Layout, LogKind, Preset, Traffic};

use crate::key_shape_args::KeyShapeArgs;

/// What the lines of a log are like.
#[derive(Debug, clap::Args)]
pub(crate) struct LogArgs {
    /// Format of the input.
    #[arg(long, value_parser = FormatParser, default_value = "auto")]
    pub(crate) format: LogFormat,
    /// The names that fields have in the log, for formats with named values: JSON, CSV and W3C.
    ///
    /// A list such as `time=ts,client=request.client_ip|request.remote_ip`. On the left is `time`,
    /// `request` (a request line such as `GET / HTTP/1.1`) or a field. On the right are names,
    /// separated by `|`; the first that a line has is used. `date+time` joins two values. In JSON,
    /// `a.b` is the member b of the object a. Fields that are not listed keep the names of the
    /// format.
    #[arg(long, value_name = "FIELD=NAME,...")]
    pub(crate) fields: Option<FieldNames>,
    /// For --format csv: the names of the columns, if the first line does not have them.
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub(crate) columns: Option<Vec<String>>,
    /// Lines as nginx's `log_format` or Apache's `LogFormat` describes them, such as
    /// `$remote_addr - $remote_user [$time_local] "$request" $status` or `%h %l %u %t "%r" %>s %b`.
    #[arg(long, value_name = "FORMAT", conflicts_with_all = ["format", "fields", "columns"])]
    pub(crate) log_format: Option<String>,
    #[command(flatten)]
    keys: KeyShapeArgs,
}

/// The formats of inputs by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// An access log, each line in the common or the combined format.
    Auto,
    /// An access log; anything after the size is ignored.
    Common,
    /// An access log with referer and user agent.
    Combined,
    /// An access log, one JSON object per line; --fields names its members.
    Json,
    /// nginx's JSON, whose members have the names of variables: `log_format … escape=json`.
    NginxJson,
    /// Envoy's JSON, as Istio and Envoy Gateway write it by default.
    EnvoyJson,
    /// Caddy's access log.
    #[value(alias = "caddy")]
    CaddyJson,
    /// Traefik's access log with `format: json`.
    #[value(alias = "traefik")]
    TraefikJson,
    /// Values separated by commas, semicolons, tabs or bars; the first line names the columns.
    Csv,
    /// The W3C's extended log format, as IIS and CloudFront (standard logs) write it.
    #[value(aliases = ["iis", "cloudfront"])]
    W3c,
    /// The access log of AWS's Application Load Balancer.
    Alb,
    /// HAProxy's HTTP log.
    Haproxy,
    /// For `replay` only: requests per second, one number per line. Events are generated: see
    /// --keys and --start.
    Counts,
    /// For `replay` only: a trace, one event per line, {"at": SECONDS or RFC 3339, "domain": …,
    /// "descriptors": […]}.
    Jsonl,
}

/// Parses the name of a format; for the name of a program that writes several, names them.
#[derive(Clone)]
struct FormatParser;

/// Programs, and what to write for them.
const PROGRAMS: [(&str, &str); 3] = [
    (
        "nginx",
        "`combined`, its default, or `nginx-json`, or --log-format",
    ),
    ("apache", "`combined` or `common`, or --log-format"),
    ("envoy", "`envoy-json`"),
];

// === impl FormatParser ===

impl TypedValueParser for FormatParser {
    type Value = LogFormat;

    fn parse_ref(
        &self,
        command: &Command,
        argument: Option<&Arg>,
        value: &OsStr,
    ) -> Result<LogFormat, clap::Error> {
        match PROGRAMS.iter().find(|(program, _)| value == *program) {
            None => EnumValueParser::new().parse_ref(command, argument, value),
            Some((program, instead)) => {
                let message = format!("--format {program}: write {instead}");
                Err(command.clone().error(ErrorKind::InvalidValue, message))
            }
        }
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let variants = LogFormat::value_variants().iter();
        Some(Box::new(variants.filter_map(ValueEnum::to_possible_value)))
    }
}

// === impl LogArgs ===

impl LogArgs {
    /// Where the values of an access log's lines are; `None` if the input is none.
    ///
    /// # Errors
    ///
    /// What is wrong with the options, or which of them do not go together.
    pub(crate) fn kind(&self) -> Result<Option<LogKind>, String> {
        if let Some(format) = &self.log_format {
            if let Ok(named) = <LogFormat as ValueEnum>::from_str(format.trim(), true) {
                let name = named.to_possible_value();
                let name = name.as_ref().map_or("", |value| value.get_name());
                return Err(format!(
                    "--log-format: `{format}` is the name of a format; write --format {name}"
                ));
            }
            let layout = Layout::log_format(format);
            return match layout {
                Ok(layout) => Ok(Some(LogKind::Layout(layout))),
                Err(error) => Err(format!("--log-format: {error}")),
            };
        }
        if self.columns.is_some() && self.format != LogFormat::Csv {
            return Err("--columns names those of CSV; add --format csv".to_owned());
        }
        let no_names = |name: &str| match &self.fields {
            Some(_) => Err(format!(
                "--fields is about JSON, CSV and W3C; drop it, or --format {name}"
            )),
            None => Ok(()),
        };
        let layout = match self.format {
            LogFormat::Auto | LogFormat::Combined => {
                no_names("combined")?;
                return Ok(Some(LogKind::Combined));
            }
            LogFormat::Common => {
                no_names("common")?;
                return Ok(Some(LogKind::Common));
            }
            LogFormat::Counts => {
                no_names("counts")?;
                return Ok(None);
            }
            LogFormat::Jsonl => {
                no_names("jsonl, whose events are requests; another log is --format json")?;
                return Ok(None);
            }
            LogFormat::Json => Layout::json(self.names_or_common()),
            LogFormat::Csv => Layout::csv(self.names_or_common(), self.columns.clone()),
            LogFormat::NginxJson => self.preset(Preset::Nginx)?,
            LogFormat::EnvoyJson => self.preset(Preset::Envoy)?,
            LogFormat::CaddyJson => self.preset(Preset::Caddy)?,
            LogFormat::TraefikJson => self.preset(Preset::Traefik)?,
            LogFormat::W3c => self.preset(Preset::W3c)?,
            LogFormat::Alb => self.preset(Preset::Alb)?,
            LogFormat::Haproxy => self.preset(Preset::Haproxy)?,
        };
        Ok(Some(LogKind::Layout(layout)))
    }

    /// The traffic with its keys shaped as the options say.
    ///
    /// # Errors
    ///
    /// Which option cannot be used, or not with this format.
    pub(crate) fn shape(&self, traffic: Traffic) -> Result<Traffic, String> {
        let Some(option) = self.keys.first_option() else {
            return Ok(traffic);
        };
        if matches!(self.format, LogFormat::Counts | LogFormat::Jsonl) {
            return Err(format!(
                "{option} is about access logs; drop it, or --format"
            ));
        }
        let shape: KeyShape = self.keys.shape()?;
        let shaped = traffic.with_shape(shape);
        shaped.map_err(|error| format!("{option}: {error}"))
    }

    fn names_or_common(&self) -> FieldNames {
        self.fields
            .clone()
            .unwrap_or_default()
            .or(FieldNames::common())
    }

    fn preset(&self, preset: Preset) -> Result<Layout, String> {
        let layout = preset.layout(self.fields.clone());
        layout.map_err(|_| {
            "--fields is about JSON, CSV and W3C; the values of this format have places and no \
             names"
                .to_owned()
        })
    }
}
