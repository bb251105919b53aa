//! The "linker" of device builds: copies the one bitcode file that rustc made to where rustc wants its output.
//!
//! `cuda_builder` compiles this file by itself with plain rustc at the first device build (a build script cannot run a
//! program of the package it depends on), so it may use nothing but std.
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match copy(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("copy_linker: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Objects are the `.o` arguments (bitcode, for this target), the output follows `-o`. Fat LTO leaves one object.
fn copy(arguments: &[String]) -> Result<(), String> {
    let output = arguments.iter().skip_while(|a| *a != "-o").nth(1).ok_or("no -o among the arguments")?;
    let objects: Vec<&String> = arguments.iter().filter(|a| a.ends_with(".o")).collect();
    let [object] = objects[..] else {
        return Err(format!("expected one object after fat LTO, got {}: {objects:?}", objects.len()));
    };
    std::fs::copy(object, output).map_err(|e| format!("cannot copy {object} to {output}: {e}"))?;
    Ok(())
}
