//! A hub and an agent in step: the same scenarios, seen only through the two Kubernetes APIs, whoever plays the roles.
//!
//! `THANE_SCENARIOS=text` runs those whose name contains the text; `THANE_FLEET_LOG=debug` makes both programs talk more.
#![expect(clippy::print_stderr, reason = "a scenario that failed or was left out must say so")]

mod autonomous;
mod managed;
mod mirrored;
mod offline;
mod operations;
mod shared;
mod suite;

use thane_testkit::fleet::{ApiKind, Mode, Options, Program};

/// The tests of two programs with each other.
macro_rules! roles {
    ($name:ident, $hub:ident, $agent:ident $(, #[$more:meta])?) => {
        mod $name {
            use super::*;

            roles!(@test managed_on_kubernetes, $hub, $agent, Managed, Kubernetes $(, #[$more])?);
            roles!(@test managed_on_thane, $hub, $agent, Managed, Thane $(, #[$more])?);
            roles!(@test autonomous_on_kubernetes, $hub, $agent, Autonomous, Kubernetes $(, #[$more])?);
            roles!(@test autonomous_on_thane, $hub, $agent, Autonomous, Thane $(, #[$more])?);
        }
    };
    (@test $name:ident, $hub:ident, $agent:ident, $mode:ident, $api:ident $(, #[$more:meta])?) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        $(#[$more])?
        async fn $name() {
            suite::run(Options {
                hub: Program::$hub,
                agent: Program::$agent,
                hub_api: ApiKind::$api,
                spoke_api: ApiKind::$api,
                mode: Mode::$mode,
            })
            .await;
        }
    };
}

roles!(go_hub_go_agent, Go, Go);
roles!(thane_hub_go_agent, Thane, Go, #[ignore = "thane has no hub yet"]);
roles!(go_hub_thane_agent, Go, Thane, #[ignore = "thane has no agent yet"]);
roles!(thane_hub_thane_agent, Thane, Thane, #[ignore = "thane has neither yet"]);
