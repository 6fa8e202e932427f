//! Flags and variables of the roles: argocd-agent's own words, so that a Deployment can change its image and nothing else.

mod agent;
mod hub;
mod values;

use std::marker::PhantomData;

use clap::{Arg, ArgAction, ArgMatches, Args, FromArgMatches};
use serde_json::Value;
use thane_api::code;

use crate::failure::Failure;

pub(crate) use agent::AgentWords;
pub(crate) use hub::HubWords;
pub(crate) use values::levels;

/// What settings a value means: keys and their values.
type Assigned = Vec<(&'static str, Value)>;
/// Reads a value that means something else than it says; the switch is whether argocd-agent's defaults are in force.
type Reading = fn(&str, bool) -> Result<Assigned, String>;

/// One option: a flag, a variable, or both.
#[derive(Debug)]
pub(crate) struct Word {
    flag: &'static str,
    variable: &'static str,
    help: &'static str,
    is_switch: bool,
    meaning: Meaning,
}

#[derive(Debug, Clone, Copy)]
enum Meaning {
    Text(&'static str),
    List(&'static str),
    Number(&'static str),
    Switch(&'static str),
    Duration(&'static str),
    Read(Reading),
    /// Accepted, and of no effect here.
    Idle,
    /// Not accepted when it is switched on, and why.
    Refused(&'static str),
}

/// The options of one role.
pub(crate) trait Table {
    /// All of them; of two that set the same, the later one counts.
    const WORDS: &'static [Word];
}

/// Flags of a role as they were given.
#[derive(Debug, Clone)]
pub(crate) struct Given<T> {
    values: Vec<(&'static Word, String)>,
    table: PhantomData<T>,
}

/// One value in force, and where it is from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Setting {
    pub(crate) key: &'static str,
    pub(crate) value: Value,
    /// The flag's name without dashes, or the variable's.
    pub(crate) name: &'static str,
}

/// What options say.
#[derive(Debug, Clone, Default)]
pub(crate) struct Said {
    pub(crate) settings: Vec<Setting>,
    /// Names that were given and are of no effect here.
    pub(crate) idle: Vec<&'static str>,
}

impl Word {
    const fn new(flag: &'static str, variable: &'static str, help: &'static str, meaning: Meaning) -> Self {
        let is_switch = matches!(meaning, Meaning::Switch(_) | Meaning::Refused(_));
        Self { flag, variable, help, is_switch, meaning }
    }

    const fn switched(mut self) -> Self {
        self.is_switch = true;
        self
    }

    const fn idle(flag: &'static str, variable: &'static str) -> Self {
        Self::new(flag, variable, "", Meaning::Idle)
    }

    const fn refused(flag: &'static str, variable: &'static str, why: &'static str) -> Self {
        Self::new(flag, variable, "", Meaning::Refused(why))
    }

    fn argument(&'static self) -> Option<Arg> {
        if self.flag.is_empty() {
            return None;
        }
        let mut argument = Arg::new(self.flag).long(self.flag).value_name(self.value_name());
        argument = if self.help.is_empty() { argument.hide(true) } else { argument.help(self.help) };
        if self.flag == "namespace" {
            argument = argument.short('n');
        }
        if self.is_switch {
            argument =
                argument.num_args(0..=1).require_equals(true).default_missing_value("true").hide_default_value(true);
        }
        Some(argument.action(ArgAction::Append).help_heading("Role"))
    }

    fn value_name(&self) -> &'static str {
        match self.meaning {
            Meaning::Number(_) => "NUMBER",
            Meaning::Duration(_) => "DURATION",
            Meaning::List(_) => "LIST",
            Meaning::Switch(_) => "BOOL",
            _ if self.is_switch => "BOOL",
            _ => "VALUE",
        }
    }

    /// What a value of this option sets.
    fn read(&self, text: &str, upstream: bool) -> Result<Assigned, String> {
        let one = |key, value| Ok(vec![(key, value)]);
        match self.meaning {
            Meaning::Text(key) => one(key, text.into()),
            Meaning::List(key) => one(key, values::list(text)),
            Meaning::Number(key) => one(key, values::number(text)?),
            Meaning::Switch(key) => one(key, values::switch(text)?.into()),
            Meaning::Duration(key) => one(key, values::duration(text)?),
            Meaning::Read(read) => read(text, upstream),
            Meaning::Refused(why) if values::switch(text)? => Err(why.to_owned()),
            Meaning::Refused(_) | Meaning::Idle => Ok(Vec::new()),
        }
    }

    fn say(&self, name: &'static str, text: &str, upstream: bool, said: &mut Said) -> Result<(), Failure> {
        if matches!(self.meaning, Meaning::Idle) {
            said.idle.push(name);
        }
        let assigned = self.read(text, upstream).map_err(|why| {
            let code = match self.meaning {
                Meaning::Refused(_) => code::OPTION_REFUSED,
                _ => code::USAGE,
            };
            let dashes = if name == self.flag { "--" } else { "" };
            Failure::new(code, format!("{dashes}{name}: {why}"))
        })?;
        said.settings.extend(assigned.into_iter().map(|(key, value)| Setting { key, value, name }));
        Ok(())
    }
}

impl<T: Table> Given<T> {
    /// What the flags say.
    pub(crate) fn flags(&self, upstream: bool) -> Result<Said, Failure> {
        let mut said = Said::default();
        for (word, text) in &self.values {
            word.say(word.flag, text, upstream, &mut said)?;
        }
        Ok(said)
    }

    /// Whether any variable of argocd-agent for this role is set.
    pub(crate) fn is_in(environment: &[(String, String)]) -> bool {
        let names = |word: &Word| word.variable.starts_with("ARGOCD_") && find(environment, word).is_some();
        T::WORDS.iter().any(names)
    }

    /// What variables of argocd-agent say about the role.
    pub(crate) fn variables(environment: &[(String, String)], upstream: bool) -> Result<Said, Failure> {
        let mut said = Said::default();
        for word in T::WORDS {
            if let Some(text) = find(environment, word) {
                word.say(word.variable, text, upstream, &mut said)?;
            }
        }
        Ok(said)
    }
}

/// The value of an option's variable, if it is set.
fn find<'a>(environment: &'a [(String, String)], word: &Word) -> Option<&'a str> {
    let found = environment.iter().find(|(name, _)| !name.is_empty() && name == word.variable);
    found.map(|(_, text)| text.as_str()).filter(|text| is_set(text))
}

/// Kubernetes puts the address of each Service into variables that may be called like ours.
fn is_set(text: &str) -> bool {
    !text.is_empty() && !text.starts_with("tcp://") && !text.starts_with("udp://")
}

impl<T: Table> FromArgMatches for Given<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut values = Vec::new();
        for word in T::WORDS.iter().filter(|word| !word.flag.is_empty()) {
            let Some(given) = matches.get_many::<String>(word.flag) else { continue };
            let given: Vec<&str> = given.map(String::as_str).collect();
            let text = match word.meaning {
                Meaning::List(_) => given.join(","),
                _ => given.last().copied().unwrap_or_default().to_owned(),
            };
            values.push((word, text));
        }
        Ok(Self { values, table: PhantomData })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl<T: Table> Args for Given<T> {
    fn augment_args(command: clap::Command) -> clap::Command {
        command.args(T::WORDS.iter().filter_map(Word::argument))
    }

    fn augment_args_for_update(command: clap::Command) -> clap::Command {
        Self::augment_args(command)
    }
}

#[cfg(test)]
mod tests;
