//! Plug-ins: kinds of policies that are not built in.
//!
//! A shared object is tried in a child process, which is this program with [`TRY_PLUGIN`]. So it
//! takes time to load one, or to make a policy of one: the daemon's loop does neither
//! ([`prepare`](crate::control::prepare)).

use std::fmt;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use petasos_engine::PolicyKind;
use petasos_plugin::{Mapping, Trial, Watch};

use crate::names::check_name;

/// The only argument of this program when it tries a plug-in, and does nothing else.
pub const TRY_PLUGIN: &str = "--try-plugin";

/// How long a plug-in may take to be loaded, or configured, when it is tried.
const TRIAL_LIMIT: Duration = Duration::from_secs(5);
/// The most plug-ins.
pub const PLUGINS_MAX: usize = 64;

/// A plug-in that is loaded.
pub struct Plugin {
    /// What policies call it.
    pub name: String,
    /// The file that it was loaded from.
    pub path: PathBuf,
    kind: Box<dyn PolicyKind + Send>,
    /// None for a WebAssembly module, which goes with its memory.
    watch: Option<Watch>,
}

impl Plugin {
    /// Tries a plug-in in a child process, and loads it. Waits for that.
    ///
    /// # Errors
    /// A text that says which, and what is wrong with it.
    pub fn load(name: &str, path: &Path) -> Result<Plugin, String> {
        let place = |why| format!("plug-in `{name}`, {}: {why}", path.display());
        if petasos_engines::find(name).is_some() {
            return Err(format!("plug-in `{name}`: there is a kind of that name"));
        }
        check_name(name).map_err(|form| format!("plug-in `{name}`: {form}"))?;
        let (kind, watch) = load_kind(name, path).map_err(place)?;
        Ok(Plugin { name: name.to_owned(), path: path.to_owned(), kind, watch })
    }

    /// What makes its policies.
    pub fn kind(&self) -> &dyn PolicyKind {
        &*self.kind
    }

    /// Tells whether it is mapped when it is not used any more.
    pub fn left(&self) -> Option<LeftPlugin> {
        let watch = self.watch.clone()?;
        Some(LeftPlugin { name: self.name.clone(), path: self.path.clone(), watch })
    }
}

impl fmt::Debug for Plugin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plugin").field("name", &self.name).field("path", &self.path).finish()
    }
}

/// A plug-in that was unloaded, or replaced by another version.
#[derive(Clone, Debug)]
pub struct LeftPlugin {
    /// What policies called it.
    pub name: String,
    /// The file that it was loaded from.
    pub path: PathBuf,
    watch: Watch,
}

impl LeftPlugin {
    /// Whether this has become of a plug-in, which may be there again.
    pub fn is(&self, plugin: &Plugin) -> bool {
        plugin.watch.as_ref().is_some_and(|watch| watch.is_of_same(&self.watch))
    }

    /// Whether both are of the same plug-in.
    pub fn is_same(&self, other: &LeftPlugin) -> bool {
        self.watch.is_of_same(&other.watch)
    }

    /// Whether it is still in the process's memory, and why: its policies or engines are used, or
    /// the system keeps it.
    pub fn mapping(&self) -> Mapping {
        self.watch.mapping()
    }
}

/// The plug-ins that policies can be made of.
#[derive(Clone, Debug, Default)]
pub struct Plugins(Vec<Arc<Plugin>>);

impl Plugins {
    /// Loads plug-ins, each under the name that policies call it by. Waits for their trials.
    ///
    /// # Errors
    /// A text that says which, and what is wrong with it.
    pub fn load(list: &[(String, PathBuf)]) -> Result<Plugins, String> {
        let mut plugins = Plugins::default();
        for (name, path) in list {
            if plugins.find(name).is_some() {
                return Err(format!("plug-in `{name}`: there is a kind of that name"));
            }
            plugins.put(Arc::new(Plugin::load(name, path)?))?;
        }
        Ok(plugins)
    }

