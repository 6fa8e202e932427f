//! How fast a managed pair is: Go's and ours on the real Kubernetes API, and ours on our own, one after the other, beside
//! each other as ratios; or one pair that is named. `THANE_PROGRAM` says where ours is.

mod table;

use anyhow::{Result, bail};
use thane_testkit::fleet::bench::{Figures, Scale, measure};
use thane_testkit::fleet::{ApiKind, Mode, Options, Pair, Program};
use thane_testkit::peer::{Absence, PeerHome};

const USAGE: &str = "usage: bench_fleet [--hub go|thane] [--agent go|thane] [--hub-api kubernetes|thane] \
                     [--spoke-api kubernetes|thane] [--quick]";

/// The same program on both sides, on APIs of one kind.
const fn alike(program: Program, api: ApiKind) -> Options {
    Options { hub: program, agent: program, hub_api: api, spoke_api: api, mode: Mode::Managed }
}

/// Go's pair, and the pairs that are held beside it.
const REFERENCE: Options = alike(Program::Go, ApiKind::Kubernetes);
const OURS: [Options; 2] = [alike(Program::Thane, ApiKind::Kubernetes), alike(Program::Thane, ApiKind::Thane)];

#[tokio::main]
#[expect(clippy::print_stdout, reason = "a program for people")]
async fn main() -> Result<()> {
    let (named, scale) = arguments()?;
    if let Some(options) = named {
        println!("{:#}", figures(options, scale).await?.value());
        return Ok(());
    }
    for options in [REFERENCE, OURS[0], OURS[1]] {
        require(options)?;
    }
    let reference = figures(REFERENCE, scale).await?;
    let ours = [figures(OURS[0], scale).await?, figures(OURS[1], scale).await?];
    println!("{}", table::beside(&reference, &ours));
    let [kubernetes, thane] = ours.map(|side| side.value());
    println!("{}", serde_json::json!({"go": reference.value(), "thane": kubernetes, "thane on thane": thane}));
    Ok(())
}

/// The pair that is named, if any is, and how much of everything.
fn arguments() -> Result<(Option<Options>, Scale)> {
    let mut options = None;
    let mut scale = Scale::FULL;
    let mut arguments = std::env::args().skip(1);
    while let Some(name) = arguments.next() {
        if name == "--quick" {
            scale = Scale::QUICK;
            continue;
        }
        let value = arguments.next().unwrap_or_default();
        let options = options.get_or_insert(REFERENCE);
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
    Ok((options, scale))
}

fn require(options: Options) -> Result<()> {
    if let Err(Absence::Skip(why) | Absence::Fail(why)) = options.require(&PeerHome::locate()) {
        bail!(why);
    }
    Ok(())
}

#[expect(clippy::print_stderr, reason = "what goes on, for people who wait")]
async fn figures(options: Options, scale: Scale) -> Result<Figures> {
    require(options)?;
    eprintln!("{options:?} {scale:?}");
    let pair = Pair::start(&PeerHome::locate(), options).await?;
    let figures = match measure(&pair, scale).await {
        Ok(figures) => figures,
        Err(error) => return Err(error.context(pair.last_words())),
    };
    pair.stop().await?;
    Ok(figures)
}
