//! The default bindings of Kubernetes 1.34.

use super::facts::{Subject, account, group, user};

/// The bindings of the cluster: each has the name of its cluster role. Those of the controllers follow from their roles.
pub(super) const CLUSTER_ROLE_BINDINGS: &[(&str, &[Subject])] = &[
    ("cluster-admin", &[group("system:masters")]),
    ("system:basic-user", &[group("system:authenticated")]),
    ("system:discovery", &[group("system:authenticated")]),
    ("system:kube-controller-manager", &[user("system:kube-controller-manager")]),
    ("system:kube-dns", &[account("kube-dns")]),
    ("system:kube-scheduler", &[user("system:kube-scheduler")]),
    ("system:monitoring", &[group("system:monitoring")]),
    ("system:node", &[]),
    ("system:node-proxier", &[user("system:kube-proxy")]),
    ("system:public-info-viewer", &[group("system:authenticated"), group("system:unauthenticated")]),
    ("system:service-account-issuer-discovery", &[group("system:serviceaccounts")]),
    ("system:volume-scheduler", &[user("system:kube-scheduler")]),
];

/// The bindings in namespaces: the namespace, the name, the role and whom it is bound to.
pub(super) const ROLE_BINDINGS: &[(&str, &str, &str, &[Subject])] = &[
    (
        "kube-public",
        "system:controller:bootstrap-signer",
        "system:controller:bootstrap-signer",
        &[account("bootstrap-signer")],
    ),
    (
        "kube-system",
        "system::extension-apiserver-authentication-reader",
        "extension-apiserver-authentication-reader",
        &[user("system:kube-controller-manager"), user("system:kube-scheduler")],
    ),
    (
        "kube-system",
        "system::leader-locking-kube-controller-manager",
        "system::leader-locking-kube-controller-manager",
        &[
            user("system:kube-controller-manager"),
            account("kube-controller-manager"),
            account("leader-election-controller"),
        ],
    ),
    (
        "kube-system",
        "system::leader-locking-kube-scheduler",
        "system::leader-locking-kube-scheduler",
        &[user("system:kube-scheduler"), account("kube-scheduler")],
    ),
    (
        "kube-system",
        "system:controller:bootstrap-signer",
        "system:controller:bootstrap-signer",
        &[account("bootstrap-signer")],
    ),
    (
        "kube-system",
        "system:controller:cloud-provider",
        "system:controller:cloud-provider",
        &[account("cloud-provider")],
    ),
    ("kube-system", "system:controller:token-cleaner", "system:controller:token-cleaner", &[account("token-cleaner")]),
];
