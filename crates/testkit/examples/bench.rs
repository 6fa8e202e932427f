//! `bench PROGRAM [--quick] [--alone]`: kube-apiserver with etcd and `thane`, one after the other, under the same load;
//! `--alone` leaves the former out, for a look at what a change did.

use std::path::Path;

use anyhow::{Context, Result, bail};
use thane_testkit::bench::{Figures, Scale, lift_file_limit, measure, table};
use thane_testkit::peer::{Absence, KubeApiServer, PeerHome, Thane};

#[tokio::main]
#[expect(clippy::print_stdout, reason = "a program for people")]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let program = arguments.next().context("usage: bench PROGRAM [--quick] [--alone]")?;
    let flags: Vec<String> = arguments.collect();
    let has = |name: &str| flags.iter().any(|flag| flag == name);
    let scale = if has("--quick") { Scale::QUICK } else { Scale::FULL };
    lift_file_limit();
    println!("{scale:?}");
    if has("--alone") {
        println!("thane: {:#?}", thane(&program, scale).await?);
        return Ok(());
    }
    let home = PeerHome::locate();
    if let Err(Absence::Skip(why) | Absence::Fail(why)) = home.require(KubeApiServer::programs()) {
        bail!(why);
    }
    // One side at a time, so that neither takes the other's processors.
    let reference = {
        let server = KubeApiServer::start(&home, false).await?;
        measure(server.endpoint(), &server.processes(), server.ready_after(), scale).await?
    };
    println!("kubernetes: {reference:?}");
    let ours = thane(&program, scale).await?;
    let (text, values) = table(&reference, &ours);
    println!("{text}\n{values}");
    Ok(())
}

async fn thane(program: &str, scale: Scale) -> Result<Figures> {
    let server = Thane::start(Path::new(program), &["--clusters", "0"]).await?;
    measure(server.endpoint(), &server.processes(), server.ready_after(), scale).await
}
