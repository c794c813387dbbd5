//! The configuration: options of the command line, and a file that has the same and more.
//!
//! A key of the file is the long name of an option, so that each option has one meaning, one check
//! and one place where it is documented. What the command line says of an option replaces what the
//! file says. What no option has, policies and quotas, are tables of the file ([`tables`]).
//!
//! # Invariants
//! - What is read again is checked whole before anything changes.
//! - Options that take effect when the service starts ([`LIVE`] has the others) do not differ in
//!   what is read again: that is an error which names them.

mod arguments;
mod tables;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use clap::parser::ValueSource;
use clap::{CommandFactory, FromArgMatches};
use petasos_etcd::Follower;

use crate::names::Names;
use crate::options::Options;
use crate::plugins::{Plugin, Plugins};
use crate::policies::{self, Before, Rule};
use crate::quotas::Quotas;
use crate::source::Source;
use crate::transport::{ApplicationTransport, Peers};
use arguments::Arguments;
use tables::Tables;

/// The options that can change while the service runs.
const LIVE: [&str; 5] = ["application", "believe", "peer", "plugin", "policies"];

/// What a process is to do.
pub struct Configuration {
    /// The options, wherever they are from.
    pub options: Options,
    tables: Option<Tables>,
    /// What the file says of options that take effect when the service starts.
    fixed: BTreeMap<String, Vec<OsString>>,
    /// What the file has.
    text: String,
}

/// What can change while the service runs.
pub struct Live {
    /// Of which policies can be made.
    pub plugins: Plugins,
    /// The rule set. None if none was configured.
    pub rules: Option<Vec<Rule>>,
    /// The rest, if there is a configuration file.
    pub whole: Option<Whole>,
}

/// What a configuration file says besides policies and plug-ins.
pub struct Whole {
    /// Who may attach under which name.
    pub names: Names,
    /// What applications may have.
    pub quotas: Quotas,
    /// Other hosts.
    pub peers: Peers,
    /// Applications that have transports of their own.
    pub transports: Vec<ApplicationTransport>,
}

/// Why there is no configuration.
pub enum NotConfigured {
    /// The command line is wrong, or asks for a text about it.
    CommandLine(clap::Error),
    /// The file is.
    File(String),
}

impl Configuration {
    /// Reads the command line, and the file that it names: that is this text, if one is given.
    ///
    /// # Errors
    /// See [`NotConfigured`].
    pub fn read(arguments: &[OsString], text: Option<&str>) -> Result<Self, NotConfigured> {
        let matches = Options::command().try_get_matches_from(arguments);
        let matches = matches.map_err(NotConfigured::CommandLine)?;
        let options = Options::from_arg_matches(&matches).map_err(NotConfigured::CommandLine)?;
        let Some(source) = options.config.clone() else {
            check(&options).map_err(NotConfigured::File)?;
            let (fixed, text) = Default::default();
            return Ok(Configuration { options, tables: None, fixed, text });
        };
        let text = match text {
            Some(text) => text.to_owned(),
            None => source.read(options.security.plaintext).map_err(NotConfigured::File)?,
        };
        let merged = merged(text, &matches, arguments);
        merged.map_err(|wrong| NotConfigured::File(format!("{source}: {wrong}")))
    }

    /// Applications that have transports of their own.
    pub fn transports(&self) -> Vec<ApplicationTransport> {
        self.tables.as_ref().map_or(Vec::new(), |tables| tables.transports.clone())
    }

    /// The same, with no policies and plug-ins.
    pub fn without_policies(mut self) -> Configuration {
        self.options.policies = None;
        self.options.plugin.clear();
        self.tables = self.tables.map(|tables| Tables { policies: None, ..tables });
        self
    }

    /// What the service begins with. Waits for the trials of plug-ins and their policies.
    ///
    /// # Errors
    /// A text that says what is wrong.
    pub fn begin(self) -> Result<Live, String> {
        let plugins = Plugins::load(&self.options.plugin)?;
        let names = Names::new(self.options.application.clone());
        let (peers, transports) = (self.options.peers(), Vec::new());
        let mut live = self.live(Before { plugins: &plugins, rules: &[] })?;
        let quotas = Quotas::default();
        live.whole.get_or_insert(Whole { names, quotas, peers, transports });
        Ok(live)
    }

    /// What can change while the service runs. `before` is what there is. Waits for the trials of
    /// plug-ins and their policies.
    ///
    /// # Errors
    /// A text that says what is wrong.
    pub fn live(self, before: Before<'_>) -> Result<Live, String> {
        let transports = self.transports();
        let Configuration { options, tables, .. } = self;
        let plugins = match tables {
            Some(_) => wanted(&options.plugin, before.plugins)?,
            None => before.plugins.clone(),
        };
        let before = Before { plugins: &plugins, ..before };
        let (lines, quotas, applications) = match tables {
            Some(Tables { policies, quotas, applications, .. }) => {
                (policies, Some(quotas), applications)
            }
            None => (None, None, Vec::new()),
        };
        let rules = match (&options.policies, lines) {
            (Some(path), _) => Some(policies::read(path, before)?),
            (None, Some(lines)) => Some(policies::rules(lines, before)?),
            (None, None) => None,
        };
        let whole = quotas.map(|quotas| {
            let names = [options.application.clone(), applications].concat();
            Whole { names: Names::new(names), quotas, peers: options.peers(), transports }
        });
        Ok(Live { plugins, rules, whole })
    }
}

