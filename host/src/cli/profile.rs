//! The table of `varve generate --profile`: what each kernel cost, in prompts and in decode.

use std::collections::BTreeMap;

use serde_json::json;
use varve_gpu::catalog;

use super::{CliError, Global};
use crate::model::{PassCosts, Profiled};

/// Prints both tables: on stderr, or as one object a kernel on stdout.
pub fn report(global: &Global, profiled: &Profiled) -> Result<(), CliError> {
    let names: BTreeMap<&str, &str> =
        catalog::entries().into_iter().map(|entry| (entry.kernel.symbol, entry.name)).collect();
    for (phase, costs) in [("prompt", profiled.prompt()), ("decode", profiled.decode())] {
        if costs.tokens > 0 {
            table(global, phase, &costs, &names)?;
        }
    }
    Ok(())
}

fn table(global: &Global, phase: &str, costs: &PassCosts, names: &BTreeMap<&str, &str>) -> Result<(), CliError> {
    let (tokens, total) = (costs.tokens as f64, costs.kernels.values().map(|cost| cost.us).sum::<f64>());
    let mut rows: Vec<_> = costs.kernels.iter().collect();
    rows.sort_by(|a, b| b.1.us.total_cmp(&a.1.us));
    if !global.json {
        eprintln!("{phase}: {} tokens, {:.2} us a token in kernels", costs.tokens, total / tokens);
        eprintln!("{:>10}  {:>6}  {:>9}  kernel", "us/token", "share", "launches");
    }
    for (symbol, cost) in rows {
        let name = names.get(symbol).copied().unwrap_or(symbol);
        let (us, launches) = (cost.us / tokens, cost.launches as f64 / tokens);
        if global.json {
            let row = json!({"event": "profile", "phase": phase, "kernel": symbol, "variant": name, "tokens": costs.tokens,
                "us_per_token": us, "launches_per_token": launches, "share": cost.us / total});
            global.output().line(&row.to_string())?;
        } else {
            eprintln!("{us:>10.2}  {:>5.1}%  {launches:>9.2}  {name} ({symbol})", 100.0 * cost.us / total);
        }
    }
    Ok(())
}
