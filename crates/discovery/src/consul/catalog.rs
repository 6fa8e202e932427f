//! Reads of `/v1/catalog/*`.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::call::{Call, Outcome};
use super::filtered::Wanted;
use super::headers::Detail;
use super::hot::shared;
use super::options::ReadOptions;
use super::view::{CatalogView, NodeView, ServiceView};
use crate::backend::Reading;
use crate::filter::Subject;
use crate::model::{Indexed, Node, Policy, Resource};
use crate::topic::{Memo, Row, Topic, TopicData};

/// A node and what runs on it, by id or in a list.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct OnNode<'a, T> {
    node: Option<NodeView<'a>>,
    services: Option<T>,
}

impl Call<'_> {
    pub(super) async fn catalog_nodes(&self) -> Outcome {
        let options = ReadOptions::parse(self.request)?;
        let reading = self.topic(&Topic::Nodes, &options).await?;
        let wanted = Wanted::parse(self, Subject::Nodes)?;
        let (mut seen, hidden): (Vec<_>, Vec<_>) = nodes(&reading.data)
            .filter(|node| wanted.has_node(&node.value))
            .partition(|node| self.access.allows(Resource::Node, &node.value.name, Policy::Read));
        wanted.nearest_first(&mut seen, |node| &node.value);
        let views = seen.into_iter().map(NodeView::new).collect();
        let mut answer = self.read_json(&wanted.filtered(views)?, &reading, &options, Detail::Consistency)?;
        self.tell_hidden(&mut answer, !hidden.is_empty());
        Ok(answer)
    }

    pub(super) async fn catalog_services(&self) -> Outcome {
        let options = ReadOptions::parse(self.request)?;
        let wanted = Wanted::parse(self, Subject::CatalogService)?;
        if wanted.asks_nodes() || wanted.asks_filter() {
            return self.some_services(&wanted, &options).await;
        }
        let reading = self.topic(&Topic::Services, &options).await?;
        let mut hidden = false;
        let mut names: BTreeMap<&str, &[String]> = BTreeMap::new();
        for row in &reading.data.rows {
            let Row::Name { name, tags, .. } = row else { continue };
            if self.access.allows(Resource::Service, name, Policy::Read) {
                names.insert(name, tags);
            } else {
                hidden = true;
            }
        }
        let mut answer = self.read_json(&names, &reading, &options, Detail::Consistency)?;
        self.tell_hidden(&mut answer, hidden);
        Ok(answer)
    }

    /// Names of those services that have instances asked for.
    async fn some_services(&self, wanted: &Wanted<'_>, options: &ReadOptions) -> Outcome {
        let reading = self.topic(&Topic::Instances, options).await?;
        let (seen, hidden) = self.seen(&reading.data, wanted);
        let mut names: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for instance in seen {
            if wanted.filtered(vec![CatalogView::new(instance)])?.is_empty() {
                continue;
            }
            let service = &instance.service.value;
            names.entry(&service.name).or_default().extend(service.tags.iter().map(String::as_str));
        }
        let mut answer = self.read_json(&names, &reading, options, Detail::Consistency)?;
        self.tell_hidden(&mut answer, hidden);
        Ok(answer)
    }

    pub(super) async fn catalog_service(&self) -> Outcome {
        let options = ReadOptions::parse(self.request)?;
        let name = self.named("Missing service name")?;
        let reading = self.topic(&Topic::Service(name.to_lowercase()), &options).await?;
        let wanted = Wanted::parse(self, Subject::CatalogService)?;
        if self.is_plain() && wanted.is_everything() {
            return Ok(shared(Memo::Catalog, &reading, &options, Detail::Consistency));
        }
        let (seen, hidden) = self.seen(&reading.data, &wanted);
        let views = seen.into_iter().map(CatalogView::new).collect();
        let mut answer = self.read_json(&wanted.filtered(views)?, &reading, &options, Detail::Consistency)?;
        self.tell_hidden(&mut answer, hidden);
        Ok(answer)
    }

    pub(super) async fn catalog_node(&self) -> Outcome {
        let (options, reading, wanted) = self.one_node().await?;
        let Some(node) = self.visible_node(&reading.data) else {
            return self.read_json(&(), &reading, &options, Detail::Consistency);
        };
        let (seen, hidden) = self.seen(&reading.data, &wanted);
        let views = seen.into_iter().map(|it| Keyed { id: &it.service.value.id, view: ServiceView::new(&it.service) });
        let views = wanted.filtered(views.collect())?;
        let services: BTreeMap<&str, ServiceView<'_>> = views.into_iter().map(|keyed| (keyed.id, keyed.view)).collect();
        let found = OnNode { node: Some(NodeView::new(node)), services: Some(services) };
        let mut answer = self.read_json(&found, &reading, &options, Detail::Consistency)?;
        self.tell_hidden(&mut answer, hidden);
        Ok(answer)
    }

    pub(super) async fn catalog_node_services(&self) -> Outcome {
        let (options, reading, wanted) = self.one_node().await?;
        let Some(node) = self.visible_node(&reading.data) else {
            let nothing = OnNode::<()> { node: None, services: None };
            return self.read_json(&nothing, &reading, &options, Detail::Consistency);
        };
        let (seen, hidden) = self.seen(&reading.data, &wanted);
        let services = wanted.filtered(seen.into_iter().map(|it| ServiceView::new(&it.service)).collect())?;
        let found = OnNode { node: Some(NodeView::new(node)), services: Some(services) };
        let mut answer = self.read_json(&found, &reading, &options, Detail::Consistency)?;
        self.tell_hidden(&mut answer, hidden);
        Ok(answer)
    }

    async fn one_node(&self) -> Result<(ReadOptions, Reading, Wanted<'_>), super::Failure> {
        let options = ReadOptions::parse(self.request)?;
        let name = self.named("Missing node name")?;
        let reading = self.topic(&Topic::Node(name.to_lowercase()), &options).await?;
        Ok((options, reading, Wanted::parse(self, Subject::NodeServices)?))
    }

    fn visible_node<'d>(&self, data: &'d TopicData) -> Option<&'d Indexed<Node>> {
        nodes(data).next().filter(|node| self.access.allows(Resource::Node, &node.value.name, Policy::Read))
    }
}

/// A view with the id it goes by; a filter sees the view alone.
struct Keyed<'a> {
    id: &'a str,
    view: ServiceView<'a>,
}

impl Serialize for Keyed<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.view.serialize(serializer)
    }
}

fn nodes(data: &TopicData) -> impl Iterator<Item = &Indexed<Node>> {
    data.rows.iter().filter_map(|row| match row {
        Row::Node(node) => Some(node),
        _ => None,
    })
}
