//! Which fields there are: a field that Argo does not know is refused, because it would do nothing.

use k8s_openapi::api::core::v1;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// By shape, its fields: `name` is anything, `name:Shape` an object, `name:[Shape]` a list, `name:[[Shape]]` a list of
/// lists, `name:{Shape}` a map. A shape that is not here is one of Kubernetes'.
const SHAPES: [(&str, &str); 27] = [
    ("Workflow", "apiVersion kind metadata:ObjectMeta spec:WorkflowSpec status"),
    ("WorkflowTemplate", "apiVersion kind metadata:ObjectMeta spec:WorkflowSpec status"),
    ("ClusterWorkflowTemplate", "apiVersion kind metadata:ObjectMeta spec:WorkflowSpec status"),
    ("CronWorkflow", "apiVersion kind metadata:ObjectMeta spec:CronWorkflowSpec status"),
    (
        "CronWorkflowSpec",
        "workflowSpec:WorkflowSpec concurrencyPolicy suspend startingDeadlineSeconds successfulJobsHistoryLimit \
         failedJobsHistoryLimit timezone workflowMetadata:ObjectMeta stopStrategy schedules when",
    ),
    (
        "WorkflowSpec",
        "templates:[Template] entrypoint arguments:Arguments serviceAccountName automountServiceAccountToken executor \
         volumes:[Volume] volumeClaimTemplates:[PersistentVolumeClaim] parallelism artifactRepositoryRef suspend \
         nodeSelector affinity:Affinity tolerations:[Toleration] imagePullSecrets:[LocalObjectReference] hostNetwork \
         dnsPolicy dnsConfig:PodDNSConfig onExit ttlStrategy activeDeadlineSeconds priority schedulerName podGC \
         podPriorityClassName hostAliases:[HostAlias] securityContext:PodSecurityContext podSpecPatch \
         podDisruptionBudget metrics shutdown workflowTemplateRef:WorkflowTemplateRef synchronization:Synchronization \
         volumeClaimGC retryStrategy:RetryStrategy podMetadata:Metadata templateDefaults:Template archiveLogs \
         hooks:{Hook} workflowMetadata artifactGC",
    ),
    ("WorkflowTemplateRef", "name clusterScope"),
    (
        "Template",
        "name inputs:Arguments outputs:Outputs nodeSelector affinity:Affinity metadata:Metadata daemon steps:[[Step]] \
         container:Container containerSet:ContainerSet script:Script resource:Resource dag:Dag suspend:Suspend data http \
         plugin volumes:[Volume] initContainers:[UserContainer] sidecars:[UserContainer] archiveLocation:Location \
         activeDeadlineSeconds retryStrategy:RetryStrategy parallelism failFast tolerations:[Toleration] schedulerName \
         priorityClassName serviceAccountName automountServiceAccountToken executor hostAliases:[HostAlias] \
         securityContext:PodSecurityContext podSpecPatch metrics synchronization:Synchronization memoize timeout \
         annotations",
    ),
    ("Metadata", "annotations labels"),
    ("Arguments", "parameters:[Parameter] artifacts:[Artifact]"),
    ("Outputs", "parameters:[Parameter] artifacts:[Artifact] result exitCode"),
    ("Parameter", "name default value valueFrom:ValueFrom globalName enum description"),
    ("ValueFrom", "path jsonPath jqFilter event parameter supplied configMapKeyRef default expression"),
    (
        "Artifact",
        "name path mode from archiveLogs s3:S3 git:Git http artifactory hdfs raw:Raw oss gcs azure plugin globalName \
         archive optional subPath recurseMode fromExpression artifactGC deleted",
    ),
    ("Location", "archiveLogs s3:S3 git:Git http artifactory hdfs raw:Raw oss gcs azure plugin"),
    (
        "S3",
        "endpoint bucket region insecure accessKeySecret secretKeySecret sessionTokenSecret roleARN useSDKCreds \
         createBucketIfNotPresent encryptionOptions caSecret key",
    ),
    (
        "Git",
        "repo revision depth fetch usernameSecret passwordSecret sshPrivateKeySecret insecureIgnoreHostKey \
         disableSubmodules singleBranch branch insecureSkipTLS",
    ),
    ("Raw", "data"),
    (
        "Step",
        "name template inline:Template arguments:Arguments templateRef:TemplateRef withItems withParam \
         withSequence:Sequence when continueOn:ContinueOn onExit hooks:{Hook}",
    ),
    (
        "Task",
        "name template inline:Template arguments:Arguments templateRef:TemplateRef dependencies withItems withParam \
         withSequence:Sequence when continueOn:ContinueOn onExit depends hooks:{Hook}",
    ),
    ("TemplateRef", "name template clusterScope"),
    ("Hook", "template arguments:Arguments templateRef:TemplateRef expression"),
    ("Sequence", "count start end format"),
    ("Dag", "target tasks:[Task] failFast"),
    ("Suspend", "duration"),
    (
        "Resource",
        "action mergeStrategy manifest manifestFrom setOwnerReference successCondition failureCondition flags",
    ),
    ("ContainerSet", "containers:[SetContainer] volumeMounts:[VolumeMount] retryStrategy"),
];

const SMALL: [(&str, &str); 4] = [
    ("ContinueOn", "error failed"),
    ("RetryStrategy", "limit retryPolicy backoff:Backoff affinity expression"),
    ("Backoff", "duration factor maxDuration cap"),
    ("Synchronization", "semaphores mutexes"),
];

