//! Writes of `/v1/catalog/*`.

use super::call::{Call, Outcome};
use super::view::kind;
use crate::command::Command;
use crate::decode;
use crate::model::Check;

impl Call<'_> {
    pub(super) async fn catalog_register(&self) -> Outcome {
        let mut registration = decode::register(self.body()?)?;
        self.is_here(&registration.node.datacenter)?;
        registration.node.datacenter.clone_from(&self.place().datacenter);
        self.vet().register(&registration).await?;
        registration.checks.iter_mut().for_each(not_run_here);
        self.write(Command::Register(Box::new(registration))).await?;
        self.json(&true)
    }

    pub(super) async fn catalog_deregister(&self) -> Outcome {
        let (what, datacenter) = decode::deregister(self.body()?)?;
        self.is_here(&datacenter)?;
        self.vet().deregister(&what).await?;
        self.write(Command::Deregister(what)).await?;
        self.json(&true)
    }
}

/// No agent runs a check of the catalog: it has no kind of its own, and shows how it is defined instead.
pub(super) fn not_run_here(check: &mut Check) {
    if check.kind == kind(&check.definition) {
        check.kind.clear();
    }
}
