//! `/v1/snapshot`: everything the registry has, in our own format.

use http::StatusCode;

use super::call::{Call, Outcome};
use super::failure::Failure;
use super::headers::{put_index, put_leader};
use super::options::ReadOptions;
use crate::http::Answer;
use crate::model::Policy;

impl Call<'_> {
    pub(super) async fn snapshot(&self) -> Outcome {
        self.may_acl(Policy::Write)?;
        self.datacenter()?;
        if self.request.method == http::Method::PUT {
            return self.snapshot_restore().await;
        }
        ReadOptions::parse(self.request)?;
        let saved = self.backend().save(&self.caller).await?;
        let mut answer = Answer::typed(StatusCode::OK, "application/octet-stream", saved);
        put_leader(&mut answer.headers, true);
        Ok(answer)
    }

    async fn snapshot_restore(&self) -> Outcome {
        let too_large = |_| Failure::too_large("the snapshot is larger than may be");
        let saved = self.request.body.clone().map_err(too_large)?;
        let index = self.backend().restore(&self.caller, saved).await?;
        let mut answer = Answer::typed(StatusCode::OK, "application/octet-stream", "");
        put_index(&mut answer.headers, index);
        Ok(answer)
    }
}
