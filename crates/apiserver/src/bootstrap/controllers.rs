//! The default roles of Kubernetes' controllers.

use super::facts::{READ, READ_UPDATE, RECORD, Role, named, on, role};

/// Each stands for the cluster role `system:controller:NAME`, bound to the service account NAME in `kube-system`.
pub(super) const CONTROLLER_ROLES: &[Role] = &[
    role(
        "attachdetach-controller",
        &[
            on("list,watch", "", "persistentvolumeclaims,persistentvolumes"),
            on(READ, "", "nodes"),
            on("patch,update", "", "nodes/status"),
            on("list,watch", "", "pods"),
            on(RECORD, ",events.k8s.io", "events"),
            on("create,delete,get,list,watch", "storage.k8s.io", "volumeattachments"),
            on(READ, "storage.k8s.io", "csidrivers"),
            on(READ, "storage.k8s.io", "csinodes"),
        ],
    ),
    role(
        "certificate-controller",
        &[
            on("delete,get,list,watch", "certificates.k8s.io", "certificatesigningrequests"),
            on(
                "update",
                "certificates.k8s.io",
                "certificatesigningrequests/approval,certificatesigningrequests/status",
            ),
            named("approve", "certificates.k8s.io", "signers", "kubernetes.io/kube-apiserver-client-kubelet"),
            named(
                "sign",
                "certificates.k8s.io",
                "signers",
                "kubernetes.io/kube-apiserver-client,kubernetes.io/kube-apiserver-client-kubelet,kubernetes.io/kubelet-serving,kubernetes.io/legacy-unknown",
            ),
            on("create", "authorization.k8s.io", "subjectaccessreviews"),
            on(RECORD, ",events.k8s.io", "events"),
        ],
    ),
    role(
        "clusterrole-aggregation-controller",
        &[on("escalate,get,list,patch,update,watch", "rbac.authorization.k8s.io", "clusterroles")],
    ),
    role(
        "cronjob-controller",
        &[
            on("get,list,update,watch", "batch", "cronjobs"),
            on("create,delete,get,list,patch,update,watch", "batch", "jobs"),
            on("update", "batch", "cronjobs/status"),
            on("update", "batch", "cronjobs/finalizers"),
            on("delete,list,watch", "", "pods"),
            on(RECORD, ",events.k8s.io", "events"),
        ],
    ),
    role(
        "daemon-set-controller",
        &[
            on(READ, "apps,extensions", "daemonsets"),
            on("update", "apps,extensions", "daemonsets/status"),
            on("update", "apps,extensions", "daemonsets/finalizers"),
            on("list,watch", "", "nodes"),
            on("create,delete,list,patch,watch", "", "pods"),
            on("create", "", "pods/binding"),
            on("create,delete,get,list,patch,update,watch", "apps", "controllerrevisions"),
            on(RECORD, ",events.k8s.io", "events"),
        ],
    ),
    role(
        "deployment-controller",
        &[
            on("get,list,update,watch", "apps,extensions", "deployments"),
            on("update", "apps,extensions", "deployments/status"),
            on("update", "apps,extensions", "deployments/finalizers"),
            on("create,delete,get,list,patch,update,watch", "apps,extensions", "replicasets"),
            on("get,list,update,watch", "", "pods"),
            on(RECORD, ",events.k8s.io", "events"),
        ],
    ),
    role(
        "disruption-controller",
        &[
            on(READ, "apps,extensions", "deployments"),
            on(READ, "apps,extensions", "replicasets"),
            on(READ, "", "replicationcontrollers"),
            on(READ, "policy", "poddisruptionbudgets"),
            on(READ, "apps", "statefulsets"),
            on("update", "policy", "poddisruptionbudgets/status"),
            on("patch,update", "", "pods/status"),
            on("get", "*", "*/scale"),
            on(RECORD, ",events.k8s.io", "events"),
        ],
    ),
    role(
        "endpoint-controller",
        &[
            on(READ, "", "pods,services"),
            on("create,delete,get,list,update,watch", "", "endpoints"),
            on("create", "", "endpoints/restricted"),
            on(RECORD, ",events.k8s.io", "events"),
        ],
    ),
    role(
        "endpointslice-controller",
        &[
            on(READ, "", "nodes,pods,services"),
            on("update", "", "services/finalizers"),
            on("create,delete,get,list,update,watch", "discovery.k8s.io", "endpointslices"),
            on(RECORD, ",events.k8s.io", "events"),
        ],
    ),
    role(
        "endpointslicemirroring-controller",
        &[
            on(READ, "", "endpoints,services"),
            on("update", "", "services/finalizers"),
            on("update", "", "endpoints/finalizers"),
            on("create,delete,get,list,update,watch", "discovery.k8s.io", "endpointslices"),
            on(RECORD, ",events.k8s.io", "events"),
        ],
    ),
    role(
        "ephemeral-volume-controller",
        &[
            on(READ, "", "pods"),
            on("update", "", "pods/finalizers"),
            on("create,get,list,watch", "", "persistentvolumeclaims"),
            on(RECORD, ",events.k8s.io", "events"),
        ],
    ),
    role(
        "expand-controller",
        &[
            on(READ_UPDATE, "", "persistentvolumes"),
            on("patch,update", "", "persistentvolumeclaims/status"),
            on(READ, "", "persistentvolumeclaims"),
            on(RECORD, ",events.k8s.io", "events"),
            on("get", "", "services"),
        ],
    ),
    role(
        "generic-garbage-collector",
        &[on("delete,get,list,patch,update,watch", "*", "*"), on(RECORD, ",events.k8s.io", "events")],
    ),
    role(
        "horizontal-pod-autoscaler",
        &[
            on(READ, "autoscaling", "horizontalpodautoscalers"),
            on("update", "autoscaling", "horizontalpodautoscalers/status"),
            on("get,update", "*", "*/scale"),
            on("list,watch", "", "pods"),
            on("list,watch", "metrics.k8s.io", "pods"),
            on(READ, "custom.metrics.k8s.io", "*"),
            on(READ, "external.metrics.k8s.io", "*"),
            on(RECORD, ",events.k8s.io", "events"),
        ],
    ),
    role(
        "job-controller",
        &[
            on(READ_UPDATE, "batch", "jobs"),
            on("update", "batch", "jobs/status"),
            on("update", "batch", "jobs/finalizers"),
            on("create,delete,list,patch,watch", "", "pods"),
            on(RECORD, ",events.k8s.io", "events"),
        ],
    ),
    role(
        "legacy-service-account-token-cleaner",
        &[
            named("get", "", "configmaps", "kube-apiserver-legacy-service-account-token-tracking"),
            on("delete,patch", "", "secrets"),
        ],
    ),
    role(
        "namespace-controller",
        &[
            on("delete,get,list,watch", "", "namespaces"),
            on("update", "", "namespaces/finalize,namespaces/status"),
            on("delete,deletecollection,get,list,watch", "*", "*"),
        ],
    ),
    role(
        "node-controller",
        &[
            on("delete,get,list,patch,update,watch", "", "nodes"),
            on("patch,update", "", "nodes/status"),
            on("patch,update", "", "pods/status"),
            on("delete,get,list,watch", "", "pods"),
            on(RECORD, ",events.k8s.io", "events"),
        ],
    ),
    role(
        "persistent-volume-binder",
        &[
            on("create,delete,get,list,update,watch", "", "persistentvolumes"),
            on("update", "", "persistentvolumes/status"),
            on("get,list,update,watch", "", "persistentvolumeclaims"),
            on("update", "", "persistentvolumeclaims/status"),
            on("create,delete,get,list,watch", "", "pods"),
            on(READ, "storage.k8s.io", "storageclasses"),
            on("list,watch", "", "nodes"),
            on(RECORD, ",events.k8s.io", "events"),
            on("watch", "", "events"),
            on("get", "", "services"),
        ],
    ),
    role(
        "pod-garbage-collector",
        &[on("delete,list,watch", "", "pods"), on(READ, "", "nodes"), on("patch", "", "pods/status")],
    ),
    role(
        "pv-protection-controller",
        &[on("get,list,update,watch", "", "persistentvolumes"), on(RECORD, ",events.k8s.io", "events")],
    ),
    role(
        "pvc-protection-controller",
        &[
            on("get,list,update,watch", "", "persistentvolumeclaims"),
            on(READ, "", "pods"),
            on(RECORD, ",events.k8s.io", "events"),
        ],
    ),
    role(
        "replicaset-controller",
        &[
            on("get,list,update,watch", "apps,extensions", "replicasets"),
            on("update", "apps,extensions", "replicasets/status"),
            on("update", "apps,extensions", "replicasets/finalizers"),
            on("create,delete,list,patch,watch", "", "pods"),
            on(RECORD, ",events.k8s.io", "events"),
        ],
    ),
    role(
        "replication-controller",
        &[
            on("get,list,update,watch", "", "replicationcontrollers"),
            on("update", "", "replicationcontrollers/status"),
            on("update", "", "replicationcontrollers/finalizers"),
            on("create,delete,list,patch,watch", "", "pods"),
            on(RECORD, ",events.k8s.io", "events"),
        ],
    ),
    role(
        "resource-claim-controller",
        &[
            on(READ, "", "pods"),
            on("update", "", "pods/finalizers"),
            on("create,delete,get,list,watch", "resource.k8s.io", "resourceclaims"),
            on("patch,update", "resource.k8s.io", "resourceclaims,resourceclaims/status"),
            on("patch,update", "", "pods/status"),
            on(RECORD, ",events.k8s.io", "events"),
        ],
    ),
    role(
        "resourcequota-controller",
        &[
            on("list,watch", "*", "*"),
            on("update", "", "resourcequotas/status"),
            on(RECORD, ",events.k8s.io", "events"),
        ],
    ),
    role("root-ca-cert-publisher", &[on("create,update", "", "configmaps"), on(RECORD, ",events.k8s.io", "events")]),
    role(
        "route-controller",
        &[on("list,watch", "", "nodes"), on("patch", "", "nodes/status"), on(RECORD, ",events.k8s.io", "events")],
    ),
    role(
        "selinux-warning-controller",
        &[
            on(RECORD, ",events.k8s.io", "events"),
            on(READ, "", "persistentvolumes"),
            on(READ, "", "persistentvolumeclaims"),
            on(READ, "", "pods"),
            on(READ, "storage.k8s.io", "csidrivers"),
        ],
    ),
    role("service-account-controller", &[on("create", "", "serviceaccounts"), on(RECORD, ",events.k8s.io", "events")]),
    role(
        "service-cidrs-controller",
        &[
            on(READ_UPDATE, "networking.k8s.io", "servicecidrs"),
            on("patch,update", "networking.k8s.io", "servicecidrs/finalizers"),
            on("patch,update", "networking.k8s.io", "servicecidrs/status"),
            on(READ, "networking.k8s.io", "ipaddresses"),
            on(RECORD, ",events.k8s.io", "events"),
        ],
    ),
    role(
        "service-controller",
        &[
            on(READ, "", "services"),
            on("patch,update", "", "services/status"),
            on("list,watch", "", "nodes"),
            on(RECORD, ",events.k8s.io", "events"),
        ],
    ),
    role(
        "statefulset-controller",
        &[
            on("list,watch", "", "pods"),
            on(READ, "apps", "statefulsets"),
            on("update", "apps", "statefulsets/status"),
            on("update", "apps", "statefulsets/finalizers"),
            on("create,delete,get,patch,update", "", "pods"),
            on("create,delete,get,list,patch,update,watch", "apps", "controllerrevisions"),
            on("create,get,list,watch", "", "persistentvolumeclaims"),
            on(RECORD, ",events.k8s.io", "events"),
            on("delete,update", "", "persistentvolumeclaims"),
            on("update", "", "pods/finalizers"),
        ],
    ),
    role(
        "ttl-after-finished-controller",
        &[on("delete,get,list,watch", "batch", "jobs"), on(RECORD, ",events.k8s.io", "events")],
    ),
    role("ttl-controller", &[on("list,patch,update,watch", "", "nodes"), on(RECORD, ",events.k8s.io", "events")]),
    role(
        "validatingadmissionpolicy-status-controller",
        &[
            on(READ, "admissionregistration.k8s.io", "validatingadmissionpolicies"),
            on("get,patch,update", "admissionregistration.k8s.io", "validatingadmissionpolicies/status"),
            on(RECORD, ",events.k8s.io", "events"),
        ],
    ),
    role(
        "volumeattributesclass-protection-controller",
        &[
            on(READ, "", "persistentvolumeclaims"),
            on(READ, "", "persistentvolumes"),
            on("get,list,update,watch", "storage.k8s.io", "volumeattributesclasses"),
            on(RECORD, ",events.k8s.io", "events"),
        ],
    ),
];
