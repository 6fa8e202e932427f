//! Makes the linker keep what the standard library looks for when it starts a process. In a static program it does not find
//! these by itself, and then copies the whole process to start another: milliseconds, in which no thread gets memory.

/// Symbols that `std::process::Command` uses if they are there.
const WANTED: [&str; 2] = ["gnu_get_libc_version", "posix_spawn_file_actions_addchdir_np"];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| std::env::var(name).is_ok_and(|found| found == value);
    if is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu") {
        for symbol in WANTED {
            println!("cargo::rustc-link-arg-bins=-Wl,--undefined={symbol}");
        }
    }
}
