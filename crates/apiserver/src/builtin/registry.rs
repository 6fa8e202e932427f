//! The table of built-in kinds, as discovery shows it.

use super::claim::Claim;
use super::config_map::ConfigMap;
use super::custom_resource_definition::CustomResourceDefinition;
use super::event::Event;
use super::lease::Lease;
use super::namespace::Namespace;
use super::network_policy::NetworkPolicy;
use super::node::Node;
use super::pod::Pod;
use super::rbac::{Binding, Role};
use super::secret::Secret;
use super::service::Service;
use super::service_account::ServiceAccount;
use super::{Kind, Strategy};

const fn core(
    kind: &'static str,
    plural: &'static str,
    singular: &'static str,
    short_names: &'static [&'static str],
    definition: &'static str,
    strategy: &'static dyn Strategy,
) -> Kind {
    Kind {
        group: "",
        version: "v1",
        kind,
        plural,
        singular,
        short_names,
        categories: &[],
        namespaced: true,
        status: false,
        definition,
        strategy,
    }
}

const RBAC: &str = "rbac.authorization.k8s.io";

static KINDS: [Kind; 17] = [
    core("ConfigMap", "configmaps", "configmap", &["cm"], "io.k8s.api.core.v1.ConfigMap", &ConfigMap),
    core("Event", "events", "event", &["ev"], "io.k8s.api.core.v1.Event", &Event { new_group: false }),
    Kind {
        namespaced: false,
        status: true,
        ..core("Namespace", "namespaces", "namespace", &["ns"], "io.k8s.api.core.v1.Namespace", &Namespace)
    },
    Kind {
        namespaced: false,
        status: true,
        ..core("Node", "nodes", "node", &["no"], "io.k8s.api.core.v1.Node", &Node)
    },
    Kind {
        status: true,
        ..core(
            "PersistentVolumeClaim",
            "persistentvolumeclaims",
            "persistentvolumeclaim",
            &["pvc"],
            "io.k8s.api.core.v1.PersistentVolumeClaim",
            &Claim,
        )
    },
    Kind { status: true, categories: &["all"], ..core("Pod", "pods", "pod", &["po"], "io.k8s.api.core.v1.Pod", &Pod) },
    core("Secret", "secrets", "secret", &[], "io.k8s.api.core.v1.Secret", &Secret),
    core(
        "ServiceAccount",
        "serviceaccounts",
        "serviceaccount",
        &["sa"],
        "io.k8s.api.core.v1.ServiceAccount",
        &ServiceAccount,
    ),
    Kind {
        status: true,
        categories: &["all"],
        ..core("Service", "services", "service", &["svc"], "io.k8s.api.core.v1.Service", &Service)
    },
    Kind {
        group: "apiextensions.k8s.io",
        namespaced: false,
        status: true,
        categories: &["api-extensions"],
        ..core(
            "CustomResourceDefinition",
            "customresourcedefinitions",
            "customresourcedefinition",
            &["crd", "crds"],
            "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
            &CustomResourceDefinition,
        )
    },
    Kind {
        group: "coordination.k8s.io",
        ..core("Lease", "leases", "lease", &[], "io.k8s.api.coordination.v1.Lease", &Lease)
    },
    Kind {
        group: "events.k8s.io",
        ..core("Event", "events", "event", &["ev"], "io.k8s.api.events.v1.Event", &Event { new_group: true })
    },
    Kind {
        group: "networking.k8s.io",
        ..core(
            "NetworkPolicy",
            "networkpolicies",
            "networkpolicy",
            &["netpol"],
            "io.k8s.api.networking.v1.NetworkPolicy",
            &NetworkPolicy,
        )
    },
    Kind {
        group: RBAC,
        namespaced: false,
        ..core(
            "ClusterRoleBinding",
            "clusterrolebindings",
            "clusterrolebinding",
            &[],
            "io.k8s.api.rbac.v1.ClusterRoleBinding",
            &Binding { namespaced: false },
        )
    },
    Kind {
        group: RBAC,
        namespaced: false,
        ..core(
            "ClusterRole",
            "clusterroles",
            "clusterrole",
            &[],
            "io.k8s.api.rbac.v1.ClusterRole",
            &Role { namespaced: false },
        )
    },
    Kind {
        group: RBAC,
        ..core(
            "RoleBinding",
            "rolebindings",
            "rolebinding",
            &[],
            "io.k8s.api.rbac.v1.RoleBinding",
            &Binding { namespaced: true },
        )
    },
    Kind { group: RBAC, ..core("Role", "roles", "role", &[], "io.k8s.api.rbac.v1.Role", &Role { namespaced: true }) },
];

/// Every built-in kind.
pub(crate) fn kinds() -> &'static [Kind] {
    &KINDS
}
