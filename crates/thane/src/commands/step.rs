//! `thane step`.

use clap::Subcommand;
use serde_json::Value;
use thane_api::code;
use thane_workload::selector::Conditions;
use thane_workload::steps::inside::resource::Verdict;
use thane_workload::steps::inside::{Failure as StepFailure, Layout, Told, init, resource, wait};

use crate::failure::Failure;
use crate::output::tell;

/// What Argo's executor ends with when it fails.
const FAILED: u8 = 64;

/// What runs in the pod of a workflow's step, beside its program
#[derive(Debug, Subcommand)]
pub(crate) enum Step {
    /// Bring the wrapper, the script and the input artifacts
    Init,
    /// Wait for the program, keep its artifacts, record its outputs
    Wait,
    /// Do what a resource template asks for
    Resource,
}

impl Step {
    /// Reads no configuration: all it needs is told by its pod, and every millisecond counts for every step.
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Failure::new(code::BUG, format!("start the runtime: {error}")))?;
        let (told, layout) = (Told::read(|name| std::env::var(name).ok()), Layout::default());
        let done: Result<(), StepFailure> = runtime.block_on(async {
            match self {
                Self::Init => init::init(&told, &layout, thane_node::write_executor).await,
                Self::Wait => wait::wait(&told, &layout).await,
                Self::Resource => resource::resource(&told, &layout, judge).await,
            }
        });
        runtime.shutdown_background();
        done.map_err(|failure| {
            failure.leave();
            tell(&failure.0);
            Failure::ended(FAILED)
        })
    }
}

/// What a resource template's conditions say about an object.
fn judge(wanted: &Value, object: &Value) -> Result<Verdict, String> {
    let conditions = |name: &str| {
        let text = wanted[name].as_str().unwrap_or_default();
        Conditions::parse(text).map_err(|error| format!("{name} '{text}' failed to parse: {error}"))
    };
    if let Some(failed) = conditions("failureCondition")?.any(object) {
        return Ok(Verdict::Failed(format!("failure condition '{failed}' evaluated true")));
    }
    let is_met = conditions("successCondition")?.all(object);
    Ok(if is_met { Verdict::Met } else { Verdict::Open })
}
