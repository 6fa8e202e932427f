//! Options of argocd-agent, taken as argocd-agent takes them.

use std::collections::BTreeSet;

use clap::Command;
use serde_json::json;
use thane_api::Exit;

use super::*;

fn given<T: Table>(arguments: &[&str]) -> Given<T> {
    let command = Given::<T>::augment_args(Command::new("role").no_binary_name(true));
    Given::from_arg_matches(&command.try_get_matches_from(arguments).unwrap()).unwrap()
}

fn pairs(said: &Said) -> Vec<(&'static str, Value)> {
    said.settings.iter().map(|setting| (setting.key, setting.value.clone())).collect()
}

#[test]
fn every_flag_of_argocd_agent_is_known_and_each_name_is_there_once() {
    fn check<T: Table>(count: usize) {
        let flags: Vec<&str> = T::WORDS.iter().map(|word| word.flag).filter(|flag| !flag.is_empty()).collect();
        assert_eq!(flags.iter().collect::<BTreeSet<_>>().len(), flags.len());
        assert!(flags.len() >= count, "{}", flags.len());
        let variables = T::WORDS.iter().map(|word| word.variable).filter(|name| !name.is_empty());
        let variables: Vec<&str> = variables.collect();
        assert_eq!(variables.iter().collect::<BTreeSet<_>>().len(), variables.len());
        for word in T::WORDS {
            assert!(!word.flag.is_empty() || !word.variable.is_empty());
        }
    }
    check::<hub::Hub>(60);
    check::<agent::Agent>(40);
}

#[test]
fn a_principal_started_by_hand() {
    let arguments = [
        "-n",
        "argocd",
        "--auth",
        "mtls:CN=([^,]+)",
        "--require-client-certs",
        "--client-cert-subject-match",
        "--allowed-namespaces",
        "*",
        "--disable-redis-proxy",
        "--redis-server-address",
        "127.0.0.1:6379",
    ];
    let said = given::<hub::Hub>(&arguments).flags(true).unwrap();
    let expected = vec![
        ("hub.namespace", json!("argocd")),
        ("hub.allowedNamespaces", json!(["*"])),
        ("hub.auth", json!("mtls:CN=([^,]+)")),
        ("hub.certificates", json!("trusted")),
        ("hub.certificates", json!("matching")),
        ("hub.redis.proxy", json!(false)),
        ("hub.redis.server.address", json!("127.0.0.1:6379")),
    ];
    assert_eq!(pairs(&said), expected);
    assert!(said.idle.is_empty());
}

#[test]
fn an_agent_started_by_hand() {
    let arguments = [
        "--agent-mode=managed",
        "--creds",
        "mtls:any",
        "--server-address",
        "127.0.0.1",
        "--server-port",
        "8443",
        "--enable-compression=false",
        "--enable-resource-proxy=false",
        "--keep-alive-ping-interval",
        "1m30s",
        "--allowed-namespaces",
        "a,b",
        "--allowed-namespaces",
        "c",
        "--metrics-port",
        "9",
        "--destination-based-mapping",
    ];
    let said = given::<agent::Agent>(&arguments).flags(false).unwrap();
    let pairs = pairs(&said);
    for expected in [
        ("agent.mode", json!("managed")),
        ("agent.serverPort", json!(8443)),
        ("agent.compression", json!(false)),
        ("agent.live", json!(false)),
        ("agent.keepaliveInterval", json!("1m30s")),
        ("agent.allowedNamespaces", json!(["a", "b", "c"])),
        ("admin.address", json!("127.0.0.1:9")),
        ("agent.placement", json!("destination")),
    ] {
        assert!(pairs.contains(&expected), "{expected:?} in {pairs:?}");
    }
}

#[test]
fn passwords_need_no_certificate_with_their_defaults_and_do_with_ours() {
    let given = given::<hub::Hub>(&["--auth", "userpass:/f"]);
    let unneeded = ("hub.certificates", json!("unneeded"));
    assert!(pairs(&given.flags(true).unwrap()).contains(&unneeded));
    assert!(!pairs(&given.flags(false).unwrap()).contains(&unneeded));
}

#[test]
fn variables_are_read_and_addresses_of_services_are_not() {
    let environment = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    };
    let set = environment(&[
        ("ARGOCD_AGENT_REMOTE_SERVER", "hub.example"),
        ("ARGOCD_AGENT_METRICS_PORT", "tcp://10.0.0.1:8181"),
        ("ARGOCD_AGENT_CREDS", ""),
        ("ARGOCD_AGENT_LOG_LEVEL", "warning,resource-proxy=fatal"),
        ("ARGOCD_AGENT_OTLP_ADDRESS", "x"),
    ]);
    assert!(AgentWords::is_in(&set));
    let said = AgentWords::variables(&set, true).unwrap();
    let expected = vec![("agent.server", json!("hub.example")), ("log.level", json!("warn,resource_proxy=error"))];
    assert_eq!(pairs(&said), expected);
    assert_eq!(said.idle, ["ARGOCD_AGENT_OTLP_ADDRESS"]);
    let unknown = environment(&[("ARGOCD_AGENT_PRINCIPAL_SERVICE_HOST", "10.0.0.1"), ("REDIS_PASSWORD", "x")]);
    assert!(!AgentWords::is_in(&unknown));
}

#[test]
fn what_is_refused_says_why() {
    let check = |failure: Failure, exit: Exit, words: &str| {
        assert_eq!(failure.exit(), exit);
        assert!(format!("{failure:?}").contains(words), "{failure:?}");
    };
    let hub = |arguments: &[&str]| given::<hub::Hub>(arguments).flags(true).unwrap_err();
    check(hub(&["--insecure-plaintext"]), Exit::Usage, "every connection has TLS");
    check(hub(&["--ha-enabled=true"]), Exit::Usage, "--ha-enabled");
    check(hub(&["--auth", "header:x:(.*)"]), Exit::Usage, "proves nothing");
    check(hub(&["--listen-port", "http"]), Exit::Usage, "not a number");
    assert!(given::<hub::Hub>(&["--insecure-plaintext=false"]).flags(true).unwrap().settings.is_empty());
    let agent = given::<agent::Agent>(&["--insecure-tls"]).flags(false).unwrap_err();
    check(agent, Exit::Usage, "always verified");
}

#[test]
fn durations_are_gos() {
    for (text, expected) in [("0", "0s"), ("1.5h", "1h30m"), ("250ms", "250ms"), ("1m0.5s", "1m500ms")] {
        assert_eq!(values::duration(text).unwrap(), json!(expected), "{text}");
    }
    for bad in ["", "1", "h", "1y", "1..5s", "-1s"] {
        assert!(values::duration(bad).is_err(), "{bad}");
    }
}
