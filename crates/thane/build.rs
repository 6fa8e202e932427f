//! How the program is linked.

use std::env;
use std::process::Command;

/// Symbols that `std::process::Command` uses if they are there. In a static program it does not find them by itself, and then
/// copies the whole process to start another: milliseconds, in which no thread gets memory.
const WANTED: [&str; 2] = ["gnu_get_libc_version", "posix_spawn_file_actions_addchdir_np"];
/// The first C library whose static programs unpack their relocations themselves.
const UNPACKS: (u32, u32) = (2, 36);

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if var("CARGO_CFG_TARGET_OS") != "linux" || var("CARGO_CFG_TARGET_ENV") != "gnu" {
        return;
    }
    for symbol in WANTED {
        println!("cargo::rustc-link-arg-bins=-Wl,--undefined={symbol}");
    }
    // What has to be relocated takes three megabytes of a static program, and each of its processes reads all of it at its
    // start; packed it is a few pages.
    if is_static() && libc().is_some_and(|version| version >= UNPACKS) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

fn var(name: &str) -> String {
    env::var(name).unwrap_or_default()
}

/// Whether this is a static program for the machine it is built on.
fn is_static() -> bool {
    let features = var("CARGO_CFG_TARGET_FEATURE");
    features.split(',').any(|feature| feature == "crt-static") && var("TARGET") == var("HOST")
}

/// The version of the C library here.
fn libc() -> Option<(u32, u32)> {
    let told = Command::new("getconf").arg("GNU_LIBC_VERSION").output().ok()?;
    let text = String::from_utf8(told.stdout).ok()?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}
