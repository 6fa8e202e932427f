//! Runs Argo's examples and prints how each ended.
//!
//! `corpus argo [FILE…]`: by the real Argo on a real node, as root; the first table of `tests/corpus` is written from it.
//! `corpus KUBECONFIG NAMESPACE [FILE…]`: by whoever keeps the Workflows there.

use std::net::Ipv4Addr;
use std::time::Duration;

use anyhow::{Result, bail};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use thane_testkit::corpus::argo::{self, Argo};
use thane_testkit::corpus::{self, Limits, Store};
use thane_testkit::peer::{Absence, PeerHome};

const TABLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/corpus/phases.tsv");

#[tokio::main]
#[expect(clippy::print_stdout, reason = "a program for people")]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let home = PeerHome::locate();
    let folder = corpus::folder().map_err(refused)?;
    let mut rows = corpus::read(&std::fs::read_to_string(TABLE)?)?;
    let all = || rows.iter().map(|row| row.name.clone()).collect::<Vec<_>>();
    let chosen = |names: &[String]| if names.is_empty() { all() } else { names.to_vec() };
    let limits = Limits { each: Duration::from_mins(2), at_once: 8 };
    let ended = match arguments.as_slice() {
        [by, names @ ..] if by == "argo" => {
            Argo::require(&home).map_err(refused)?;
            let bed = Argo::start(&home).await?;
            corpus::prepare(bed.client(), argo::NAMESPACE, &folder, bed.store()).await?;
            let ended = corpus::run(bed.client(), argo::NAMESPACE, &folder, &chosen(names), limits).await?;
            for one in &ended {
                if let Some(row) = rows.iter_mut().find(|row| row.name == one.name) {
                    row.argo.clone_from(&one.phase);
                }
            }
            std::fs::write(TABLE, corpus::write(&rows))?;
            ended
        }
        [kubeconfig, namespace, names @ ..] => {
            let read = Kubeconfig::read_from(kubeconfig)?;
            let client = Client::try_from(Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?)?;
            let store = Store::start(&home, Ipv4Addr::LOCALHOST.into()).await?;
            corpus::prepare(&client, namespace, &folder, &store).await?;
            corpus::run(&client, namespace, &folder, &chosen(names), limits).await?
        }
        _ => bail!("usage: corpus argo [FILE…] | corpus KUBECONFIG NAMESPACE [FILE…]"),
    };
    for one in ended {
        println!("{}\t{}\t{}\t{}", one.name, one.phase, one.took.as_secs(), one.message);
    }
    Ok(())
}

fn refused(absence: Absence) -> anyhow::Error {
    match absence {
        Absence::Skip(why) | Absence::Fail(why) => anyhow::anyhow!(why),
    }
}
