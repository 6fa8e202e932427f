//! Live access through our hub and agent, beside Go's and beside the cluster itself, in one run; as root.
//!
//! `THANE_PROGRAM` says where ours is; `--alone` leaves Go's out, `--quick` takes a fifth of everything.
#![expect(clippy::print_stdout, reason = "a program for people")]

mod load;
mod table;

use anyhow::{Result, bail};
use thane_testkit::bench::lift_file_limit;
use thane_testkit::fleet::{LivePair, Program};
use thane_testkit::peer::{Absence, PeerHome, in_own_network};

use load::{Figures, Scale};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let Some(unknown) = arguments.iter().find(|word| !["--alone", "--quick"].contains(&word.as_str())) {
        bail!("{unknown}: usage: bench_live [--alone] [--quick]");
    }
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    // Go's hub takes ports that cannot be moved.
    if !in_own_network(&words) {
        return Ok(());
    }
    lift_file_limit();
    let home = PeerHome::locate();
    if let Err(Absence::Skip(why) | Absence::Fail(why)) = LivePair::require(&home) {
        bail!(why);
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let scale = Scale::of(words.contains(&"--quick"));
    let sides = runtime.block_on(async {
        let ours = measure(&home, Program::Thane, scale).await?;
        let theirs = if words.contains(&"--alone") { None } else { Some(measure(&home, Program::Go, scale).await?.1) };
        anyhow::Ok((ours, theirs))
    })?;
    let ((direct, ours), theirs) = sides;
    println!("{}", table::text(&direct, theirs.as_ref(), &ours));
    println!("{}", table::json(&direct, theirs.as_ref(), &ours));
    Ok(())
}

/// The cluster itself, and the same through a pair of these programs.
async fn measure(home: &PeerHome, program: Program, scale: Scale) -> Result<(Figures, Figures)> {
    println!("{program:?}: a hub, an agent, a cluster");
    let pair = LivePair::start(home, program, program).await?;
    let both = async {
        load::fill(&pair, scale).await?;
        let direct = load::measure(&pair.spoke, scale).await?;
        let through = load::measure(&pair.proxy, scale.through(program)).await?;
        anyhow::Ok((direct, through))
    };
    match both.await {
        Ok(figures) => {
            pair.stop().await?;
            Ok(figures)
        }
        Err(error) => Err(error.context(pair.last_words())),
    }
}
