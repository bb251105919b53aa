//! `varve generate`: goes on with a text, printing tokens as they come.

use std::io::{self, IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use indicatif::ProgressBar;
use serde_json::{Map, Value, json};

use super::load::{ModelArgs, Text};
use super::{CliError, Global, profile, progress};
use crate::engine::sample::Sampling;
use crate::engine::{Engine, Event, Finish, Generation, Options, Request, SubmitError, Timings, Usage};
use crate::model::LanguageModel;
use crate::model::tokenizer::Special;

/// Arguments of `varve generate`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    model: ModelArgs,
    /// The prompt; without it and -f it is read from stdin
    #[arg(short, long, value_name = "TEXT", conflicts_with = "file")]
    prompt: Option<String>,
    /// Read the prompt from a file, or from stdin for `-`
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// The prompt is a message: put it into the model's chat template
    #[arg(long)]
    chat: bool,
    /// Most tokens to generate; the context's end ends the reply, too
    #[arg(short = 'n', long, value_name = "TOKENS", default_value_t = 256)]
    max_tokens: usize,
    /// Choose tokens at random at this temperature, 0 to 2; 0 always takes the likeliest
    #[arg(long, value_name = "T", default_value_t = 0.0)]
    temp: f32,
    /// Choose among this many of the likeliest tokens only; 0 is all
    #[arg(long, value_name = "K", default_value_t = 0)]
    top_k: u32,
    /// Choose among the likeliest tokens that have this probability together; 1 is all
    #[arg(long, value_name = "P", default_value_t = 1.0)]
    top_p: f32,
    /// Choose among tokens of at least this fraction of the likeliest one's probability; 0 is all
    #[arg(long, value_name = "P", default_value_t = 0.0)]
    min_p: f32,
    /// Make tokens of prompt and reply less likely, above 0, at most 2; 1 is off
    #[arg(long, value_name = "R", default_value_t = 1.0)]
    repetition_penalty: f32,
    /// Start of the random numbers: the same seed gives the same text
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// End the reply before this text; may be given more than once
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,
    /// Go on where the model ends its text
    #[arg(long)]
    ignore_eos: bool,
    /// Begin behind this many made-up tokens (random state, keys and values), in a context longer than the model was made
    /// for if need be: to see with --profile what a token costs there
    #[arg(long, value_name = "TOKENS", default_value_t = 0)]
    made_up: usize,
    /// Time every kernel, and print what each cost a token of the prompt and of the reply
    #[arg(long)]
    profile: bool,
}

/// All that a reply came to.
#[derive(Default)]
struct Reply {
    text: String,
    ids: Vec<u32>,
    end: Option<(Finish, Usage, Timings)>,
}

/// Runs the command.
pub fn run(global: &Global, args: &Args) -> Result<(), CliError> {
    let prompt = args.read_prompt()?;
    args.check(&prompt)?;
    let checkpoint = args.model.checkpoint()?;
    let (mut model, text) = args.model.load(global, &checkpoint, args.made_up)?;
    let ids = args.encode(&text, &prompt)?;
    args.fit(model.context(), ids.len())?;
    let device = model.device().spec().to_owned();
    let name = checkpoint.name();
    let profiled = args.profile.then(|| model.profile());
    drop(checkpoint);
    let options = Options { queue: 1, chunk: args.model.chunk };
    let engine = Engine::start(model, text.tokenizer.clone(), options).map_err(CliError::failed)?;
    let generation = engine.submit(args.request(ids.clone(), &text)).map_err(refused);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(CliError::failed)?;
    let outcome = generation.and_then(|generation| runtime.block_on(follow(generation, global.json)));
    // A second Ctrl-C does not wait for the pass that runs.
    runtime.spawn(async {
        let _ = tokio::signal::ctrl_c().await;
        std::process::exit(130);
    });
    runtime.block_on(async { tokio::task::spawn_blocking(|| engine.close()).await }).map_err(CliError::failed)?;
    let (reply, interrupted) = outcome?;
    report(global, &reply, &json!({"model": name, "device": device, "prompt_ids": ids, "seed": args.seed}))?;
    if let Some(profiled) = profiled {
        profile::report(global, &profiled)?;
    }
    if interrupted { Err(CliError::Interrupted) } else { Ok(()) }
}

