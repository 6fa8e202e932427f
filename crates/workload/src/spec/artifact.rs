//! Artifacts and where they are.

use k8s_openapi::api::core::v1::SecretKeySelector;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Rest;

/// A file or folder that goes into or comes out of a template.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Artifact {
    /// Its name.
    pub name: String,
    /// Where it is in the container.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// Permission bits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<i32>,
    /// Another artifact it is, `{{…}}`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub from: String,
    /// Where it is stored.
    #[serde(flatten)]
    pub location: ArtifactLocation,
    /// The workflow's output that it becomes.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub global_name: String,
    /// How it is packed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archive: Option<ArchiveStrategy>,
    /// Whether it may be absent.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
    /// A path within the artifact.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub sub_path: String,
    /// Whether `mode` holds for everything below.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub recurse_mode: bool,
    /// An expression that yields another artifact.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub from_expression: String,
    /// When it is removed.
    #[serde(rename = "artifactGC", skip_serializing_if = "Option::is_none")]
    pub artifact_gc: Option<Value>,
    /// Whether it was removed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub deleted: bool,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Rest,
}

/// Where an artifact is stored: one of these.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ArtifactLocation {
    /// Whether logs are kept there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub archive_logs: Option<bool>,
    /// An S3 bucket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub s3: Option<S3Artifact>,
    /// A git repository.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub git: Option<GitArtifact>,
    /// A URL.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpArtifact>,
    /// Its content, in place.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub raw: Option<RawArtifact>,
    /// Artifactory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub artifactory: Option<Value>,
    /// HDFS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hdfs: Option<Value>,
    /// Alibaba's object storage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oss: Option<Value>,
    /// Google's object storage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gcs: Option<Value>,
    /// Azure's object storage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub azure: Option<Value>,
    /// A plugin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin: Option<Value>,
}

/// A key in an S3 bucket.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct S3Artifact {
    /// Host and port.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub endpoint: String,
    /// Bucket.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub bucket: String,
    /// Region.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub region: String,
    /// Plain HTTP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub insecure: Option<bool>,
    /// Where the access key is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_key_secret: Option<SecretKeySelector>,
    /// Where the secret key is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_key_secret: Option<SecretKeySelector>,
    /// Where the session token is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_token_secret: Option<SecretKeySelector>,
    /// The role to take.
    #[serde(rename = "roleARN", skip_serializing_if = "String::is_empty")]
    pub role_arn: String,
    /// Credentials from the environment.
    #[serde(rename = "useSDKCreds", skip_serializing_if = "std::ops::Not::not")]
    pub use_sdk_creds: bool,
    /// Whether, and how, the bucket is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub create_bucket_if_not_present: Option<Value>,
    /// Encryption at the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub encryption_options: Option<Value>,
    /// Where the authority's certificate is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_secret: Option<SecretKeySelector>,
    /// Key.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A git repository.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[expect(clippy::struct_excessive_bools, reason = "Argo's fields")]
pub struct GitArtifact {
    /// URL.
    pub repo: String,
    /// Commit, tag or branch.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub revision: String,
    /// How much history.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub depth: Option<u64>,
    /// More refs to fetch.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub fetch: Vec<String>,
    /// Where the user name is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub username_secret: Option<SecretKeySelector>,
    /// Where the password is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub password_secret: Option<SecretKeySelector>,
    /// Where the SSH key is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ssh_private_key_secret: Option<SecretKeySelector>,
    /// Whether any SSH host is believed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub insecure_ignore_host_key: bool,
    /// Whether submodules are left out.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub disable_submodules: bool,
    /// Whether only one branch is fetched.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub single_branch: bool,
    /// That branch.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub branch: String,
    /// Whether any certificate is believed.
    #[serde(rename = "insecureSkipTLS", skip_serializing_if = "std::ops::Not::not")]
    pub insecure_skip_tls: bool,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A URL.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpArtifact {
    /// URL.
    pub url: String,
    /// Request headers.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<Header>,
    /// Credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth: Option<Value>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Rest,
}

/// A request header.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Header {
    /// Name.
    pub name: String,
    /// Value.
    pub value: String,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Rest,
}

/// Content, in place.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RawArtifact {
    /// The content.
    pub data: String,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Rest,
}

/// How an artifact is packed: one of these, else tar with gzip.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ArchiveStrategy {
    /// tar with gzip.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tar: Option<TarStrategy>,
    /// As it is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub none: Option<Rest>,
    /// zip.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zip: Option<Rest>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Rest,
}

/// tar with gzip.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct TarStrategy {
    /// 0 for none, up to 9.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub compression_level: Option<i32>,
    /// Everything else.
    #[serde(flatten)]
    pub rest: Rest,
}

impl ArtifactLocation {
    /// Whether it says where the artifact is, without a repository's help.
    pub fn is_complete(&self) -> bool {
        let text = |value: &Option<Value>, fields: &[&str]| {
            value
                .as_ref()
                .is_some_and(|value| fields.iter().all(|field| value[*field].as_str().is_some_and(|t| !t.is_empty())))
        };
        self.s3.as_ref().is_some_and(|s3| !s3.endpoint.is_empty() && !s3.bucket.is_empty() && !s3.key.is_empty())
            || self.git.as_ref().is_some_and(|git| !git.repo.is_empty())
            || self.http.as_ref().is_some_and(|http| !http.url.is_empty())
            || self.raw.is_some()
            || text(&self.artifactory, &["url"])
            || self.hdfs.as_ref().is_some_and(|hdfs| hdfs["addresses"].as_array().is_some_and(|list| !list.is_empty()))
            || text(&self.oss, &["bucket", "endpoint", "key"])
            || text(&self.gcs, &["bucket", "key"])
            || text(&self.azure, &["container", "blob"])
            || text(&self.plugin, &["name", "key"])
    }

    /// Its key, where it has one.
    pub fn key(&self) -> Option<&str> {
        self.s3
            .as_ref()
            .map(|s3| s3.key.as_str())
            .or_else(|| self.oss.as_ref().and_then(|oss| oss["key"].as_str()))
            .or_else(|| self.gcs.as_ref().and_then(|gcs| gcs["key"].as_str()))
            .or_else(|| self.azure.as_ref().and_then(|azure| azure["blob"].as_str()))
            .or_else(|| self.hdfs.as_ref().and_then(|hdfs| hdfs["path"].as_str()))
            .or_else(|| self.plugin.as_ref().and_then(|plugin| plugin["key"].as_str()))
            .or_else(|| self.http.as_ref().map(|http| http.url.as_str()))
            .or_else(|| self.artifactory.as_ref().and_then(|artifactory| artifactory["url"].as_str()))
            .filter(|key| !key.is_empty())
    }
}
