//! `thane tokens`.

use clap::{Args, Subcommand};
use http::{Method, StatusCode};
use hyper::body::Bytes;
use serde_json::{Value, json};
use thane_api::code;

use super::{Column, Form, Listing, Reach, segment, text};
use crate::failure::Failure;
use crate::output::{Structured, pairs, print, print_structured, tell};

/// Make, list, show and delete access tokens
#[derive(Debug, Subcommand)]
pub(crate) enum Tokens {
    Create(Create),
    List(List),
    Show(Show),
    Delete(Delete),
}

/// Make a token and write its secret to stdout; it cannot be shown again
///
/// As long as there are no tokens nobody is asked for one. From the first on, what no rule allows is denied; so the first
/// has to allow making others: --policy global-management, or --allow acl=write.
#[derive(Debug, Args)]
pub(crate) struct Create {
    /// What it is for
    #[arg(long, value_name = "TEXT", default_value = "")]
    description: String,
    /// What it may do, as KIND=LEVEL, KIND:NAME=LEVEL or `KIND_prefix:BEGINNING=LEVEL`; may be repeated
    ///
    /// Kinds are key, service, node, session, event and agent, and without a name operator and acl; levels are read, write
    /// and deny.
    #[arg(long, value_name = "RULE")]
    allow: Vec<String>,
    /// Policy it has, by name; may be repeated
    #[arg(long, value_name = "NAME")]
    policy: Vec<String>,
    /// Service it registers; may be repeated
    #[arg(long, value_name = "NAME")]
    service: Vec<String>,
    /// How long it lasts, such as 90m or 24h, at least a minute; it does not expire without
    #[arg(long, value_name = "TIME")]
    expires_in: Option<String>,
    /// Form of the output: the whole token
    #[arg(short, long, value_name = "FORM")]
    output: Option<Structured>,
    #[command(flatten)]
    reach: Reach,
}

/// List tokens; secrets are not shown
#[derive(Debug, Args)]
pub(crate) struct List {
    #[command(flatten)]
    listing: Listing,
}

/// Show a token and what it may do
#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Id of the token, which is not its secret
    id: String,
    #[command(flatten)]
    listing: Listing,
}

/// Delete a token; whoever has it is refused at once
#[derive(Debug, Args)]
pub(crate) struct Delete {
    /// Id of the token, which is not its secret
    id: String,
    #[command(flatten)]
    reach: Reach,
}

const COLUMNS: [Column; 7] = [
    Column { heading: "ID", wide: false, cell: |row| text(row, "/AccessorID") },
    Column { heading: "DESCRIPTION", wide: false, cell: |row| text(row, "/Description") },
    Column { heading: "POLICIES", wide: false, cell: |row| named(row, "Policies", "Name") },
    Column { heading: "SERVICES", wide: false, cell: |row| named(row, "ServiceIdentities", "ServiceName") },
    Column { heading: "RULES", wide: true, cell: |row| rules(row).join("; ") },
    Column { heading: "CREATED", wide: true, cell: |row| text(row, "/CreateTime") },
    Column { heading: "EXPIRES", wide: true, cell: |row| text(row, "/ExpirationTime") },
];

fn named(row: &Value, list: &str, name: &str) -> String {
    let names = row[list].as_array().into_iter().flatten().filter_map(|item| item[name].as_str());
    names.collect::<Vec<_>>().join(",")
}

fn rules(row: &Value) -> Vec<String> {
    row["Rules"].as_str().into_iter().flat_map(str::lines).map(str::to_owned).collect()
}

impl Tokens {
    pub(crate) async fn run(self) -> Result<(), Failure> {
        match self {
            Self::Create(command) => command.run().await,
            Self::List(command) => command.run().await,
            Self::Show(command) => command.run().await,
            Self::Delete(command) => command.run().await,
        }
    }
}

impl Create {
    async fn run(self) -> Result<(), Failure> {
        let rules = self.allow.iter().map(|rule| written(rule)).collect::<Result<String, Failure>>()?;
        let mut body = json!({
            "Description": self.description,
            "Rules": rules,
            "Policies": self.policy.iter().map(|name| json!({"Name": name})).collect::<Vec<_>>(),
            "ServiceIdentities": self.service.iter().map(|name| json!({"ServiceName": name})).collect::<Vec<_>>(),
        });
        if let Some(time) = &self.expires_in {
            body["ExpirationTTL"] = json!(time);
        }
        let made = self.reach.put("/v1/acl/token", body.to_string()).await?;
        if let Some(form) = self.output {
            return print_structured(&made, form);
        }
        tell(&format!("made {}; its secret is shown only now", text(&made, "/AccessorID")));
        print(&format!("{}\n", text(&made, "/SecretID")))
    }
}

/// A rule in the words of the API.
pub(super) fn written(rule: &str) -> Result<String, Failure> {
    let wrong = || {
        Failure::new(code::USAGE, format!("{rule} is no rule"))
            .with_hint("rules look like key_prefix:app/=write, service:web=read or acl=write")
    };
    let (what, level) = rule.rsplit_once('=').ok_or_else(wrong)?;
    let is_word = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_');
    let (kind, name) = what.split_once(':').map_or((what, None), |(kind, name)| (kind, Some(name)));
    if !is_word(kind) || !is_word(level) {
        return Err(wrong());
    }
    Ok(match name {
        // JSON's text is HCL's too.
        Some(name) => format!("{kind} {} {{ policy = \"{level}\" }}\n", Value::from(name)),
        None => format!("{kind} = \"{level}\"\n"),
    })
}

impl List {
    async fn run(self) -> Result<(), Failure> {
        let rows = self.listing.reach.get("/v1/acl/tokens").await?;
        self.listing.show(&rows, &COLUMNS, "no tokens: nobody is asked for one")
    }
}

impl Show {
    async fn run(self) -> Result<(), Failure> {
        let token = self.listing.reach.get(&format!("/v1/acl/token/{}", segment(&self.id))).await?;
        match self.listing.output {
            Some(Form::Json) => return print_structured(&token, Structured::Json),
            Some(Form::Yaml) => return print_structured(&token, Structured::Yaml),
            Some(Form::Wide) | None => {}
        }
        let mut lines: Vec<(&str, String)> = COLUMNS
            .iter()
            .filter(|column| column.heading != "RULES")
            .map(|column| (column.heading, (column.cell)(&token)))
            .filter(|(_, value)| !value.is_empty())
            .collect();
        lines.extend(rules(&token).into_iter().map(|rule| ("RULE", rule)));
        print(&pairs(&lines))
    }
}

impl Delete {
    async fn run(self) -> Result<(), Failure> {
        let path = format!("/v1/acl/token/{}", segment(&self.id));
        let answer = self.reach.ask(Method::DELETE, &path, Bytes::new()).await?;
        if answer.status == StatusCode::NOT_FOUND {
            return Err(Failure::new(code::DISCOVERY_ABSENT, format!("there is no token {}", self.id)));
        }
        tell(&format!("deleted {}", self.id));
        Ok(())
    }
}
