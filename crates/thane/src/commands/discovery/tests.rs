use std::path::Path;

use clap::Parser;
use serde_json::json;

use super::client::address;
use super::services::Services;
use super::*;

#[derive(Debug, Parser)]
struct Line {
    #[command(subcommand)]
    services: Services,
}

#[test]
fn the_first_place_that_says_where_the_api_is_counts() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("endpoints.json");
    let none = |_: &str| None;
    let ours = |name: &str| (name == "THANE_DISCOVERY").then(|| "http://[::1]:1/".to_owned());
    let theirs = |name: &str| (name == "CONSUL_HTTP_ADDR").then(|| "consul.example".to_owned());
    let found = |flag, variable: &dyn Fn(&str) -> Option<String>, file: &Path| {
        address(flag, variable, file).map_err(|failure| failure.message().to_owned())
    };
    assert_eq!(found(None, &none, &file).unwrap(), "127.0.0.1:8502");
    std::fs::write(&file, r#"{"discovery": "http://127.0.0.1:99", "api": "x"}"#).unwrap();
    assert_eq!(found(None, &none, &file).unwrap(), "127.0.0.1:99");
    assert_eq!(found(None, &theirs, &file).unwrap(), "consul.example:8500");
    assert_eq!(found(None, &ours, &file).unwrap(), "[::1]:1");
    assert_eq!(found(Some("host:7"), &ours, &file).unwrap(), "host:7");
    for wrong in ["https://host:7", "unix:///run/x", "host:7/v1", "a:b:c"] {
        assert!(found(Some(wrong), &none, &file).unwrap_err().contains("is no address"), "{wrong}");
    }
}

#[test]
fn a_table_shows_what_is_asked_for() {
    let rows = [
        json!({"Name": "web", "Tags": ["a", "b"], "Meta": {"k": "v"}}),
        json!({"Name": "db", "Tags": [], "Meta": null}),
    ];
    let columns = [
        Column { heading: "NAME", wide: false, cell: |row| text(row, "/Name") },
        Column { heading: "TAGS", wide: false, cell: |row| joined(row, "/Tags") },
        Column { heading: "META", wide: true, cell: |row| joined(row, "/Meta") },
    ];
    assert_eq!(rows::table(&rows, &columns, false), "NAME   TAGS\nweb    a,b\ndb     -\n");
    assert_eq!(rows::table(&rows, &columns, true), "NAME   TAGS   META\nweb    a,b    k=v\ndb     -      -\n");
}

#[test]
fn the_worst_check_is_how_an_instance_is() {
    let status = |words: &[&str]| worst(&words.iter().map(|word| json!({"Status": word})).collect());
    assert_eq!(status(&[]), "passing");
    assert_eq!(status(&["passing", "warning"]), "warning");
    assert_eq!(status(&["critical", "warning"]), "critical");
}

#[test]
fn names_cannot_leave_their_place_in_a_path() {
    assert_eq!(segment("a/b?c d"), "a%2Fb%3Fc%20d");
    assert_eq!(path("a/b?ü"), "a/b%3F%C3%BC");
}

#[test]
fn a_registration_says_what_was_asked_for() {
    let line = ["x", "register", "web", "--id", "w1", "--port", "80", "--tag", "a", "--meta", "k=v=w", "--tcp", "h:1"];
    let Services::Register(register) = Line::parse_from(line).services else { panic!("register") };
    let wanted = json!({"Name": "web", "ID": "w1", "Port": 80, "Tags": ["a"], "Meta": {"k": "v=w"},
        "Check": {"TCP": "h:1", "Interval": "10s"}});
    assert_eq!(register.body().unwrap(), wanted);
    let Services::Register(register) = Line::parse_from(["x", "register", "web", "--meta", "k"]).services else {
        panic!("register")
    };
    assert!(register.body().unwrap_err().message().contains("KEY=VALUE"));
}
