//! The program as its users meet it: the real binary, its output, its exit codes.
#![allow(missing_docs, clippy::unwrap_used)]

mod bench;
mod dispatch;
mod generate;
mod info;
mod inspect;
mod parity;
mod ptx;
mod quantize;
mod serve;
mod usage;

use std::path::Path;
use std::process::Command;

use serde_json::Value;

/// What one run of the program did.
struct Ran {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

/// Runs the program without any of its environment variables, or cargo's that name the target folder.
fn varve(args: &[&str]) -> Ran {
    varve_with(args, &[])
}

fn varve_with(args: &[&str], variables: &[(&str, &str)]) -> Ran {
    run(env!("CARGO_BIN_EXE_varve").as_ref(), args, variables)
}

fn run(program: &Path, args: &[&str], variables: &[(&str, &str)]) -> Ran {
    let mut command = Command::new(program);
    for name in ["OUT_DIR", "VARVE_DEVICE", "VARVE_EMU_SEED", "VARVE_PTXAS", "VARVE_VARIANTS"] {
        command.env_remove(name);
    }
    let output = command.args(args).envs(variables.iter().copied()).output().unwrap();
    Ran {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

impl Ran {
    /// The rows of `--json`: one object a line, and nothing else.
    fn rows(&self) -> Vec<Value> {
        let rows: Vec<Value> = self.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert!(rows.iter().all(Value::is_object), "{}", self.stdout);
        rows
    }

    /// The run was refused as not understood, and the message holds these words.
    fn refused_naming(&self, words: &[&str]) {
        assert_eq!((self.code, self.stdout.as_str()), (Some(2), ""), "{}", self.stderr);
        for word in words {
            assert!(self.stderr.contains(word), "`{word}` is missing from: {}", self.stderr);
        }
    }
}