/// Whether an object has no field that its kind does not know. What is wrong comes with its path.
pub(super) fn check(kind: &str, value: &Value) -> Result<(), (String, String)> {
    let mut unknown = Vec::new();
    walk(kind, value, "", &mut unknown)?;
    if unknown.is_empty() {
        return Ok(());
    }
    let fields: Vec<String> = unknown.iter().map(|path| format!("unknown field {path:?}")).collect();
    Err((unknown[0].clone(), format!("strict decoding error: {}", fields.join(", "))))
}

fn walk(shape: &str, value: &Value, path: &str, unknown: &mut Vec<String>) -> Result<(), (String, String)> {
    let Some((_, fields)) = SHAPES.iter().chain(&SMALL).find(|(name, _)| *name == shape) else {
        return kubernetes(shape, value, path, unknown);
    };
    for (key, value) in value.as_object().into_iter().flatten().filter(|(_, value)| !value.is_null()) {
        let at = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        let known = fields.split_whitespace().map(|field| field.split_once(':').unwrap_or((field, "")));
        match known.into_iter().find(|(name, _)| name == key) {
            None => unknown.push(at),
            Some((_, "")) => {}
            Some((_, inner)) => nested(inner, value, &at, unknown)?,
        }
    }
    Ok(())
}

fn nested(shape: &str, value: &Value, path: &str, unknown: &mut Vec<String>) -> Result<(), (String, String)> {
    if let Some(inner) = shape.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')) {
        for (index, value) in value.as_array().into_iter().flatten().enumerate() {
            nested(inner, value, &format!("{path}[{index}]"), unknown)?;
        }
        return Ok(());
    }
    if let Some(inner) = shape.strip_prefix('{').and_then(|inner| inner.strip_suffix('}')) {
        for (key, value) in value.as_object().into_iter().flatten() {
            nested(inner, value, &format!("{path}.{key}"), unknown)?;
        }
        return Ok(());
    }
    walk(shape, value, path, unknown)
}

fn kubernetes(shape: &str, value: &Value, path: &str, unknown: &mut Vec<String>) -> Result<(), (String, String)> {
    let mut value = value.clone();
    quantities(&mut value, false);
    // what Argo adds to a container
    let extra: &[&str] = match shape {
        "Script" => &["source"],
        "UserContainer" => &["mirrorVolumeMounts"],
        "SetContainer" => &["dependencies"],
        _ => &[],
    };
    if let Value::Object(fields) = &mut value {
        fields.retain(|name, _| !extra.contains(&name.as_str()));
    }
    match shape {
        "ObjectMeta" => dropped::<ObjectMeta>(&value, path, unknown),
        "Volume" => dropped::<v1::Volume>(&value, path, unknown),
        "PersistentVolumeClaim" => dropped::<v1::PersistentVolumeClaim>(&value, path, unknown),
        "Affinity" => dropped::<v1::Affinity>(&value, path, unknown),
        "Toleration" => dropped::<v1::Toleration>(&value, path, unknown),
        "LocalObjectReference" => dropped::<v1::LocalObjectReference>(&value, path, unknown),
        "PodDNSConfig" => dropped::<v1::PodDNSConfig>(&value, path, unknown),
        "HostAlias" => dropped::<v1::HostAlias>(&value, path, unknown),
        "PodSecurityContext" => dropped::<v1::PodSecurityContext>(&value, path, unknown),
        "VolumeMount" => dropped::<v1::VolumeMount>(&value, path, unknown),
        "Container" | "Script" | "UserContainer" | "SetContainer" => dropped::<v1::Container>(&value, path, unknown),
        _ => Ok(()),
    }
}

/// Quantities may be written as numbers.
fn quantities(value: &mut Value, amounts: bool) {
    match value {
        Value::Number(number) if amounts => *value = Value::String(number.to_string()),
        Value::Object(fields) => {
            for (key, value) in fields {
                quantities(
                    value,
                    matches!(key.as_str(), "limits" | "requests" | "sizeLimit" | "divisor" | "capacity") || amounts,
                );
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| quantities(value, false)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Reads a value as one of Kubernetes' types and looks at what did not come back.
fn dropped<T: DeserializeOwned + Serialize>(
    value: &Value,
    path: &str,
    unknown: &mut Vec<String>,
) -> Result<(), (String, String)> {
    let failed = |error: String| (path.to_owned(), format!("{path}: {error}"));
    let typed: T = serde_json::from_value(value.clone()).map_err(|error| failed(error.to_string()))?;
    let back = serde_json::to_value(typed).map_err(|error| failed(error.to_string()))?;
    missing(value, &back, path, unknown);
    Ok(())
}

fn missing(value: &Value, back: &Value, path: &str, unknown: &mut Vec<String>) {
    match (value, back) {
        (Value::Object(fields), back) => {
            for (key, value) in fields.iter().filter(|(_, value)| !value.is_null()) {
                let at = format!("{path}.{key}");
                match back.get(key) {
                    Some(back) => missing(value, back, &at, unknown),
                    None => unknown.push(at),
                }
            }
        }
        (Value::Array(values), Value::Array(back)) => {
            for (index, (value, back)) in values.iter().zip(back).enumerate() {
                missing(value, back, &format!("{path}[{index}]"), unknown);
            }
        }
        _ => {}
    }
}
