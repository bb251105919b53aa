//! `varve info --dispatch`: each operation's table for a device, the row that runs, and why each other one does not.

use serde::Serialize;

use super::{CliError, Global};
use crate::backend::{known_card, known_cards};
use crate::ops::DeltaSizes;
use crate::ops::card::Card;
use crate::ops::delta_commit::DELTA_COMMIT;
use crate::ops::delta_out_norm::{DELTA_OUT_NORM, OutNormSizes, OutputGate};
use crate::ops::delta_rec::DELTA_REC;
use crate::ops::dispatch::{Dispatch, Table, Target};

/// Sizes and device that `--dispatch` explains.
#[derive(Debug, clap::Args)]
pub struct Explain {
    /// Explain which variant of each operation runs, and why each other one does not
    #[arg(long)]
    pub dispatch: bool,
    /// Tokens of the call to explain; without it a prompt and a decode window are shown
    #[arg(long, requires = "dispatch")]
    tokens: Option<usize>,
    /// Key heads of the call to explain
    #[arg(long, requires = "dispatch", default_value_t = 16)]
    key_heads: usize,
    /// Value heads of the call to explain, a multiple of the key heads
    #[arg(long, requires = "dispatch", default_value_t = 48)]
    value_heads: usize,
    /// Explain for a known card instead of a device, for example "RTX 4090"
    #[arg(long, requires = "dispatch")]
    card: Option<String>,
}

/// One variant of one operation.
#[derive(Serialize)]
struct Row<'a> {
    op: &'a str,
    variant: &'a str,
    tokens: usize,
    chosen: bool,
    exactness: &'a str,
    kernel: Option<&'a str>,
    reason: Option<String>,
}

/// Runs the command.
pub fn run(global: &Global, args: &Explain) -> Result<(), CliError> {
    let dispatch = Dispatch::new(global.switches()?);
    if args.key_heads == 0 || args.value_heads == 0 || !args.value_heads.is_multiple_of(args.key_heads) {
        let heads = format!("{} key heads, {} value heads", args.key_heads, args.value_heads);
        return Err(CliError::Usage(format!("{heads}: value heads must be a multiple of the key heads, both above 0")));
    }
    match &args.card {
        Some(name) => {
            let card = known_card(name).ok_or_else(|| {
                let known: Vec<_> = known_cards().into_iter().map(|card| card.name).collect();
                CliError::Usage(format!("unknown card `{name}`; known: {}", known.join(", ")))
            })?;
            explain_all(global, args, &dispatch, &Card(card))
        }
        None => explain_all(global, args, &dispatch, &global.open()?),
    }
}

fn explain_all(global: &Global, args: &Explain, dispatch: &Dispatch, target: &impl Target) -> Result<(), CliError> {
    let counts = args.tokens.map_or_else(|| vec![2048, 1], |tokens| vec![tokens]);
    for &tokens in &counts {
        let sizes = DeltaSizes { key_heads: args.key_heads, value_heads: args.value_heads, tokens };
        explain(global, &DELTA_REC, dispatch, target, &sizes, tokens)?;
        explain(global, &DELTA_COMMIT, dispatch, target, &sizes, tokens)?;
        let norm = OutNormSizes { tokens, value_heads: args.value_heads, gate: OutputGate::Sigmoid };
        explain(global, &DELTA_OUT_NORM, dispatch, target, &norm, tokens)?;
    }
    Ok(())
}

fn explain<A, P: Copy>(
    global: &Global,
    table: &Table<A, P>,
    dispatch: &Dispatch,
    target: &impl Target,
    ask: &A,
    tokens: usize,
) -> Result<(), CliError> {
    let out = global.output();
    if !out.is_json() {
        out.line(&format!("{} on {}, {tokens} tokens:", table.op, target.caps().name))?;
    }
    for row in table.explain(dispatch, target, ask) {
        let reason = row.reason.map(|reason| reason.to_string());
        let text = || {
            let state = match (&reason, row.chosen) {
                (_, true) => "runs".to_owned(),
                (Some(reason), _) => format!("no: {reason}"),
                (None, _) => "would run; the one above is preferred".to_owned(),
            };
            format!("  {:8} {:8} {state}", row.variant, row.exactness.word())
        };
        let object = Row {
            op: table.op,
            variant: row.variant,
            tokens,
            chosen: row.chosen,
            exactness: row.exactness.word(),
            kernel: row.kernel,
            reason: reason.clone(),
        };
        out.row(&object, text)?;
    }
    Ok(())
}
