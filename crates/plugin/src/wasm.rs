//! Policies of tenants as WebAssembly modules, in an interpreter that counts what they do.
//!
//! `include/petasos_plugin_wasm.md` documents what a module exports and may import.
//!
//! # Invariants
//!
//! - Each engine has an instance of its own, with its own memory: engines share nothing.
//! - Every call into a module has so much *fuel*, which its instructions and what it asks of the
//!   service use up: there is no call that does not end. Nothing else bounds time, and no thread or
//!   clock is needed for it.
//! - A pointer or a length outside of the module's memory ends the call.
//! - A module that was cut off is never called again. The rule of its policy says whether calls
//!   pass without it, until the policy is replaced.

mod data;
mod engine;
mod imports;
mod instance;

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use petasos_engine::{Engine, Policy, PolicyError, PolicyKind, State, Version};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value as Json, json};
use thiserror::Error;

use crate::name::{self, NameError};
use crate::sample;
use engine::WasmEngine;
use instance::{Code, Instance, Limits, Refusal};

/// A module's file has at most so many bytes.
pub const MODULE_BYTES_MAX: u64 = 4 << 20;
/// What a module may use to be made, to be told of a method, or to save its state, in fuel.
pub const MAKING_FUEL: u64 = 10_000_000;

const FUEL_MAX: u64 = MAKING_FUEL;
/// WebAssembly's page, and as much as a policy may give to each engine.
const MEMORY_BYTES: std::ops::RangeInclusive<usize> = 64 << 10..=64 << 20;

/// A module that is not loaded: the tenant's fault, except for [`WasmError::Read`].
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum WasmError {
    /// Its file cannot be read: the operator's fault.
    #[error("the file cannot be read: {0}")]
    Read(std::io::Error),
    /// Its file is longer than [`MODULE_BYTES_MAX`].
    #[error("the file has more than {MODULE_BYTES_MAX} bytes")]
    TooLong,
    /// Its kind's name cannot be used.
    #[error("the name cannot be used: {0}")]
    Name(#[from] NameError),
    /// It is no module, or asks for what the service does not have, or lacks something.
    #[error("the module cannot be used: {0}")]
    Module(String),
    /// It is of another version of the interface.
    #[error("the module is of version {found} of the interface, this service has {ours}")]
    Version {
        /// The module's.
        found: u32,
        /// The service's.
        ours: u32,
    },
}

/// A WebAssembly module, as a kind of policy.
pub struct WasmKind {
    name: &'static str,
    code: Arc<Code>,
}

/// What a configuration says; the module sees `configuration` only.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Configuration {
    #[serde(default)]
    on_failure: Rule,
    /// For each item.
    #[serde(default = "fuel")]
    fuel: u64,
    /// Of each engine.
    #[serde(default = "memory_bytes")]
    memory_bytes: usize,
    #[serde(default)]
    configuration: Json,
}

/// What becomes of calls when the module has been cut off.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Rule {
    /// They pass.
    Open,
    /// They end with `UNAVAILABLE`.
    #[default]
    Closed,
}

fn fuel() -> u64 {
    20_000
}

fn memory_bytes() -> usize {
    1 << 20
}

/// What a policy's engines share.
struct Shared {
    name: &'static str,
    code: Arc<Code>,
    limits: Limits,
    rule: Rule,
    configuration: Arc<str>,
    failures: Mutex<Failures>,
}

/// Engines whose modules were cut off.
#[derive(Default)]
struct Failures {
    count: u64,
    last: String,
}

