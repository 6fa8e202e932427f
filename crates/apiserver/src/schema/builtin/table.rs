//! Which Rust type has the schema of which definition.

use k8s_openapi::api::{
    authentication::v1 as authentication, authorization::v1 as authorization, autoscaling::v1 as autoscaling,
    coordination::v1 as coordination, core::v1 as core, events::v1 as events, networking::v1 as networking,
    policy::v1 as policy, rbac::v1 as rbac,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1 as apiextensions;
use k8s_openapi::apimachinery::pkg::apis::meta::v1 as meta;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value};

type Generate = fn(&mut SchemaGenerator);

fn generate<T: JsonSchema>(generator: &mut SchemaGenerator) {
    let _ = generator.subschema_for::<T>();
}

const EXTENSIONS: &str = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition";

static TABLE: [(&str, Generate); 30] = [
    ("io.k8s.api.core.v1.Namespace", generate::<core::Namespace>),
    ("io.k8s.api.core.v1.Secret", generate::<core::Secret>),
    ("io.k8s.api.core.v1.ConfigMap", generate::<core::ConfigMap>),
    ("io.k8s.api.core.v1.ServiceAccount", generate::<core::ServiceAccount>),
    ("io.k8s.api.core.v1.Service", generate::<core::Service>),
    ("io.k8s.api.core.v1.Pod", generate::<core::Pod>),
    ("io.k8s.api.core.v1.Node", generate::<core::Node>),
    ("io.k8s.api.core.v1.Event", generate::<core::Event>),
    ("io.k8s.api.core.v1.PersistentVolumeClaim", generate::<core::PersistentVolumeClaim>),
    ("io.k8s.api.core.v1.Binding", generate::<core::Binding>),
    ("io.k8s.api.events.v1.Event", generate::<events::Event>),
    ("io.k8s.api.coordination.v1.Lease", generate::<coordination::Lease>),
    ("io.k8s.api.networking.v1.NetworkPolicy", generate::<networking::NetworkPolicy>),
    ("io.k8s.api.rbac.v1.Role", generate::<rbac::Role>),
    ("io.k8s.api.rbac.v1.ClusterRole", generate::<rbac::ClusterRole>),
    ("io.k8s.api.rbac.v1.RoleBinding", generate::<rbac::RoleBinding>),
    ("io.k8s.api.rbac.v1.ClusterRoleBinding", generate::<rbac::ClusterRoleBinding>),
    (EXTENSIONS, generate::<apiextensions::CustomResourceDefinition>),
    ("io.k8s.api.policy.v1.Eviction", generate::<policy::Eviction>),
    ("io.k8s.api.autoscaling.v1.Scale", generate::<autoscaling::Scale>),
    ("io.k8s.api.authentication.v1.TokenRequest", generate::<authentication::TokenRequest>),
    ("io.k8s.api.authentication.v1.TokenReview", generate::<authentication::TokenReview>),
    ("io.k8s.api.authentication.v1.SelfSubjectReview", generate::<authentication::SelfSubjectReview>),
    ("io.k8s.api.authorization.v1.SubjectAccessReview", generate::<authorization::SubjectAccessReview>),
    ("io.k8s.api.authorization.v1.LocalSubjectAccessReview", generate::<authorization::LocalSubjectAccessReview>),
    ("io.k8s.api.authorization.v1.SelfSubjectAccessReview", generate::<authorization::SelfSubjectAccessReview>),
    ("io.k8s.api.authorization.v1.SelfSubjectRulesReview", generate::<authorization::SelfSubjectRulesReview>),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", generate::<meta::ObjectMeta>),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions", generate::<meta::DeleteOptions>),
    ("io.k8s.apimachinery.pkg.apis.meta.v1.ListMeta", generate::<meta::ListMeta>),
];

#[cfg(test)]
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|(name, _)| *name)
}

pub(super) fn definitions(definition: &str) -> Option<Map<String, Value>> {
    let (_, generate) = TABLE.iter().find(|(name, _)| *name == definition)?;
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    generate(&mut generator);
    Some(generator.take_definitions(false))
}
