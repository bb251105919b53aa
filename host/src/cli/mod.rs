//! The command line: one file a command.
//!
//! Results go to stdout, as text or (`--json`) as one JSON object a line; errors, the log and progress bars go to stderr.
//! Exit codes: 0 done, 1 something failed, 2 the command was not understood, 130 the user stopped it.

mod bench;
mod dispatch;
mod generate;
mod info;
mod inspect;
mod load;
mod output;
mod parity;
mod profile;
mod progress;
mod ptx;
mod quantize;
mod serve;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::backend::{Device, DeviceSpec};
use crate::environment::Environment;
use crate::ops::tuning::mmvq_rows::RowsOverride;
use crate::ops::{self, switches::Switches};
use output::Output;

#[derive(Debug, Parser)]
#[command(name = "varve", version, about = "Gated DeltaNet language models on GPU kernels written in Rust")]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

/// What every command takes.
#[derive(Debug, Clone, clap::Args)]
struct Global {
    /// Print one JSON object a line instead of text
    #[arg(long, global = true)]
    json: bool,
    /// Where kernels run: auto (the first usable GPU, else the emulator), cuda:N, or emulator
    ///
    /// Without this flag the environment variable VARVE_DEVICE counts, and without that auto.
    #[arg(long, global = true, value_name = "DEVICE")]
    device: Option<DeviceSpec>,
    /// Which variants may run: OP=VARIANT (only this one, the base behind it), OP=+VARIANT (this one wherever it can run) or OP=-VARIANT (not this one), with commas
    ///
    /// Without this flag the environment variable VARVE_VARIANTS counts.
    #[arg(long, global = true, value_name = "SWITCHES")]
    variants: Option<Switches>,
    /// Which variant of mmvq.product runs, line by line: FORMAT:VECTORS:V,V,V,V,V, with semicolons between lines
    ///
    /// The five are for matrices below 2048, 4096, 8192 and 12288 rows, and from there on; each is a variant, a number of
    /// rows a warp (1, 2, 4), or 0 for plain. The tables count where no line says anything.
    #[arg(long, global = true, value_name = "LINES")]
    mmvq_rows: Option<RowsOverride>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Go on with a text: prints tokens as they come, and rates on stderr
    Generate(generate::Args),
    /// Serve the model over HTTP, with the routes of the OpenAI API
    Serve(serve::Args),
    /// Prove every kernel variant against FP64 references and against its base, by its declared promise
    Parity(parity::Args),
    /// Time the variants of an operation against each other, with the floor beside each figure
    Bench(bench::Args),
    /// Show version, device and embedded kernels, or which variant of each operation runs and why
    Info(info::Args),
    /// List metadata and tensors of a model's files, or say what is wrong with them
    Inspect(inspect::Args),
    /// Write a model as one GGUF file with its weights in smaller types
    Quantize(quantize::Args),
    /// Print the PTX of the embedded kernels, list them, or report their resources
    Ptx(ptx::Args),
}

/// Why a command ends without its result.
#[derive(Debug)]
enum CliError {
    /// The command is understood by nobody: exit code 2.
    Usage(String),
    /// It failed: exit code 1.
    Failed(String),
    /// The user stopped it: exit code 130.
    Interrupted,
    /// It failed, and its rows have said how: exit code 1.
    Reported,
    /// Nobody reads the output any more.
    Closed,
}

impl CliError {
    fn failed(error: impl std::fmt::Display) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<std::io::Error> for CliError {
    fn from(error: std::io::Error) -> Self {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Self::Closed,
            _ => Self::Failed(format!("stdout: {error}")),
        }
    }
}

impl Global {
    fn output(&self) -> Output {
        Output::new(self.json)
    }

    fn environment() -> Result<Environment, CliError> {
        Environment::read().map_err(|error| CliError::Usage(error.to_string()))
    }

    /// The dispatch switches of flag or environment; each must name a variant that exists.
    fn switches(&self) -> Result<Switches, CliError> {
        let mut switches = self.variants.clone().or(Self::environment()?.variants).unwrap_or_default();
        switches.mmvq_rows = self.mmvq_rows.clone().unwrap_or_default();
        ops::check_switches(&switches).map_err(|error| CliError::Usage(error.to_string()))?;
        Ok(switches)
    }

    /// The device that flag or environment name.
    fn open(&self) -> Result<Device, CliError> {
        Self::environment()?.open(self.device, DeviceSpec::Auto).map_err(CliError::failed)
    }
}

/// Runs the program with the process's arguments.
#[must_use]
pub fn main() -> ExitCode {
    run(std::env::args_os())
}

/// Runs the program with these arguments, the first of which is its name.
fn run(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version come this way too; clap knows where each belongs. A closed pipe leaves nobody to tell.
            let _ = error.print();
            return ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2));
        }
    };
    start_log();
    // Switches that name nothing are refused whether or not the command would have looked at them.
    let outcome = cli.global.switches().and_then(|_| match cli.command {
        Command::Generate(args) => generate::run(&cli.global, &args),
        Command::Serve(args) => serve::run(&cli.global, &args),
        Command::Parity(args) => parity::run(&cli.global, &args),
        Command::Bench(args) => bench::run(&cli.global, &args),
        Command::Info(args) => info::run(&cli.global, &args),
        Command::Inspect(args) => inspect::run(&cli.global, &args),
        Command::Quantize(args) => quantize::run(&cli.global, &args),
        Command::Ptx(args) => ptx::run(&cli.global, &args),
    });
    match outcome {
        Ok(()) | Err(CliError::Closed) => ExitCode::SUCCESS,
        Err(CliError::Interrupted) => ExitCode::from(130),
        Err(CliError::Reported) => ExitCode::from(1),
        Err(CliError::Failed(message)) => {
            eprintln!("varve: {message}");
            ExitCode::from(1)
        }
        Err(CliError::Usage(message)) => {
            eprintln!("varve: {message}");
            ExitCode::from(2)
        }
    }
}

/// The log goes to stderr, a line an event.
fn start_log() {
    let log = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_max_level(tracing::Level::INFO)
        .with_target(false)
        .without_time();
    // A second initialisation (never in the program, possibly in an embedding test) leaves the first in place.
    let _ = log.try_init();
}
