//! Ways to prove an identity, written as argocd-agent writes them.

use std::path::PathBuf;
use std::str::FromStr;

use regex::Regex;

use super::certificate::Certificate;

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

impl Method {
    /// The name that a certificate proves, if this is a way to do so and it fits.
    pub(super) fn name<'a>(&self, certificate: &'a Certificate) -> Option<&'a str> {
        let found = |expression: &Regex, text: &'a str| {
            let name = expression.captures(text)?.get(1)?.as_str();
            (!name.is_empty()).then_some(name)
        };
        match self {
            Self::Subject(expression) => found(expression, &certificate.subject),
            Self::Uri(expression) => certificate.uris.iter().find_map(|uri| found(expression, uri)),
            Self::Passwords(_) => None,
        }
    }
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

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;

    #[test]
    fn methods_are_written_as_argocd_agent_writes_them() {
        let certificate = Certificate {
            subject: "CN=agent-a,OU=agent,O=org".to_owned(),
            common_name: "agent-a".to_owned(),
            unit: "agent".to_owned(),
            uris: vec!["https://x".to_owned(), "spiffe://domain/ns/argocd/sa/agent-u".to_owned()],
            fingerprint: String::new(),
            not_after: Timestamp::MAX,
        };
        for (text, name) in [
            ("mtls:CN=([^,]+)", Some("agent-a")),
            ("mtls:subject:CN=([^,]+)", Some("agent-a")),
            ("mtls:subject:OU=([^,]+)", Some("agent")),
            ("mtls:subject:L=([^,]+)", None),
            ("mtls:subject:CN=(x?)", None),
            ("mtls:uri:^spiffe://domain/ns/[^/]+/sa/(.+)$", Some("agent-u")),
            ("mtls:uri:^http://(.+)$", None),
        ] {
            assert_eq!(text.parse::<Method>().unwrap().name(&certificate), name, "{text}");
        }
        let file = "userpass:/etc/agents:1".parse::<Method>().unwrap();
        assert!(matches!(&file, Method::Passwords(path) if path.to_str() == Some("/etc/agents:1")));
        assert_eq!(file.name(&certificate), None);
        for (text, words) in [
            ("mtls", "no way to authenticate"),
            ("mtls:", "no way to authenticate"),
            ("header:x:(.*)", "no way to authenticate"),
            ("mtls:subject:CN=.*", "needs a group"),
            ("mtls:subject:(", "expression of mtls"),
        ] {
            let error = text.parse::<Method>().unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
