//! `varve serve`: the model behind HTTP.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::json;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use super::load::{self, ModelArgs};
use super::{CliError, Global};
use crate::engine::{Engine, Options};
use crate::model::Checkpoint;
use crate::server::auth::{Keys, Names};
use crate::server::limits::Limits;
use crate::server::{self, App, Config, Ended, ModelInfo, Served};

/// Holds API keys, one a line.
const KEY_VARIABLE: &str = "VARVE_API_KEY";
/// A name of every served model, for clients that must send one.
const ANY: &str = "any";

/// Arguments of `varve serve`.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    #[command(flatten)]
    model: ModelArgs,
    /// Address to listen on: an IP address, or localhost; all but loopback need a key or --no-auth
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1", value_parser = address)]
    host: IpAddr,
    /// Port to listen on; 0 takes a free one
    #[arg(long, default_value_t = 8080)]
    port: u16,
    /// Requests that may wait while one runs
    #[arg(long, value_name = "REQUESTS", default_value_t = 64)]
    queue: usize,
    /// Time that a request may wait
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = clap::value_parser!(u64).range(1..))]
    queue_timeout: u64,
    /// File of API keys, one a line, readable by its owner only; the variable VARVE_API_KEY may hold them, too
    #[arg(long, value_name = "FILE")]
    api_key_file: Option<PathBuf>,
    /// Ask nobody for a key, whatever the address
    #[arg(long, conflicts_with = "api_key_file")]
    no_auth: bool,
    /// Name under which clients reach the server, beside localhost and its address
    #[arg(long, value_name = "NAME")]
    allowed_host: Vec<String>,
    /// Origin of web pages that may use the server, such as http://localhost:3000
    #[arg(long, value_name = "ORIGIN")]
    allowed_origin: Vec<String>,
    /// Further name of the model
    #[arg(long, value_name = "NAME")]
    alias: Vec<String>,
    /// Lower max_tokens to what fits into the context, instead of refusing the request
    #[arg(long)]
    fit_max_tokens: bool,
    /// Time that running requests have after SIGTERM or Ctrl-C
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    drain_timeout: u64,
    /// Largest body of a request
    #[arg(long, value_name = "MIB", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=1024))]
    max_body_mib: u16,
    /// Connections at a time
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u16).range(1..))]
    max_connections: u16,
}

fn address(text: &str) -> Result<IpAddr, String> {
    if text == "localhost" {
        return Ok(IpAddr::V4(Ipv4Addr::LOCALHOST));
    }
    text.parse().map_err(|_| "not an IP address; use one such as 127.0.0.1, ::1 or 0.0.0.0, or localhost".to_owned())
}

/// Runs the command.
pub fn run(global: &Global, args: &Args) -> Result<(), CliError> {
    let config = args.config()?;
    // A wrong file ends the program before it listens.
    let checkpoint = args.model.checkpoint()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().map_err(CliError::failed)?;
    let ended = runtime.block_on(serve(global, args, config, checkpoint));
    // Tokenizing that still runs is for nobody.
    runtime.shutdown_background();
    match ended? {
        Ended::Drained | Ended::Aborted => Ok(()),
        Ended::DeviceLost(why) => Err(CliError::Failed(format!("the device is lost: {why}"))),
    }
}

impl Args {
    fn config(&self) -> Result<Config, CliError> {
        let keys = if self.no_auth { Keys::default() } else { self.keys()? };
        if keys.is_empty() && !self.host.is_loopback() {
            if !self.no_auth {
                return Err(CliError::Usage(format!(
                    "{} can be reached by other machines: give --api-key-file or {KEY_VARIABLE}, or --no-auth to serve \
                     everybody",
                    self.host
                )));
            }
            tracing::warn!("{} can be reached by other machines, and nobody is asked for a key", self.host);
        }
        let limits = Limits {
            body_bytes: usize::from(self.max_body_mib) << 20,
            queue_time: Duration::from_secs(self.queue_timeout),
            drain_time: Duration::from_secs(self.drain_timeout),
            connections: self.max_connections.into(),
            ..Limits::default()
        };
        let names = Names { hosts: self.allowed_host.clone(), origins: self.allowed_origin.clone() };
        let aliases = self.alias.iter().cloned().chain([ANY.to_owned()]).collect();
        Ok(Config { keys, names, limits, aliases, fit_max_tokens: self.fit_max_tokens })
    }

    fn keys(&self) -> Result<Keys, CliError> {
        let named = |name: &str, text: &str| {
            let keys = Keys::from_lines(text);
            if keys.is_empty() { Err(CliError::Usage(format!("{name} holds no key"))) } else { Ok(keys) }
        };
        if let Some(path) = &self.api_key_file {
            return named(&path.display().to_string(), &read_private(path)?);
        }
        match std::env::var(KEY_VARIABLE) {
            Ok(text) => named(KEY_VARIABLE, &text),
            Err(std::env::VarError::NotPresent) => Ok(Keys::default()),
            Err(std::env::VarError::NotUnicode(_)) => Err(CliError::Usage(format!("{KEY_VARIABLE} is not UTF-8"))),
        }
    }
}

