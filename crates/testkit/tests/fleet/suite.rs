//! Runs the scenarios of a mode on one pair and says at the end what became of each.

use std::time::Instant;

use anyhow::Result;
use futures::future::BoxFuture;
use thane_testkit::fleet::{Mode, Options, Pair, Program};
use thane_testkit::peer::PeerHome;
use tokio::sync::Mutex;

/// A pair takes both processors of a small machine; two at a time would only wait for each other.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

/// Something that must come true, whoever plays the roles.
pub(crate) struct Scenario {
    pub(crate) name: &'static str,
    pub(crate) run: for<'a> fn(&'a mut Pair) -> BoxFuture<'a, Result<()>>,
    /// What a Go program is known to get wrong.
    pub(crate) fault: Option<Fault>,
}

/// A fault of the Go programs that makes a scenario impossible.
#[derive(Clone, Copy)]
pub(crate) struct Fault {
    /// Who has it.
    pub(crate) of: Role,
    /// What happens.
    pub(crate) what: &'static str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Hub,
    Agent,
    /// It takes both: either alone makes up for the other.
    Both,
}

/// A scenario from a function's name.
macro_rules! scenario {
    ($function:path) => {
        $crate::suite::Scenario { name: stringify!($function), run: |pair| Box::pin($function(pair)), fault: None }
    };
    ($function:path, $role:ident, $what:literal) => {
        $crate::suite::Scenario {
            name: stringify!($function),
            run: |pair| Box::pin($function(pair)),
            fault: Some($crate::suite::Fault { of: $crate::suite::Role::$role, what: $what }),
        }
    };
}
pub(crate) use scenario;

impl Scenario {
    /// Why this cannot work with these programs.
    fn excuse(&self, options: Options) -> Option<&'static str> {
        let fault = self.fault?;
        let (hub, agent) = (options.hub == Program::Go, options.agent == Program::Go);
        let concerned = match fault.of {
            Role::Hub => hub,
            Role::Agent => agent,
            Role::Both => hub && agent,
        };
        concerned.then_some(fault.what)
    }
}

fn scenarios(mode: Mode) -> Vec<Scenario> {
    let mut all = match mode {
        Mode::Managed => crate::managed::scenarios(),
        Mode::Autonomous => crate::autonomous::scenarios(),
    };
    if let Ok(wanted) = std::env::var("THANE_SCENARIOS") {
        all.retain(|scenario| scenario.name.contains(&wanted));
    }
    all
}

/// Runs everything that the mode has; fails at the end if anything failed.
pub(crate) async fn run(options: Options) {
    let home = PeerHome::locate();
    if let Err(absence) = options.require(&home) {
        return absence.tell();
    }
    let _turn = ONE_AT_A_TIME.lock().await;
    let mut pair = Pair::start(&home, options).await.unwrap_or_else(|error| panic!("{error:#}"));
    let mut failed = Vec::new();
    for scenario in scenarios(options.mode) {
        if let Some(excuse) = scenario.excuse(options) {
            eprintln!("SKIPPED for Go: {}: {excuse}", scenario.name);
            continue;
        }
        let started = Instant::now();
        let outcome = (scenario.run)(&mut pair).await;
        let seconds = started.elapsed().as_secs_f32();
        match outcome {
            Ok(()) => eprintln!("ok {seconds:5.1} s {}", scenario.name),
            Err(error) => {
                eprintln!("FAILED {seconds:5.1} s {}: {error:#}\n{}", scenario.name, pair.last_words());
                failed.push(scenario.name);
                pair.restart().await.unwrap_or_else(|error| panic!("{error:#}"));
            }
        }
    }
    pair.stop().await.unwrap_or_else(|error| panic!("{error:#}"));
    assert!(failed.is_empty(), "{options:?}: {failed:?}");
}
