//! `thane sandbox cp`: a file into a sandbox or out of it.

use std::path::{Path, PathBuf};

use clap::Args;
use http::{HeaderValue, Method, header};
use hyper::body::Bytes;
use serde_json::json;
use thane_api::code;
use tokio::io::AsyncWriteExt;

use super::super::rows::segment;
use super::gateway::{Gateway, file, request, whole};
use crate::failure::Failure;
use crate::output::tell;

/// Copy a file into a sandbox or out of it; a sandbox's is NAME:PATH
#[derive(Debug, Args)]
pub(crate) struct Copy {
    /// From
    from: String,
    /// To
    to: String,
    #[command(flatten)]
    gateway: Gateway,
}

/// One end of a copy.
#[derive(Debug, PartialEq, Eq)]
enum End<'a> {
    Here(&'a Path),
    There(&'a str, &'a str),
}

/// `NAME:PATH` is in a sandbox; anything with a slash before the colon is here.
fn end(text: &str) -> End<'_> {
    match text.split_once(':') {
        Some((name, path)) if !name.is_empty() && !name.contains('/') && !path.is_empty() => End::There(name, path),
        _ => End::Here(Path::new(text)),
    }
}

impl Copy {
    pub(super) async fn run(self) -> Result<(), Failure> {
        match (end(&self.from), end(&self.to)) {
            (End::Here(from), End::There(name, to)) => upload(&self.gateway, from, name, to).await,
            (End::There(name, from), End::Here(to)) => download(&self.gateway, name, from, to).await,
            _ => Err(Failure::new(code::USAGE, "one of the two has to be in a sandbox")
                .with_hint("it looks like `thane sandbox cp notes.txt NAME:/workspace/notes.txt`")),
        }
    }
}

async fn upload(gateway: &Gateway, from: &Path, name: &str, to: &str) -> Result<(), Failure> {
    let unreadable =
        |error: &dyn std::fmt::Display| Failure::new(code::FILE_FAILED, format!("{}: {error}", from.display()));
    if from.is_dir() {
        return Err(
            unreadable(&"it is a directory").with_hint("pack it with tar, copy the archive, and unpack it there")
        );
    }
    let opened = tokio::fs::File::open(from).await.map_err(|error| unreadable(&error))?;
    let to = if to.ends_with('/') { format!("{to}{}", named(from)) } else { to.to_owned() };
    let mut asked = request(Method::POST, &format!("/v1/sessions/{}/upload-file", segment(name)))?;
    let path = HeaderValue::from_str(&to)
        .map_err(|_| Failure::new(code::USAGE, "the path has characters that no header can carry"))?;
    asked.headers_mut().insert("x-arl-path", path);
    asked.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
    gateway.open(asked, file(opened)).await?.rest().await?;
    tell(&format!("{} is {name}:{to}", from.display()));
    Ok(())
}

async fn download(gateway: &Gateway, name: &str, from: &str, to: &Path) -> Result<(), Failure> {
    let to: PathBuf = if to.is_dir() { to.join(named(Path::new(from))) } else { to.to_owned() };
    let asked = request(Method::POST, &format!("/v1/sessions/{}/download-file", segment(name)))?;
    let body = Bytes::from(json!({"path": from}).to_string());
    let mut answer = gateway.open(asked, whole(body)).await?;
    let failed = |error: &dyn std::fmt::Display| Failure::new(code::FILE_FAILED, format!("{}: {error}", to.display()));
    let mut written = tokio::fs::File::create(&to).await.map_err(|error| failed(&error))?;
    while let Some(piece) = answer.piece().await? {
        written.write_all(&piece).await.map_err(|error| failed(&error))?;
    }
    written.sync_all().await.map_err(|error| failed(&error))?;
    tell(&format!("{name}:{from} is {}", to.display()));
    Ok(())
}

fn named(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_here_or_in_a_sandbox() {
        for (text, expected) in [
            ("a:/b", End::There("a", "/b")),
            ("a:b:c", End::There("a", "b:c")),
            ("./a:b", End::Here(Path::new("./a:b"))),
            ("a", End::Here(Path::new("a"))),
            ("a:", End::Here(Path::new("a:"))),
        ] {
            assert_eq!(end(text), expected, "{text}");
        }
    }
}
