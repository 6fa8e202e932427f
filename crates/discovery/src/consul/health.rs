//! `/v1/health/*`: checks, and instances with their checks.

use http::StatusCode;

use super::call::{Call, Outcome};
use super::failure::Failure;
use super::filtered::Wanted;
use super::headers::Detail;
use super::hot::{instances, shared};
use super::options::{ReadOptions, boolean};
use super::view::{CheckView, HealthView};
use crate::backend::Reading;
use crate::filter::Subject;
use crate::http::Answer;
use crate::model::{Check, Indexed, Status};
use crate::topic::{Instance, Memo, Row, Topic, TopicData};

impl Call<'_> {
    pub(super) async fn health_service(&self) -> Outcome {
        let options = ReadOptions::parse(self.request)?;
        let name = self.named("Missing service name")?;
        let passing = match self.query().has("passing").then(|| self.query().get("passing")) {
            None => false,
            Some("") => true,
            Some(text) => boolean(text).ok_or_else(|| Failure::bad("Invalid value for ?passing"))?,
        };
        let reading = self.topic(&Topic::Service(name.to_lowercase()), &options).await?;
        let wanted = Wanted::parse(self, Subject::Health)?;
        if self.is_plain() && wanted.is_everything() {
            let memo = if passing { Memo::Passing } else { Memo::Health };
            return Ok(shared(memo, &reading, &options, Detail::Consistency));
        }
        let (seen, hidden) = self.seen(&reading.data, &wanted);
        let views = seen.into_iter().filter(|it| !passing || is_passing(it)).map(HealthView::new).collect();
        let mut answer = self.read_json(&wanted.filtered(views)?, &reading, &options, Detail::Consistency)?;
        self.tell_hidden(&mut answer, hidden);
        Ok(answer)
    }

    /// Instances asked for that the token may see, and whether there are some that it may not.
    pub(super) fn seen<'d>(&self, data: &'d TopicData, wanted: &Wanted<'_>) -> (Vec<&'d Instance>, bool) {
        let (mut seen, hidden): (Vec<_>, Vec<_>) =
            instances(data).filter(|it| wanted.has(it)).partition(|it| self.sees(it));
        wanted.nearest_first(&mut seen, |it| &it.node.value);
        (seen, !hidden.is_empty())
    }

    pub(super) async fn health_checks(&self) -> Outcome {
        let options = ReadOptions::parse(self.request)?;
        let name = self.named("Missing service name")?;
        let reading = self.topic(&Topic::Service(name.to_lowercase()), &options).await?;
        let wanted = Wanted::parse(self, Subject::Checks)?;
        let mut checks = Vec::new();
        for instance in instances(&reading.data).filter(|it| wanted.has(it)) {
            let node = instance.node.value.name.as_str();
            checks
                .extend(instance.checks.iter().filter(|check| !check.value.service_id.is_empty()).map(|it| (node, it)));
        }
        self.checks(checks, &wanted, &reading, &options)
    }

    pub(super) async fn health_node(&self) -> Outcome {
        let options = ReadOptions::parse(self.request)?;
        let name = self.named("Missing node name")?;
        let reading = self.topic(&Topic::Node(name.to_lowercase()), &options).await?;
        let mut checks = Vec::new();
        for row in &reading.data.rows {
            match row {
                Row::Check(node, check) => checks.push((node.as_str(), check)),
                Row::Instance(it) => {
                    let own = it.checks.iter().filter(|check| check.value.service_id == it.service.value.id);
                    checks.extend(own.map(|check| (it.node.value.name.as_str(), check)));
                }
                _ => {}
            }
        }
        checks.sort_by(|a, b| a.1.value.id.cmp(&b.1.value.id));
        self.checks(checks, &Wanted::parse(self, Subject::Checks)?, &reading, &options)
    }

    pub(super) async fn health_state(&self) -> Outcome {
        let options = ReadOptions::parse(self.request)?;
        let state = self.named("Missing check state")?;
        let reading = self.topic(&Topic::Checks, &options).await?;
        let wanted = Wanted::parse(self, Subject::Checks)?;
        let nodes = if wanted.asks_nodes() { Some(self.nodes_wanted(&wanted).await?) } else { None };
        let fits = |node: &str, check: &Check| {
            (state == "any" || check.status.as_str() == state)
                && nodes.as_ref().is_none_or(|names| names.iter().any(|name| name == node))
        };
        let checks = reading.data.rows.iter().filter_map(|row| match row {
            Row::Check(node, check) if fits(node, &check.value) => Some((node.as_str(), check)),
            _ => None,
        });
        self.checks(checks.collect(), &wanted, &reading, &options)
    }

    async fn nodes_wanted(&self, wanted: &Wanted<'_>) -> Result<Vec<String>, Failure> {
        let nodes = self.topic(&Topic::Nodes, &ReadOptions::default()).await?;
        let names = nodes.data.rows.iter().filter_map(|row| match row {
            Row::Node(node) if wanted.has_node(&node.value) => Some(node.value.name.clone()),
            _ => None,
        });
        Ok(names.collect())
    }

    fn checks(
        &self,
        checks: Vec<(&str, &Indexed<Check>)>,
        wanted: &Wanted<'_>,
        reading: &Reading,
        options: &ReadOptions,
    ) -> Outcome {
        let (seen, hidden): (Vec<_>, Vec<_>) =
            checks.into_iter().partition(|(node, check)| self.sees_check(node, &check.value.service_name));
        let views = seen.into_iter().map(|(node, check)| CheckView::new(node, check)).collect();
        let mut answer = self.read_json(&wanted.filtered(views)?, reading, options, Detail::Consistency)?;
        self.tell_hidden(&mut answer, !hidden.is_empty());
        Ok(answer)
    }

    /// Instances that speak the mesh's protocol: there are none.
    pub(super) async fn connect(&self) -> Outcome {
        let options = ReadOptions::parse(self.request)?;
        self.named("Missing service name")?;
        let reading = self.topic(&Topic::Services, &options).await?;
        self.read_json::<[(); 0]>(&[], &reading, &options, Detail::Consistency)
    }

    /// Nobody measures distances.
    pub(super) async fn coordinate_nodes(&self) -> Outcome {
        let options = ReadOptions::parse(self.request)?;
        let reading = self.topic(&Topic::Nodes, &options).await?;
        self.read_json::<[(); 0]>(&[], &reading, &options, Detail::Plain)
    }
}

/// Whether all checks of an instance and of its node are well.
pub(super) fn is_passing(instance: &Instance) -> bool {
    instance.checks.iter().all(|check| check.value.status == Status::Passing)
}

/// An answer without a body that still says at which index.
pub(super) fn absent(reading: &Reading, options: &ReadOptions) -> Answer {
    let mut answer = Answer::empty(StatusCode::NOT_FOUND);
    super::headers::put_reading(&mut answer.headers, reading, options, Detail::Plain);
    answer
}
