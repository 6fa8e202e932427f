//! Tests of the registry as it runs, on every store.

mod bed;
mod silence;
mod snapshots;
mod stores;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;

use super::*;
use crate::command::{KvVerb, Outcome};
use bed::*;
