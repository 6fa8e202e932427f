//! Ways to prove an identity, written as argocd-agent writes them.

use std::path::PathBuf;
use std::str::FromStr;

use regex::Regex;

/// One way to prove an identity.
#[derive(Debug, Clone)]
pub enum Method {
    /// A name that a certificate's subject holds, as Go writes subjects: the first group of the expression.
    Subject(Regex),
    /// A name that a URI in a certificate holds: the first group of the expression.
    Uri(Regex),
    /// A name and a password, against a file of `name:bcrypt` lines; read anew for each attempt.
    Passwords(PathBuf),
}

/// Why a method cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MethodError {
    /// It is none we know.
    #[error("{0:?} is no way to authenticate; use mtls:subject:REGEX, mtls:uri:REGEX or userpass:FILE")]
    Unknown(String),
    /// Its expression is not one.
    #[error("expression of mtls: {0}")]
    Expression(#[from] regex::Error),
    /// Its expression has no group to find the name in.
    #[error("expression {0:?} of mtls needs a group around the agent's name")]
    NoGroup(String),
}

impl FromStr for Method {
    type Err = MethodError;

    fn from_str(text: &str) -> Result<Self, MethodError> {
        let unknown = || MethodError::Unknown(text.to_owned());
        let (method, rest) = text.split_once(':').filter(|(_, rest)| !rest.is_empty()).ok_or_else(unknown)?;
        match method {
            "mtls" => match rest.split_once(':') {
                Some(("subject", rest)) => Ok(Self::Subject(expression(rest)?)),
                Some(("uri", rest)) => Ok(Self::Uri(expression(rest)?)),
                _ => Ok(Self::Subject(expression(rest)?)),
            },
            "userpass" => Ok(Self::Passwords(PathBuf::from(rest))),
            _ => Err(unknown()),
        }
    }
}

fn expression(text: &str) -> Result<Regex, MethodError> {
    let expression = Regex::new(text)?;
    if expression.captures_len() < 2 {
        return Err(MethodError::NoGroup(text.to_owned()));
    }
    Ok(expression)
}
