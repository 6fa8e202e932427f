//! Artifacts in S3 and what speaks like it.

mod client;
mod sign;
mod xml;

use std::path::{Path, PathBuf};

use bytes::Bytes;
use serde::Deserialize;
use serde_json::Value;
use tokio::io::AsyncReadExt;

pub(super) use sign::encoded;

use super::{Error, Result, Stores};
use client::Client;

/// The largest object that is sent in one request.
const SINGLE_MAX: u64 = 64 * 1024 * 1024;
/// The least size of a part.
const PART: u64 = 16 * 1024 * 1024;
/// Parts an object may have.
const PARTS_MAX: u64 = 10_000;
/// Objects of one directory.
const OBJECTS_MAX: usize = 100_000;
/// Directories below one another.
const DEPTH_MAX: usize = 256;

/// The fields of Argo's S3 location that say where something is.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Place {
    endpoint: String,
    bucket: String,
    region: String,
    insecure: bool,
    key: String,
    addressing_style: String,
    create_bucket_if_not_present: Option<Value>,
}

/// One object, or all below a key.
pub struct Store {
    client: Client,
    key: String,
    makes_bucket: bool,
}

impl Store {
    /// The store of a location.
    pub fn open(s3: &Value, stores: &Stores) -> Result<Self> {
        let place: Place = serde_json::from_value(s3.clone()).map_err(|error| Error::failed("the location", error))?;
        let mut access = stores.secret(&s3["accessKeySecret"])?;
        let mut secret = stores.secret(&s3["secretKeySecret"])?;
        let mut session = stores.secret(&s3["sessionTokenSecret"])?;
        if access.is_none() && secret.is_none() {
            let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
            access = variable("AWS_ACCESS_KEY_ID");
            secret = variable("AWS_SECRET_ACCESS_KEY");
            session = variable("AWS_SESSION_TOKEN");
        }
        let trimmed = |text: Option<String>| text.map(|text| text.trim().to_owned());
        let credentials = match (trimmed(access), trimmed(secret)) {
            (Some(access), Some(secret)) => Some(sign::Credentials { access, secret, session: trimmed(session) }),
            (None, None) => None,
            _ => return Err(Error::Failed("S3 needs both an access key and a secret key".to_owned())),
        };
        let options = client::Options {
            endpoint: place.endpoint,
            bucket: place.bucket,
            region: place.region,
            is_secure: !place.insecure,
            style: place.addressing_style,
            authorities: stores.secret(&s3["caSecret"])?,
            credentials,
        };
        let makes_bucket = place.create_bucket_if_not_present.is_some_and(|value| !value.is_null());
        Ok(Self { client: Client::new(options)?, key: place.key, makes_bucket })
    }

    /// Brings the object, or the objects below the key as a directory.
    pub async fn load(&self, to: &Path) -> Result<()> {
        match self.client.get(&self.key, to).await {
            Err(Error::Absent(why)) => self.load_directory(to, why).await,
            other => other,
        }
    }

