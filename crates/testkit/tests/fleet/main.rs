//! A hub and an agent in step: the same scenarios, seen only through the two Kubernetes APIs, whoever plays the roles.
//!
//! `THANE_SCENARIOS=text` runs those whose name contains the text; `THANE_FLEET_LOG=debug` makes both programs talk more.
#![expect(clippy::print_stderr, reason = "a scenario that failed or was left out must say so")]

mod apart;
mod autonomous;
mod destination;
mod identity;
mod managed;
mod mirrored;
mod offline;
mod operations;
mod shared;
mod suite;

use thane_testkit::fleet::{ApiKind, Mode, Options, Program};

/// One test: who is the hub on which API, who is the agent on which API, and the mode.
macro_rules! pair {
    ($name:ident, $hub:ident on $hub_api:ident, $agent:ident on $spoke_api:ident, $mode:ident $(, #[$more:meta])?) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        $(#[$more])?
        async fn $name() {
            suite::run(Options {
                hub: Program::$hub,
                agent: Program::$agent,
                hub_api: ApiKind::$hub_api,
                spoke_api: ApiKind::$spoke_api,
                mode: Mode::$mode,
            })
            .await;
        }
    };
}

/// The tests of two programs with each other.
macro_rules! roles {
    ($name:ident, $hub:ident, $agent:ident $(, #[$more:meta])?) => {
        mod $name {
            use super::*;

            pair!(managed_on_kubernetes, $hub on Kubernetes, $agent on Kubernetes, Managed $(, #[$more])?);
            pair!(managed_on_thane, $hub on Thane, $agent on Thane, Managed $(, #[$more])?);
            pair!(autonomous_on_kubernetes, $hub on Kubernetes, $agent on Kubernetes, Autonomous $(, #[$more])?);
            pair!(autonomous_on_thane, $hub on Thane, $agent on Thane, Autonomous $(, #[$more])?);
        }
    };
}

roles!(go_hub_go_agent, Go, Go);
roles!(thane_hub_go_agent, Thane, Go);
roles!(go_hub_thane_agent, Go, Thane);
roles!(thane_hub_thane_agent, Thane, Thane);

// A fault of ours that shows only beside the real one would be in what an object carries over from its first API.
pair!(managed_from_thane_to_kubernetes, Go on Thane, Go on Kubernetes, Managed);
pair!(autonomous_from_thane_to_kubernetes, Go on Kubernetes, Go on Thane, Autonomous);
