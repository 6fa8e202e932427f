//! Who may do what: RBAC over a snapshot of roles and bindings.

use std::collections::BTreeMap;

/// Who makes a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct User {
    /// Such as `admin` or `system:serviceaccount:ns:name`.
    pub name: String,
    /// Uid, where one is known.
    pub uid: String,
    /// Groups, `system:authenticated` included.
    pub groups: Vec<String>,
    /// Whatever else the authenticator knows.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// What a request wants to do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Action {
    /// `get`, `list`, `create`, … or the HTTP method in lower case for a path.
    pub verb: String,
    /// API group.
    pub group: String,
    /// API version.
    pub version: String,
    /// Resource; empty when `path` is set.
    pub resource: String,
    /// Subresource.
    pub subresource: String,
    /// Namespace; empty for cluster-wide.
    pub namespace: String,
    /// Object name; empty for collections.
    pub name: String,
    /// A path that is no resource, such as `/healthz`.
    pub path: Option<String>,
}