    /// The plug-in of this name.
    pub fn find(&self, name: &str) -> Option<&Arc<Plugin>> {
        self.0.iter().find(|plugin| plugin.name == name)
    }

    /// Adds a plug-in, in the place of the one of its name. Gives that.
    ///
    /// # Errors
    /// There are too many.
    pub fn put(&mut self, plugin: Arc<Plugin>) -> Result<Option<Arc<Plugin>>, String> {
        if let Some(there) = self.0.iter_mut().find(|there| there.name == plugin.name) {
            return Ok(Some(std::mem::replace(there, plugin)));
        }
        if self.0.len() >= PLUGINS_MAX {
            return Err(format!("there are {PLUGINS_MAX} plug-ins, the most"));
        }
        self.0.push(plugin);
        Ok(None)
    }

    /// Removes a plug-in. Policies that are made of it stay what they are.
    pub fn take(&mut self, name: &str) -> Option<Arc<Plugin>> {
        let index = self.0.iter().position(|plugin| plugin.name == name)?;
        Some(self.0.remove(index))
    }

    /// All, in the order in which they were added.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Plugin>> {
        self.0.iter()
    }
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

type Kind = (Box<dyn PolicyKind + Send>, Option<Watch>);

fn load_kind(name: &str, path: &Path) -> Result<Kind, String> {
    if path.extension().is_some_and(|extension| extension == "wasm" || extension == "wat") {
        return load_module(name, path);
    }
    check_owner(path)?;
    // The program that runs, even if its file has been replaced since.
    let (program, arguments) = ("/proc/self/exe".into(), vec![TRY_PLUGIN.into()]);
    let trial = Trial { program, arguments, limit: TRIAL_LIMIT };
    match petasos_plugin::Plugin::load(path, trial) {
        Ok(plugin) => {
            let watch = plugin.watch();
            Ok((Box::new(plugin), Some(watch)))
        }
        Err(error) => Err(error.to_string()),
    }
}

/// A shared object may do whatever the service may: nobody else may have written it.
fn check_owner(path: &Path) -> Result<(), String> {
    // One that is not there is told of when it is read.
    let Ok(file) = std::fs::metadata(path) else { return Ok(()) };
    let own = rustix::process::geteuid().as_raw();
    if file.uid() != 0 && file.uid() != own {
        return Err(format!("it belongs to user {}, not to root or this service's", file.uid()));
    }
    match file.mode() & 0o002 {
        0 => Ok(()),
        _ => Err("every user can write it: take that right away".to_owned()),
    }
}

#[cfg(feature = "wasm")]
fn load_module(name: &str, path: &Path) -> Result<Kind, String> {
    match petasos_plugin::WasmKind::load(name, path) {
        Ok(kind) => Ok((Box::new(kind), None)),
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
            Plugins::load(&[(name.to_owned(), path.into())]).expect_err("it is refused")
        };
        assert_eq!(load("access", "x.so"), "plug-in `access`: there is a kind of that name");
        let why = load("mine", "/nowhere/x.so");
        assert!(why.starts_with("plug-in `mine`, /nowhere/x.so: the file cannot be read"), "{why}");
        assert!(load("mine", "/nowhere/x.wasm").starts_with("plug-in `mine`, /nowhere/x.wasm: "));
        assert!(load("my own", "/nowhere/x.so").contains("a name has 1 to 64"));
    }

    #[test]
    fn what_others_can_write_is_not_loaded() {
        use std::os::unix::fs::PermissionsExt as _;
        let path = std::env::temp_dir().join(format!("petasosd-{}.so", std::process::id()));
        std::fs::write(&path, "").expect("there is room");
        let with = |mode: u32| {
            let permissions = std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(&path, permissions).expect("it is this user's");
            check_owner(&path)
        };
        assert_eq!(with(0o755), Ok(()));
        assert!(with(0o757).is_err_and(|why| why.contains("every user can write it")));
        std::fs::remove_file(&path).expect("it is this user's");
    }
}
