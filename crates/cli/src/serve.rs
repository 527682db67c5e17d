//! `tollgate serve`.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;
use tollgate_server::{Config, ConfigError, Log, LogFormat, LogLevel, ServeError};

use crate::complaint::{complain, complain_of, with_reasons};

/// What to do without settings.
const NO_SETTINGS: &str = "name the settings, as in `tollgate serve PATH`; the least that they \
    say is `rules: [PATH]`";

/// Threads for what waits for files or the allocator: the rules, metrics. Each takes 2 MiB of the
/// address space.
const BLOCKING_THREADS: usize = 8;

/// Serve rules over gRPC (Envoy's rate limit service), HTTP and an admin port.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The settings.
    #[arg(default_value = "tollgate.yaml")]
    config: PathBuf,
    /// What a line of the log looks like, in place of `log.format`.
    #[arg(long, value_name = "FORMAT")]
    log_format: Option<Format>,
    /// How much is logged, in place of `log.level`.
    #[arg(long, value_name = "LEVEL")]
    log_level: Option<Level>,
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

/// Runs until told to stop: 0 then, 1 if the service cannot run, 2 if its settings are wrong.
pub(crate) fn run(args: &Args) -> ExitCode {
    let config = match Config::read(&args.config) {
        Ok(config) => config,
        Err(error) => {
            let why = with_reasons(&error);
            let why = match error {
                ConfigError::Unreadable(_) => format!("{why}; {NO_SETTINGS}"),
                _ => why,
            };
            // Nothing else is logged, so that what the settings say of the log does not matter.
            let log = args.log(Log::default());
            let _ = tollgate_server::init_log(&log);
            complain_in(log.format, &why);
            return ExitCode::from(2);
        }
    };
    let log = args.log(config.log);
    if let Err(error) = tollgate_server::init_log(&log) {
        complain(&*error);
    }
    tollgate_server::fit_address_space();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .max_blocking_threads(BLOCKING_THREADS)
        .enable_all()
        .build();
    let runtime = match runtime {
        Ok(runtime) => runtime,
        Err(error) => {
            complain_in(log.format, &with_reasons(&error));
            return ExitCode::FAILURE;
        }
    };
    match runtime.block_on(tollgate_server::serve(&config)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain_in(log.format, &with_reasons(&error));
            match error {
                ServeError::Unreadable(_) | ServeError::Store { .. } => ExitCode::from(2),
                _ => ExitCode::FAILURE,
            }
        }
    }
}

/// Says why the service does not start: as a line of the log, if programs read that.
fn complain_in(format: LogFormat, why: &str) {
    match format {
        LogFormat::Text => complain_of(why),
        LogFormat::Json => tollgate_server::log_start_error(why),
    }
}

// === impl Args ===

impl Args {
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