    async fn load_directory(&self, to: &Path, why: String) -> Result<()> {
        let prefix = format!("{}/", self.key.trim_end_matches('/'));
        let mut found = false;
        let mut after: Option<String> = None;
        let mut count = 0;
        loop {
            let page = self.client.list(&prefix, after.as_deref()).await?;
            for key in page.keys {
                count += 1;
                if count > OBJECTS_MAX {
                    return Err(Error::Failed(format!("more than {OBJECTS_MAX} objects are below {prefix:?}")));
                }
                let Some(rest) = key.strip_prefix(&prefix).filter(|rest| !rest.is_empty()) else { continue };
                found = true;
                self.load_below(&key, rest, to).await?;
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        if found { Ok(()) } else { Err(Error::Absent(why)) }
    }

    async fn load_below(&self, key: &str, rest: &str, to: &Path) -> Result<()> {
        if rest.split('/').any(|name| name == ".." || name == ".") {
            return Err(Error::Failed(format!("the key {key:?} leads elsewhere")));
        }
        let path = to.join(rest.trim_start_matches('/'));
        let directory = if rest.ends_with('/') { Some(path.as_path()) } else { path.parent() };
        if let Some(directory) = directory {
            tokio::fs::create_dir_all(directory).await.map_err(|error| Error::file(directory, &error))?;
        }
        if rest.ends_with('/') { Ok(()) } else { self.client.get(key, &path).await }
    }

    /// Keeps a file, or each file of a directory under its own key.
    pub async fn save(&self, from: &Path) -> Result<()> {
        if self.makes_bucket {
            self.client.make_bucket().await?;
        }
        let found = tokio::fs::metadata(from).await.map_err(|error| Error::file(from, &error))?;
        if !found.is_dir() {
            return self.put(from, &self.key, found.len()).await;
        }
        let root = from.to_owned();
        let files = super::blocking(move || files(&root)).await?;
        for (path, name, bytes) in files {
            self.put(&path, &format!("{}/{name}", self.key.trim_end_matches('/')), bytes).await?;
        }
        Ok(())
    }

    async fn put(&self, from: &Path, key: &str, bytes: u64) -> Result<()> {
        let mut file = tokio::fs::File::open(from).await.map_err(|error| Error::file(from, &error))?;
        if bytes <= SINGLE_MAX {
            let body = read(&mut file, bytes, from).await?;
            return self.client.put(key, body).await;
        }
        let size = PART.max(bytes.div_ceil(PARTS_MAX));
        let upload = self.client.begin(key).await?;
        let sent = async {
            let (mut tags, mut left) = (Vec::new(), bytes);
            while left > 0 {
                let body = read(&mut file, size.min(left), from).await?;
                left -= body.len() as u64;
                tags.push(self.client.part(key, &upload, tags.len() + 1, body).await?);
            }
            self.client.complete(key, &upload, &tags).await
        };
        let sent = sent.await;
        if sent.is_err() {
            // What was sent would be paid for as long as it lies there.
            let _ = self.client.abort(key, &upload).await;
        }
        sent
    }
}

async fn read(file: &mut tokio::fs::File, bytes: u64, path: &Path) -> Result<Bytes> {
    let mut body = Vec::with_capacity(usize::try_from(bytes).unwrap_or_default());
    file.take(bytes).read_to_end(&mut body).await.map_err(|error| Error::file(path, &error))?;
    if (body.len() as u64) < bytes {
        return Err(Error::Failed(format!("{} became shorter while it was sent", path.display())));
    }
    Ok(body.into())
}

/// All files below a directory, with their names from there and their sizes; what links lead to counts as a file.
fn files(root: &Path) -> Result<Vec<(PathBuf, String, u64)>> {
    let mut found = Vec::new();
    let mut open = vec![(root.to_owned(), String::new(), 0)];
    while let Some((directory, prefix, depth)) = open.pop() {
        if depth > DEPTH_MAX {
            return Err(Error::Failed(format!("{} is too deep", directory.display())));
        }
        let entries = std::fs::read_dir(&directory).map_err(|error| Error::file(&directory, &error))?;
        for entry in entries {
            let path = entry.map_err(|error| Error::file(&directory, &error))?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let name = if prefix.is_empty() { name } else { format!("{prefix}/{name}") };
            let Ok(metadata) = std::fs::symlink_metadata(&path) else { continue };
            if metadata.is_dir() {
                open.push((path, name, depth + 1));
            } else if let Ok(target) = std::fs::metadata(&path)
                && target.is_file()
            {
                found.push((path, name, target.len()));
            }
            if found.len() > OBJECTS_MAX {
                return Err(Error::Failed(format!("more than {OBJECTS_MAX} files are in {}", root.display())));
            }
        }
    }
    found.sort();
    Ok(found)
}
