//! `tollgate serve`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::ValueEnum;
use tollgate_server::{Config, ConfigError, Log, LogFormat, LogGuard, LogLevel, ServeError};

use crate::message::{Reason, print_error, print_error_chain, with_causes};
use crate::settings::unreadable_rules;

/// What to do if the settings file cannot be read.
const NO_SETTINGS: &str = "name a settings file, as in `tollgate serve PATH`; it needs at \
    least `rules: [PATH]`";

/// Threads for work that can block, such as reading rules and encoding metrics. Each takes 2 MiB of
/// address space.
const BLOCKING_THREADS: usize = 8;
/// How long such work may take when the service has stopped; then it is given up.
const BLOCKED_AT_END_MAX: Duration = Duration::from_secs(1);

/// Run the service: gRPC (Envoy's protocol), HTTP, the Redis protocol, and the gateway.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The settings file.
    #[arg(default_value = "tollgate.yaml")]
    config: PathBuf,
    /// Format of log lines; overrides the setting `log.format`.
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<Format>,
    /// The least severe level to log; overrides the setting `log.level`.
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<Level>,
    /// What `check` takes, so that an error says what to write instead.
    #[arg(short = 'c', long = "config", value_name = "PATH", hide = true)]
    config_option: Option<PathBuf>,
    /// What other servers take, for the same reason.
    #[arg(short = 'p', long, value_name = "PORT", hide = true)]
    port: Option<String>,
    /// As in `replay`, for the same reason.
    #[arg(long, value_name = "PATH", hide = true)]
    rules: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Format {
    Text,
    Json,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Level {
    Error,
    Warn,
    Info,
    Debug,
}

const AFTER_HELP: &str = "\
Signals: SIGTERM and SIGINT stop the service after the requests in flight, a second one at once. \
SIGHUP reads the rules, certificates, tokens, lists and settings of the gateway again, and opens \
its access log again; SIGUSR1 does only the latter.

Exit status: 0 if a signal stopped the service; 1 if it cannot run, for example because no domain \
has valid rules or an address is in use; 2 if the command line or the settings are wrong, or a \
file that they name cannot be read.";

/// Runs until a signal stops it. Exits with 0 then, with 1 if the service cannot run, with 2 if its
/// settings are wrong.
pub(crate) fn run(args: &Args) -> ExitCode {
    if let Some(message) = args.misplaced_option() {
        print_error(&message);
        return ExitCode::from(2);
    }
    let limited = tollgate_server::tune_allocator();
    let config = match Config::read(&args.config) {
        Ok(config) => config,
        Err(error) => {
            let why = match error {
                ConfigError::Unreadable(_) => {
                    Reason::Message(format!("{}; {NO_SETTINGS}", with_causes(&error)))
                }
                ConfigError::Invalid(_) => Reason::Diagnostics(error.to_string()),
                _ => Reason::Message(with_causes(&error)),
            };
            // The settings cannot be used, so the log's format comes from the command line or its
            // default.
            let log = args.log(Log::default());
            let guard = tollgate_server::init_log(&log).ok();
            print_start_error(log.format, &why, guard.as_ref());
            return ExitCode::from(2);
        }
    };
    let log = args.log(config.log);
    let guard = tollgate_server::init_log(&log)
        .inspect_err(|error| print_error_chain(&**error))
        .ok();
    if let Some(limited) = limited {
        limited.log();
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .max_blocking_threads(BLOCKING_THREADS)
        .on_thread_park(tollgate_server::empty_thread_cache)
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            print_start_error(
                log.format,
                &Reason::Message(with_causes(&error)),
                guard.as_ref(),
            );
            return ExitCode::FAILURE;
        }
    };
    let served = runtime.block_on(tollgate_server::serve(&config));
    // A name server or a network drive that does not answer keeps a thread for longer.
    runtime.shutdown_timeout(BLOCKED_AT_END_MAX);
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let why = match &error {
                ServeError::Unreadable(unread) => {
                    unreadable_rules(unread, &config.unreadable_rules())
                }
                ServeError::NoRules(_) => Reason::Diagnostics(error.to_string()),
                _ => Reason::Message(with_causes(&error)),
            };
            print_start_error(log.format, &why, guard.as_ref());
            match error {
                ServeError::Unreadable(_) | ServeError::Store { .. } | ServeError::Tls { .. } => {
                    ExitCode::from(2)
                }
                _ => ExitCode::FAILURE,
            }
        }
    }
}

/// Prints why the service does not start, after all that was logged: as a log line if the log is
/// JSON, which programs read.
fn print_start_error(format: LogFormat, why: &Reason, guard: Option<&LogGuard>) {
    if let Some(guard) = guard {
        guard.flush();
    }
    match format {
        LogFormat::Text => why.print(),
        LogFormat::Json => tollgate_server::log_start_error(why.text()),
    }
}

// === impl Args ===

impl Args {
    /// What to write in place of an option that other commands or servers have.
    fn misplaced_option(&self) -> Option<String> {
        let config = self.config_option.as_ref().map(|path| {
            let path = path.display();
            format!("`serve` has no option `--config` or `-c`; write `tollgate serve {path}`")
        });
        let rules = self.rules.as_ref().map(|path| {
            let path = path.display();
            format!(
                "`serve` has no option `--rules`; write `rules: [{path}]` in a settings file such \
                 as tollgate.yaml, and `tollgate serve tollgate.yaml`"
            )
        });
        let port = self.port.as_ref().map(|port| {
            format!(
                "`serve` has no option `--port`; write `listen: {{http: '127.0.0.1:{port}'}}` in \
                 the settings file"
            )
        });
        config.or(rules).or(port)
    }

    fn log(&self, configured: Log) -> Log {
        let format = match self.log_format {
            Some(Format::Text) => LogFormat::Text,
            Some(Format::Json) => LogFormat::Json,
            None => configured.format,
        };
        let level = match self.log_level {
            Some(Level::Error) => LogLevel::Error,
            Some(Level::Warn) => LogLevel::Warn,
            Some(Level::Info) => LogLevel::Info,
            Some(Level::Debug) => LogLevel::Debug,
            None => configured.level,
        };
        Log { level, format }
    }
}
