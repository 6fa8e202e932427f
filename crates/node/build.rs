//! Builds the executor as a small static program and leaves it where it is embedded from.

use std::env;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

/// Settings of the build around us that are not for the program: it is built the same way everywhere.
const NOT_PASSED_ON: [&str; 6] = [
    "CARGO_ENCODED_RUSTFLAGS",
    "RUSTFLAGS",
    "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
    "CLIPPY_ARGS",
    "CARGO_TARGET_DIR",
];

fn main() -> ExitCode {
    for path in ["../executor/src", "../executor/Cargo.toml", "../../Cargo.lock", "build.rs"] {
        println!("cargo::rerun-if-changed={path}");
    }
    let (Some(out), Some(cargo)) = (env::var_os("OUT_DIR").map(PathBuf::from), env::var_os("CARGO")) else {
        println!("cargo::error=cargo says neither where to build nor with what");
        return ExitCode::FAILURE;
    };
    let target = out.join("target");
    let mut build = Command::new(cargo);
    build
        .args(["rustc", "--quiet", "--locked", "--release", "--package", "thane-executor", "--bin", "thane-executor"])
        .arg("--target-dir")
        .arg(&target)
        .args(["--", "-C", "target-feature=+crt-static"]);
    for name in NOT_PASSED_ON {
        build.env_remove(name);
    }
    match build.status() {
        Ok(status) if status.success() => {}
        Ok(status) => {
            println!("cargo::error=the executor was not built: {status}");
            return ExitCode::FAILURE;
        }
        Err(error) => {
            println!("cargo::error=cargo cannot be run: {error}");
            return ExitCode::FAILURE;
        }
    }
    let program = target.join("release/thane-executor");
    println!("cargo::rustc-env=THANE_EXECUTOR={}", program.display());
    ExitCode::SUCCESS
}
