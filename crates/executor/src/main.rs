//! The program that makes pods and containers and is the first process of each.

mod program;

use std::process::ExitCode;

fn main() -> ExitCode {
    program::run(std::env::args().skip(1))
}
