//! Kinds of policies: those that come with the service, and plug-ins of the operator.
//!
//! A shared object is tried in a child process, which is this program with [`TRY_PLUGIN`].

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use petasos_engine::PolicyKind;
use petasos_plugin::{Plugin, Trial};

/// The only argument of this program when it tries a plug-in, and does nothing else.
pub const TRY_PLUGIN: &str = "--try-plugin";

/// How long a plug-in may take to be loaded, or configured, when it is tried.
const TRIAL_LIMIT: Duration = Duration::from_secs(5);

type Kind = Box<dyn PolicyKind + Send>;
type Kinds = Vec<(String, Kind)>;

/// Loaded once, before there are policies, and kept for as long as the process runs.
static PLUGINS: OnceLock<Kinds> = OnceLock::new();

/// Loads plug-ins, each under the name that policies call it by. To be called once.
///
/// # Errors
/// A text that says which, and what is wrong with it.
pub fn load(plugins: &[(String, PathBuf)]) -> Result<(), String> {
    let loaded = load_all(plugins)?;
    PLUGINS.set(loaded).map_err(|_| "plug-ins are loaded once".to_owned())
}

fn load_all(plugins: &[(String, PathBuf)]) -> Result<Kinds, String> {
    let mut kinds = Kinds::new();
    for (name, path) in plugins {
        let is_known = kinds.iter().any(|(known, _)| known == name);
        if is_known || petasos_engines::find(name).is_some() {
            return Err(format!("plug-in `{name}`: there is a kind of that name"));
        }
        let plugin = load_one(name, path);
        let place = |why| format!("plug-in `{name}`, {}: {why}", path.display());
        kinds.push((name.clone(), plugin.map_err(place)?));
    }
    Ok(kinds)
}

/// The plug-in of this name, and the name. Making a policy of it waits for a child process: the
/// daemon's loop must not.
pub fn find(name: &str) -> Option<(&'static str, &'static dyn PolicyKind)> {
    let (name, kind) = PLUGINS.get()?.iter().find(|(known, _)| known == name)?;
    Some((name, &**kind))
}

/// What `--plugin` is given.
///
/// # Errors
/// What it should be.
pub fn parse_plugin(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, path)) if !name.is_empty() && !path.is_empty() => {
            Ok((name.to_owned(), path.into()))
        }
        _ => Err("a plug-in is given as NAME=PATH".to_owned()),
    }
}

fn load_one(name: &str, path: &Path) -> Result<Kind, String> {
    if path.extension().is_some_and(|extension| extension == "wasm" || extension == "wat") {
        return load_module(name, path);
    }
    // The program that runs, even if its file has been replaced since.
    let (program, arguments) = ("/proc/self/exe".into(), vec![TRY_PLUGIN.into()]);
    let trial = Trial { program, arguments, limit: TRIAL_LIMIT };
    match Plugin::load(path, trial) {
        Ok(plugin) => Ok(Box::new(plugin)),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(feature = "wasm")]
fn load_module(name: &str, path: &Path) -> Result<Kind, String> {
    match petasos_plugin::WasmKind::load(name, path) {
        Ok(kind) => Ok(Box::new(kind)),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(not(feature = "wasm"))]
fn load_module(_: &str, _: &Path) -> Result<Kind, String> {
    Err("this petasosd was built without WebAssembly (cargo feature `wasm`)".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plugins_are_given_by_name_and_path() {
        let parsed = parse_plugin("mine=/a=b.so");
        assert_eq!(parsed, Ok(("mine".to_owned(), PathBuf::from("/a=b.so"))));
        for wrong in ["", "mine", "=x", "mine="] {
            assert!(parse_plugin(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_cannot_be_loaded_is_told_with_its_name() {
        let load = |name: &str, path: &str| {
            load_all(&[(name.to_owned(), path.into())]).err().expect("it is refused")
        };
        assert_eq!(load("access", "x.so"), "plug-in `access`: there is a kind of that name");
        let why = load("mine", "/nowhere/x.so");
        assert!(why.starts_with("plug-in `mine`, /nowhere/x.so: the file cannot be read"), "{why}");
        assert!(load("mine", "/nowhere/x.wasm").starts_with("plug-in `mine`, /nowhere/x.wasm: "));
    }
}
