//! Tests that run themselves again in another process.

use std::env;
use std::process::{Command, Output};

/// Set in the child.
const CHILD: &str = "VARVE_TEST_CHILD";

/// True in the process that [`run`] started.
pub fn is_child() -> bool {
    env::var_os(CHILD).is_some()
}

/// Runs the test `name` (its full path) of this binary in a process of its own, with these variables besides the own ones.
pub fn run(name: &str, variables: &[(&str, &str)]) -> Output {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture", "--test-threads=1"]).env(CHILD, "1");
    command.envs(variables.iter().copied()).output().unwrap()
}

/// Checks that the child ran exactly one test and that it passed; returns all it printed.
pub fn passed(output: &Output) -> String {
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && text.contains("1 passed"), "the child failed:\n{text}");
    text
}