impl Args {
    fn read_prompt(&self) -> Result<String, CliError> {
        let (name, bytes) = match (&self.prompt, &self.file) {
            (Some(prompt), _) => return Ok(prompt.clone()),
            (None, Some(path)) if path != Path::new("-") => {
                let name = path.display().to_string();
                let bytes = std::fs::read(path).map_err(|error| CliError::Failed(format!("{name}: {error}")))?;
                (name, bytes)
            }
            _ => {
                if io::stdin().is_terminal() {
                    eprintln!("reading the prompt from the terminal; end it with Ctrl-D, or use -p TEXT");
                }
                let mut bytes = Vec::new();
                let read = io::stdin().lock().read_to_end(&mut bytes);
                read.map_err(|error| CliError::Failed(format!("stdin: {error}")))?;
                ("stdin".into(), bytes)
            }
        };
        String::from_utf8(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            CliError::Failed(format!("{name}: the byte at offset {at} is not UTF-8; a prompt is text in UTF-8"))
        })
    }

    /// Finds what needs no model to be wrong, before one is loaded.
    fn check(&self, prompt: &str) -> Result<(), CliError> {
        if prompt.is_empty() {
            return Err(CliError::Usage("the prompt is empty; give at least one character".into()));
        }
        if self.max_tokens == 0 {
            return Err(CliError::Usage("--max-tokens is 0; ask for at least 1".into()));
        }
        if self.stop.iter().any(String::is_empty) {
            return Err(CliError::Usage("a --stop text is empty; it would end every reply at once".into()));
        }
        self.sampling().check(u32::MAX as usize).map_err(|error| CliError::Usage(error.to_string()))
    }

    /// Made-up tokens take room, which the engine does not know of.
    fn fit(&self, context: usize, prompt: usize) -> Result<(), CliError> {
        let all = self.made_up.saturating_add(prompt).saturating_add(self.max_tokens);
        if self.made_up == 0 || all <= context {
            return Ok(());
        }
        let made_up = self.made_up;
        Err(CliError::Usage(format!(
            "{made_up} made-up tokens, prompt and reply are {all}, the context is {context}; give --ctx {all}"
        )))
    }

    fn encode(&self, text: &Text, prompt: &str) -> Result<Vec<u32>, CliError> {
        let ids = if self.chat {
            let chat = text.chat.as_ref();
            let chat =
                chat.ok_or_else(|| CliError::Failed("the model has no chat template; leave out --chat".into()))?;
            let messages = json!([{"role": "user", "content": prompt}]);
            chat.encode(&text.tokenizer, messages, Map::new()).map_err(CliError::failed)?
        } else {
            text.tokenizer.encode(prompt, Special::Parse).map_err(CliError::failed)?
        };
        Ok(ids)
    }

    fn sampling(&self) -> Sampling {
        Sampling {
            temperature: self.temp,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            repetition_penalty: self.repetition_penalty,
            seed: self.seed,
            ..Sampling::default()
        }
    }

    fn request(&self, prompt: Vec<u32>, text: &Text) -> Request {
        let (stop, stop_ids) = (self.stop.clone(), text.stop_ids.clone());
        let (sampling, max_tokens, ignore_eos) = (self.sampling(), self.max_tokens, self.ignore_eos);
        Request { prompt, max_tokens, sampling, stop, stop_ids, ignore_eos }
    }
}

/// What to do about a refused request, where the command line can.
fn refused(error: SubmitError) -> CliError {
    let hint =
        if matches!(error, SubmitError::TooLong { .. }) { "; use a larger --ctx or a shorter prompt" } else { "" };
    CliError::Usage(format!("{error}{hint}"))
}

/// Time after which a prompt that is still read gets a bar.
const BAR_AFTER: Duration = Duration::from_secs(1);

/// Prints pieces as they come (`quiet`: collects them only); whether Ctrl-C ended it.
async fn follow(mut generation: Generation, quiet: bool) -> Result<(Reply, bool), CliError> {
    let mut reply = Reply::default();
    let (mut bar, started) = (ProgressBar::hidden(), std::time::Instant::now());
    loop {
        let event = tokio::select! {
            event = generation.next() => event,
            _ = tokio::signal::ctrl_c() => {
                end_line(&reply, quiet)?;
                return Ok((reply, true));
            }
        };
        match event {
            Some(Event::Prompt { done, total }) => {
                if bar.is_hidden() && started.elapsed() >= BAR_AFTER {
                    bar = progress::bar(total, quiet);
                    bar.set_message("prompt");
                }
                bar.set_position(done as u64);
                if done == total {
                    bar.finish_and_clear();
                }
            }
            Some(Event::Piece { text, ids }) => {
                if !quiet {
                    let mut stdout = io::stdout().lock();
                    stdout.write_all(text.as_bytes())?;
                    stdout.flush()?;
                }
                reply.text += &text;
                reply.ids.extend(ids);
            }
            Some(Event::Finished { reason, usage, timings }) => {
                reply.end = Some((reason, usage, timings));
                end_line(&reply, quiet)?;
                return Ok((reply, false));
            }
            Some(Event::Failed(failure)) => {
                end_line(&reply, quiet)?;
                return Err(CliError::failed(failure));
            }
            Some(Event::Started { .. }) => {}
            None => return Err(CliError::Failed("the engine has stopped".into())),
        }
    }
}

/// The shell's prompt belongs on a line of its own.
fn end_line(reply: &Reply, quiet: bool) -> io::Result<()> {
    if quiet || reply.text.is_empty() || reply.text.ends_with('\n') {
        return Ok(());
    }
    let mut stdout = io::stdout().lock();
    stdout.write_all(b"\n")?;
    stdout.flush()
}

/// The figures: on stderr, or with everything else as one object on stdout.
fn report(global: &Global, reply: &Reply, about: &Value) -> Result<(), CliError> {
    let rates = reply.end.map(|(_, usage, timings)| (timings.prompt_rate(&usage), timings.decode_rate(&usage)));
    let (prompt_rate, decode_rate) = rates.unwrap_or_default();
    let finish = reply.end.map_or("interrupted", |(finish, ..)| finish.as_str());
    if !global.json {
        let rate = |rate: Option<f64>| rate.map_or(String::new(), |rate| format!(" ({rate:.1} a second)"));
        if let Some((_, usage, _)) = reply.end {
            let device = about["device"].as_str().unwrap_or_default();
            eprintln!(
                "prompt {} tokens{}, reply {} tokens{}, {finish}, {device}",
                usage.prompt,
                rate(prompt_rate),
                usage.generated,
                rate(decode_rate)
            );
        }
        return Ok(());
    }
    let mut object = json!({"event": "result"});
    if let (Some(object), Some(about)) = (object.as_object_mut(), about.as_object()) {
        object.extend(about.clone());
        object.insert("ids".into(), json!(reply.ids));
        object.insert("text".into(), json!(reply.text));
        object.insert("finish".into(), json!(finish));
        object.insert("prompt_tok_s".into(), json!(prompt_rate));
        object.insert("decode_tok_s".into(), json!(decode_rate));
    }
    Ok(global.output().line(&object.to_string())?)
}
