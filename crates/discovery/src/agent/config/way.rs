//! How hubs may be called: over TLS, and without it only on this machine.

use std::net::IpAddr;
use std::path::Path;

use thane_runtime::pki::store::Paths;
use thane_runtime::tls::ClientFiles;

use super::{Error, Tls};
use crate::agent::dial::host_and_port;

/// The words of the file.
const WORDS: [&str; 3] = ["agent.tls.client_cert", "agent.tls.client_key", "agent.tls.ca_cert"];

impl Tls {
    /// The certificates it names, if hubs are called over TLS with some of its own.
    pub fn files(&self) -> Result<Option<ClientFiles>, Error> {
        if !self.enabled {
            return Ok(None);
        }
        let paths = [&self.client_cert, &self.client_key, &self.ca_cert];
        files(WORDS, paths.map(Option::as_deref))
    }
}

/// A certificate, its key and the authorities of hubs: all of them, or none. `words` is what each is called where it is
/// given.
pub fn files(words: [&str; 3], paths: [Option<&Path>; 3]) -> Result<Option<ClientFiles>, Error> {
    match paths {
        [None, None, None] => Ok(None),
        [Some(cert), Some(key), Some(ca)] => {
            let identity = Paths { cert: cert.to_owned(), key: key.to_owned() };
            Ok(Some(ClientFiles { ca: ca.to_owned(), identity: Some(identity) }))
        }
        some => {
            let missing = words.into_iter().zip(some).filter(|(_, path)| path.is_none()).map(|(word, _)| word);
            Err(Error::Certificates(missing.collect::<Vec<_>>().join(" and ")))
        }
    }
}

/// Hubs as they are written on a command line: separated by commas, each with a port of its own or this one.
pub fn hubs(text: &str, port: u16) -> Result<Vec<String>, Error> {
    let hub = |address: &str| {
        let (host, port) = host_and_port(address, Some(port)).ok_or_else(|| Error::Address(address.to_owned()))?;
        Ok(if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") })
    };
    text.split(',').map(str::trim).filter(|address| !address.is_empty()).map(hub).collect()
}

/// Refuses hubs that are not on this machine, for who has nothing to call them over TLS with.
pub fn only_here(hubs: &[String]) -> Result<(), Error> {
    match far(hubs)? {
        Some((host, _)) => Err(Error::Plaintext(host)),
        None => Ok(()),
    }
}

/// The first hub that is not on this machine.
pub fn far(hubs: &[String]) -> Result<Option<(String, u16)>, Error> {
    for address in hubs {
        let place = host_and_port(address, Some(1)).ok_or_else(|| Error::Address(address.clone()))?;
        if !is_here(&place.0) {
            return Ok(Some(place));
        }
    }
    Ok(None)
}

/// Whether a host is this machine, whatever the network says.
pub(in crate::agent) fn is_here(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
}

/// Refuses what a file says of hubs and certificates, if that cannot be done.
pub(super) fn check(tls: &Tls, hubs: &[String]) -> Result<(), Error> {
    if !tls.enabled {
        return only_here(hubs);
    }
    far(hubs)?;
    tls.files().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_certificates_name_those_that_are_missing() {
        let words = ["--cert", "--key", "--ca"];
        let path = Some(Path::new("x"));
        assert!(files(words, [None; 3]).unwrap().is_none());
        let all = files(words, [path; 3]).unwrap().unwrap();
        assert_eq!((all.ca.to_str(), all.identity.map(|paths| paths.key)), (Some("x"), Some("x".into())));
        for (given, missing) in [
            ([path, None, path], "--key is"),
            ([None, None, path], "--cert and --key is"),
            ([path, path, None], "--ca is"),
        ] {
            let error = files(words, given).unwrap_err().to_string();
            assert!(error.contains(missing), "{error}");
        }
    }

    #[test]
    fn hubs_are_separated_by_commas_and_have_a_port_each() {
        let read = hubs("hub-1, hub-2:9, ::1 ,[fd00::1]:7,", 8443).unwrap();
        assert_eq!(read, ["hub-1:8443", "hub-2:9", "[::1]:8443", "[fd00::1]:7"]);
        assert!(hubs("", 1).unwrap().is_empty());
        assert!(hubs("hub:port", 1).unwrap_err().to_string().contains("hub:port"));
    }

    #[test]
    fn without_certificates_hubs_are_on_this_machine() {
        let list = |hubs: &[&str]| hubs.iter().map(|hub| (*hub).to_owned()).collect::<Vec<_>>();
        assert!(only_here(&list(&["127.0.0.1:1", "localhost:2", "[::1]:3", "[::ffff:127.0.0.1]:4"])).is_ok());
        let error = only_here(&list(&["127.0.0.1:1", "10.0.0.1:2"])).unwrap_err().to_string();
        assert!(error.contains("10.0.0.1") && error.contains("only towards this machine"), "{error}");
        assert_eq!(far(&list(&["127.0.0.1:1", "hub:2"])).unwrap(), Some(("hub".to_owned(), 2)));
    }
}