/// The plug-ins that a configuration names: those that are there, if they are from the same file.
fn wanted(list: &[(String, PathBuf)], before: &Plugins) -> Result<Plugins, String> {
    let mut plugins = Plugins::default();
    for (name, path) in list {
        if plugins.find(name).is_some() {
            return Err(format!("plug-in `{name}` is given twice"));
        }
        let there = before.find(name).filter(|there| there.path == *path).cloned();
        let plugin = match there {
            Some(there) => there,
            None => Arc::new(Plugin::load(name, path)?),
        };
        plugins.put(plugin)?;
    }
    Ok(plugins)
}

/// Whoever could have the name of an application with a transport of its own would have that, too.
fn check_proved(options: &Options, tables: &Tables) -> Result<(), String> {
    let is_listed = |application: &str| {
        let mut listed = options.application.iter().chain(&tables.applications);
        listed.any(|(name, _)| name == application)
    };
    match tables.transports.iter().find(|its| !is_listed(&its.application)) {
        Some(ApplicationTransport { application, .. }) => Err(format!(
            "`application.{application}.transport`: anybody could attach as this application: give \
             its `accounts`"
        )),
        None => Ok(()),
    }
}

/// What an option needs besides, wherever that is said.
fn check(options: &Options) -> Result<(), String> {
    match options.metrics_plaintext && options.metrics.is_none() {
        true => Err("--metrics-plaintext says nothing without --metrics".to_owned()),
        false => Ok(()),
    }
}

/// The options of the command line, and those of a file's text that it does not have.
fn merged(
    text: String,
    matches: &clap::ArgMatches,
    arguments: &[OsString],
) -> Result<Configuration, String> {
    let mut table: toml::Table =
        text.parse().map_err(|error: toml::de::Error| error.to_string())?;
    let mut tables = Tables::take(&mut table)?;
    if matches.value_source("application") == Some(ValueSource::CommandLine) {
        // As with any option: the command line replaces what the file says.
        tables.applications.clear();
    }
    let Arguments { list, mut fixed } = Arguments::of(&table, matches)?;
    fixed.retain(|key, _| !LIVE.contains(&&**key));
    let (program, given) = arguments.split_at(arguments.len().min(1));
    let all = [program, &list, given].concat();
    let options = Options::command().try_get_matches_from(all);
    let options = options.and_then(|matches| Options::from_arg_matches(&matches));
    let options = options.map_err(|error| arguments::explain(&error))?;
    check(&options)?;
    check_proved(&options, &tables)?;
    // The command line may have a file of policies: `live` knows which of the two counts.
    Ok(Configuration { options, tables: Some(tables), fixed, text })
}

/// Reads the configuration again.
pub struct Reader {
    arguments: Vec<OsString>,
    fixed: BTreeMap<String, Vec<OsString>>,
    file: Option<String>,
    source: Option<Source>,
    plaintext: bool,
    /// What was there when the service began, if that is in force.
    text: Option<String>,
}

impl Reader {
    /// For the configuration that this command line has led to.
    pub fn new(arguments: Vec<OsString>, configuration: &Configuration) -> Reader {
        let options = &configuration.options;
        let policies = || options.policies.as_ref().map(|path| path.display().to_string());
        let (source, text) = (options.config.clone(), Some(configuration.text.clone()));
        let file = source.as_ref().map(Source::to_string).or_else(policies);
        let (fixed, plaintext) = (configuration.fixed.clone(), options.security.plaintext);
        Reader { arguments, fixed, file, source, plaintext, text }
    }

    /// The same, for a process that goes on with what another one had in force.
    pub fn after_takeover(self) -> Reader {
        Reader { text: None, ..self }
    }

    /// What is read again: a file, or a key of etcd.
    pub fn file(&self) -> Option<&str> {
        self.file.as_deref()
    }

    /// What follows the configuration, if it is in etcd.
    ///
    /// # Errors
    /// A text that says what is wrong with the target or the environment.
    pub fn follow(&self) -> Result<Option<Follower>, String> {
        let key = self.source.as_ref().map(|source| source.key(self.plaintext)).transpose()?;
        Ok(key.flatten().map(|key| key.follow(self.text.clone().map(String::into_bytes))))
    }

    /// What can change while the service runs, of this text or else of what is there now. Waits for
    /// etcd, and the trials of plug-ins and their policies.
    ///
    /// # Errors
    /// A text that says what is wrong.
    pub fn read(&self, text: Option<&str>, before: Before<'_>) -> Result<Live, String> {
        let read = Configuration::read(&self.arguments, text);
        let read = read.map_err(|error| error.to_string())?;
        let keys = self.fixed.keys().chain(read.fixed.keys());
        let mut differ: Vec<&str> = keys
            .filter(|key| self.fixed.get(*key) != read.fixed.get(*key))
            .map(String::as_str)
            .collect();
        differ.sort_unstable();
        differ.dedup();
        if !differ.is_empty() {
            return Err(format!(
                "`{}` cannot change while the service runs: restart it, or let a new process take \
                 over (`petasos ctl upgrade`)",
                differ.join("`, `")
            ));
        }
        read.live(before)
    }
}

impl std::fmt::Display for NotConfigured {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            NotConfigured::CommandLine(error) => f.write_str(&arguments::explain(error)),
            NotConfigured::File(error) => f.write_str(error),
        }
    }
}

#[cfg(test)]
mod tests;