/// A file that nobody else may read.
fn read_private(path: &Path) -> Result<String, CliError> {
    let failed = |error: std::io::Error| CliError::Failed(format!("{}: {error}", path.display()));
    let mode = std::fs::metadata(path).map_err(failed)?.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        let message = format!("{}: mode {mode:03o} lets others read the keys; chmod 600 it", path.display());
        return Err(CliError::Usage(message));
    }
    std::fs::read_to_string(path).map_err(failed)
}

async fn serve(global: &Global, args: &Args, config: Config, checkpoint: Checkpoint) -> Result<Ended, CliError> {
    let address = SocketAddr::new(args.host, args.port);
    let bound = async {
        let listener = TcpListener::bind(address).await?;
        let bound = listener.local_addr()?;
        Ok::<_, std::io::Error>((listener, bound))
    };
    let (listener, bound) = bound.await.map_err(|error| CliError::Failed(format!("{address}: {error}")))?;
    eprintln!("varve: listening on http://{bound}");
    if global.json {
        let (address, port) = (bound.to_string(), bound.port());
        global.output().line(&json!({"event": "listening", "address": address, "port": port}).to_string())?;
    }
    let app = App::new(config, bound);
    let (loaded, loading) = oneshot::channel();
    std::thread::spawn({
        let (global, args, app) = (global.clone(), args.clone(), Arc::clone(&app));
        move || drop(loaded.send(load(&global, &args, &checkpoint, &app)))
    });
    let mut signals = Signals::new().map_err(CliError::failed)?;
    let (stop, stopped) = oneshot::channel::<()>();
    let mut running = tokio::spawn(server::run(listener, app, async { drop(stopped.await) }));
    let engine = tokio::select! {
        engine = loading => engine.unwrap_or(Err(CliError::Failed("loading panicked".into())))?,
        // What is half loaded is of no use to anybody.
        () = signals.next() => return Ok(Ended::Drained),
    };
    let ended = tokio::select! {
        ended = &mut running => ended,
        () = signals.next() => {
            drop(stop);
            tracing::info!("finishing what runs; a second signal ends at once");
            tokio::spawn(async move {
                signals.next().await;
                std::process::exit(130);
            });
            running.await
        }
    };
    // After a lost device there is nothing to wait for.
    if !matches!(ended, Ok(Ended::DeviceLost(_))) {
        tokio::task::spawn_blocking(|| engine.close()).await.map_err(CliError::failed)?;
    }
    ended.map_err(CliError::failed)
}

/// Loads the model and gives it to the server.
fn load(global: &Global, args: &Args, checkpoint: &Checkpoint, app: &App) -> Result<Engine, CliError> {
    let (model, text) = args.model.load(global, checkpoint, 0)?;
    let device = model.device().spec().to_owned();
    let options = Options { queue: args.queue, chunk: args.model.chunk };
    let matrix_bytes = model.matrix_bytes();
    let engine = Engine::start(model, Arc::clone(&text.tokenizer), options).map_err(CliError::failed)?;
    let info = ModelInfo {
        id: checkpoint.name(),
        created: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs()),
        format: format!("{:?}", checkpoint.format()).to_lowercase(),
        parameters: load::parameters(checkpoint),
    };
    tracing::info!(model = %info.id, %device, context = engine.context(), queue = args.queue, matrix_bytes, "ready");
    let load::Text { tokenizer, chat, stop_ids } = text;
    app.ready(Served { engine: engine.clone(), tokenizer, chat, stop_ids, info });
    Ok(engine)
}

/// SIGINT and SIGTERM.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: Args,
    }

    fn config(line: &[&str]) -> Result<Config, CliError> {
        let line = Line::try_parse_from(["serve"].iter().chain(line)).expect("a valid line");
        line.args.config()
    }

    #[test]
    fn other_machines_need_a_key_or_a_word() {
        if std::env::var_os(KEY_VARIABLE).is_some() {
            return; // keys from there would do
        }
        assert!(config(&[]).is_ok());
        assert!(config(&["--host", "::1"]).is_ok());
        assert!(matches!(config(&["--host", "0.0.0.0"]), Err(CliError::Usage(why)) if why.contains("--no-auth")));
        assert!(config(&["--host", "0.0.0.0", "--no-auth"]).is_ok());
    }

    #[test]
    fn key_files_are_private_and_hold_keys() {
        let path = std::env::temp_dir().join(format!("varve-keys-{}", std::process::id()));
        let ask = |text: &str, mode: u32| {
            std::fs::write(&path, text).expect("a temporary file");
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).expect("its owner");
            config(&["--host", "0.0.0.0", "--api-key-file", &path.display().to_string()])
        };
        let outcomes = [ask("secret\n", 0o600), ask("# none\n\n", 0o600), ask("secret\n", 0o640)];
        std::fs::remove_file(&path).expect("it is there");
        let [fine, empty, open] = outcomes;
        assert!(!fine.expect("a key").keys.is_empty());
        assert!(matches!(empty, Err(CliError::Usage(why)) if why.contains("holds no key")));
        assert!(matches!(open, Err(CliError::Usage(why)) if why.contains("mode 640")));
    }
}