impl WasmKind {
    /// Reads a module, in binary or as text, and checks it. `name` names the kind.
    ///
    /// # Errors
    /// See [`WasmError`].
    pub fn load(name: &str, path: &Path) -> Result<WasmKind, WasmError> {
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(WasmError::Read)?;
        file.take(MODULE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(WasmError::Read)?;
        WasmKind::new(name, &bytes)
    }

    /// Checks a module, in binary or as text.
    ///
    /// # Errors
    /// See [`WasmError`].
    pub fn new(name: &str, module: &[u8]) -> Result<WasmKind, WasmError> {
        if module.len() as u64 > MODULE_BYTES_MAX {
            return Err(WasmError::TooLong);
        }
        let name = name::lasting(name)?;
        Ok(WasmKind { name, code: Arc::new(Code::new(module)?) })
    }

    fn wrong(&self, why: impl Into<String>) -> PolicyError {
        PolicyError::Configuration { kind: self.name.to_owned(), why: why.into() }
    }
}

impl PolicyKind for WasmKind {
    fn version(&self) -> Version {
        Version { kind: self.name, version: self.code.state_version }
    }

    /// Has an engine see a few calls: a module that fails with these is refused.
    fn make(
        &self,
        configuration: &str,
        state: Option<&State>,
    ) -> Result<Box<dyn Policy>, PolicyError> {
        let parsed: Result<Configuration, _> = serde_json::from_str(configuration);
        let Configuration { on_failure, fuel, memory_bytes, configuration } =
            parsed.map_err(|error| self.wrong(error.to_string()))?;
        if !(1..=FUEL_MAX).contains(&fuel) {
            return Err(self.wrong(format!("`fuel` must be from 1 to {FUEL_MAX}, and is {fuel}")));
        }
        if !MEMORY_BYTES.contains(&memory_bytes) {
            let (least, most) = MEMORY_BYTES.into_inner();
            let why = format!("`memory_bytes` must be from {least} to {most}");
            return Err(self.wrong(format!("{why}, and is {memory_bytes}")));
        }
        state.map_or(Ok(()), |state| state.read::<IgnoredAny>(self.version()).map(drop))?;
        let make = || Shared {
            name: self.name,
            code: Arc::clone(&self.code),
            limits: Limits { fuel, memory_bytes },
            rule: on_failure,
            configuration: configuration.to_string().into(),
            failures: Mutex::default(),
        };
        self.attempt(make())?;
        Ok(Box::new(WasmPolicy(Arc::new(make()))))
    }
}

impl WasmKind {
    fn attempt(&self, shared: Shared) -> Result<(), PolicyError> {
        let shared = Arc::new(shared);
        let policy = WasmPolicy(Arc::clone(&shared));
        policy.engine(None).map(drop)?;
        sample::run(&(Arc::new(policy) as Arc<dyn Policy>)).map_err(|why| self.wrong(why))?;
        let failures = shared.failures();
        if failures.count > 0 {
            return Err(self.wrong(format!("it fails with sample calls: {}", failures.last)));
        }
        Ok(())
    }
}

impl Shared {
    fn failures(&self) -> MutexGuard<'_, Failures> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An engine's module has been cut off.
    fn note(&self, why: String) {
        let mut failures = self.failures();
        failures.count += 1;
        failures.last = why;
    }

    fn version(&self) -> Version {
        Version { kind: self.name, version: self.code.state_version }
    }
}

struct WasmPolicy(Arc<Shared>);

impl Policy for WasmPolicy {
    fn engine(&self, state: Option<&State>) -> Result<Box<dyn Engine>, PolicyError> {
        let shared = &self.0;
        state.map_or(Ok(()), |state| state.read::<IgnoredAny>(shared.version()).map(drop))?;
        let json = state.map(|state| Arc::from(&*state.json));
        let configuration = Arc::clone(&shared.configuration);
        let instance = Instance::new(&shared.code, shared.limits, configuration, json);
        let kind = shared.name.to_owned();
        match instance {
            Ok(instance) => Ok(Box::new(WasmEngine::new(Arc::clone(shared), instance))),
            Err(Refusal::Configuration(why)) => Err(PolicyError::Configuration { kind, why }),
            Err(Refusal::State(why)) => Err(PolicyError::State { kind, why }),
        }
    }

    fn state(&self) -> State {
        let Version { kind, version } = self.0.version();
        State { kind: kind.to_owned(), version, json: "null".to_owned() }
    }

    fn report(&self) -> Json {
        let failures = self.0.failures();
        json!({"plugin": self.0.name, "failures": failures.count, "last_failure": failures.last})
    }
}
