//! An autonomous agent: its own objects are the truth, the hub gets to see them.

use thane_api::event::Type;

use super::Agent;
use crate::link::Core;
use crate::mapping::{self, Mode};
use crate::object::{self, Key, Kind};
use crate::store::Change;
use crate::time::Now;

impl Agent {
    pub(super) fn source_changed(&mut self, core: &mut Core, now: Now, key: &Key, change: &Change) {
        if key.kind == Kind::Repository || key.namespace != self.side.namespace {
            return;
        }
        match (&change.old, &change.new) {
            (_, Some(new)) if object::is_ignored(new) => {}
            (None, Some(new)) => Self::send_source(core, now, key, new, Type::Create),
            (Some(old), Some(new)) if object::uid(old) != object::uid(new) => {
                Self::send_source(core, now, key, new, Type::Create);
            }
            (Some(old), Some(new)) if mapping::is_news_for_hub(key.kind, Mode::Autonomous, old, new) => {
                Self::send_source(core, now, key, new, Type::SpecUpdate);
            }
            (Some(old), None) => self.send_gone(core, now, key, old),
            (_, Some(_)) | (None, None) => {}
        }
    }
}
