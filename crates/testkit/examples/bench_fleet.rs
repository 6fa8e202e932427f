//! How fast a managed pair is: Go's on the real Kubernetes API, unless told otherwise; `THANE_PROGRAM` says where ours is.

use anyhow::{Result, bail};
use thane_testkit::fleet::bench::{Scale, measure};
use thane_testkit::fleet::{ApiKind, Mode, Options, Pair, Program};
use thane_testkit::peer::{Absence, PeerHome};

const USAGE: &str = "usage: bench_fleet [--hub go|thane] [--agent go|thane] [--hub-api kubernetes|thane] \
                     [--spoke-api kubernetes|thane] [--quick]";

#[tokio::main]
#[expect(clippy::print_stdout, reason = "a program for people")]
async fn main() -> Result<()> {
    let mut options = Options {
        hub: Program::Go,
        agent: Program::Go,
        hub_api: ApiKind::Kubernetes,
        spoke_api: ApiKind::Kubernetes,
        mode: Mode::Managed,
    };
    let mut scale = Scale::FULL;
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        if name == "--quick" {
            scale = Scale::QUICK;
            continue;
        }
        let value = arguments.next().unwrap_or_default();
        match (name.as_str(), value.as_str()) {
            ("--hub", "go") => options.hub = Program::Go,
            ("--hub", "thane") => options.hub = Program::Thane,
            ("--agent", "go") => options.agent = Program::Go,
            ("--agent", "thane") => options.agent = Program::Thane,
            ("--hub-api", "kubernetes") => options.hub_api = ApiKind::Kubernetes,
            ("--hub-api", "thane") => options.hub_api = ApiKind::Thane,
            ("--spoke-api", "kubernetes") => options.spoke_api = ApiKind::Kubernetes,
            ("--spoke-api", "thane") => options.spoke_api = ApiKind::Thane,
            _ => bail!("{name} {value}: {USAGE}"),
        }
    }
    let home = PeerHome::locate();
    if let Err(Absence::Skip(why) | Absence::Fail(why)) = options.require(&home) {
        bail!(why);
    }
    println!("{options:?} {scale:?}");
    let pair = Pair::start(&home, options).await?;
    match measure(&pair, scale).await {
        Ok(figures) => println!("{:#}", figures.value()),
        Err(error) => return Err(error.context(pair.last_words())),
    }
    pair.stop().await
}
