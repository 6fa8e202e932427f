//! Which rows a request gets to see: what its token may, and what it asks for.

use serde::Serialize;

use super::call::Call;
use super::failure::Failure;
use crate::filter::{Filter, Subject};
use crate::model::{Node, Policy, Resource};
use crate::topic::Instance;

/// What a request asks for besides a name.
pub(super) struct Wanted<'a> {
    tags: Vec<&'a str>,
    node_meta: Vec<(&'a str, &'a str)>,
    filter: Option<Filter>,
    near: Option<&'a str>,
}

impl<'a> Wanted<'a> {
    pub(super) fn parse(call: &Call<'a>, subject: Subject) -> Result<Self, Failure> {
        let query = call.query();
        let pair = |text: &'a str| text.split_once(':').unwrap_or((text, ""));
        let near = query.given("near").map(|node| if node == "_agent" { call.place().node.as_str() } else { node });
        Ok(Self {
            tags: query.all("tag").collect(),
            node_meta: query.all("node-meta").map(pair).collect(),
            filter: query.given("filter").map(|text| parsed(text, subject)).transpose()?,
            near,
        })
    }

    /// Whether an instance is asked for, filter expression aside.
    pub(super) fn has(&self, instance: &Instance) -> bool {
        let tags = &instance.service.value.tags;
        self.tags.iter().all(|wanted| tags.iter().any(|tag| tag.eq_ignore_ascii_case(wanted)))
            && self.has_node(&instance.node.value)
    }

    /// Whether a node has the metadata asked for.
    pub(super) fn has_node(&self, node: &Node) -> bool {
        self.node_meta.iter().all(|(name, value)| node.meta.get(*name).is_some_and(|own| own == value))
    }

    /// Whether everything is asked for, in its own order.
    pub(super) fn is_everything(&self) -> bool {
        self.tags.is_empty() && self.node_meta.is_empty() && self.filter.is_none() && self.near.is_none()
    }

    /// Whether nodes are chosen by their metadata.
    pub(super) fn asks_nodes(&self) -> bool {
        !self.node_meta.is_empty()
    }

    /// Whether there is a filter expression.
    pub(super) fn asks_filter(&self) -> bool {
        self.filter.is_some()
    }

    /// Those views that the filter expression lets through.
    pub(super) fn filtered<T: Serialize>(&self, views: Vec<T>) -> Result<Vec<T>, Failure> {
        let Some(filter) = &self.filter else { return Ok(views) };
        let mut kept = Vec::with_capacity(views.len());
        for view in views {
            if lets_through(filter, &view)? {
                kept.push(view);
            }
        }
        Ok(kept)
    }

    /// Puts what is on the node asked for first; nobody measures how far others are.
    pub(super) fn nearest_first<T>(&self, rows: &mut [T], node: impl Fn(&T) -> &Node) {
        if let Some(near) = self.near {
            rows.sort_by_key(|row| !(node(row).owner.is_some() && node(row).name.eq_ignore_ascii_case(near)));
        }
    }
}

/// Whether a filter expression lets a view through.
pub(super) fn lets_through<T: Serialize>(filter: &Filter, view: &T) -> Result<bool, Failure> {
    let value = serde_json::to_value(view).map_err(|error| Failure::failed(error.to_string()))?;
    Ok(filter.matches(&value))
}

/// Reads a filter expression.
pub(super) fn parsed(text: &str, subject: Subject) -> Result<Filter, Failure> {
    Filter::parse(text, subject).map_err(Failure::failed)
}

impl Call<'_> {
    /// Whether everybody who asks so gets the same bytes.
    pub(super) fn is_plain(&self) -> bool {
        self.access.is_open() && !self.query().has("pretty")
    }

    /// Whether the token may see an instance.
    pub(super) fn sees(&self, instance: &Instance) -> bool {
        self.access.is_open()
            || self.access.allows(Resource::Node, &instance.node.value.name, Policy::Read)
                && self.access.allows(Resource::Service, &instance.service.value.name, Policy::Read)
    }

    /// Whether the token may see a check.
    pub(super) fn sees_check(&self, node: &str, service: &str) -> bool {
        self.access.is_open() || self.access.sees_check(node, service)
    }
}
