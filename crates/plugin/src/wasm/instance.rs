//! Modules and their instances: everything that runs has its fuel set here.

use std::sync::Arc;

use petasos_plugin_abi::{ABI_VERSION, Input, OK, TEXT_BYTES_MAX, WRONG_STATE};
use wasmi::{
    CompilationMode, Config, EnforcedLimits, Error, Linker, Module, Store, StoreLimitsBuilder,
    TypedFunc, WasmParams, WasmResults,
};

use super::data::Data;
use super::{MAKING_FUEL, WasmError, imports};
use crate::context::{self, Context, Doing, Facts};

/// Entries of all tables of a module.
const TABLE_MAX: usize = 10_000;
/// What functions of a module may call each other.
const DEPTH_MAX: usize = 200;

/// A checked module.
pub(super) struct Code {
    module: Module,
    linker: Linker<Data>,
    pub(super) state_version: u32,
    /// A bit for each kind of items.
    pub(super) interests: u32,
}

/// What an instance may use.
#[derive(Clone, Copy)]
pub(super) struct Limits {
    /// For each item.
    pub(super) fuel: u64,
    pub(super) memory_bytes: usize,
}

/// An instance that is not made.
pub(super) enum Refusal {
    Configuration(String),
    State(String),
}

/// A module that runs.
pub(super) struct Instance {
    store: Store<Data>,
    fuel: u64,
    method: Option<TypedFunc<i32, i32>>,
    item: TypedFunc<(), i32>,
    decompose: Option<TypedFunc<(), ()>>,
}

impl Code {
    /// Compiles a module, and asks it what it is.
    pub(super) fn new(module: &[u8]) -> Result<Code, WasmError> {
        let mut config = Config::default();
        config.consume_fuel(true).enforced_limits(EnforcedLimits::strict());
        config.set_max_recursion_depth(DEPTH_MAX);
        // Otherwise functions are compiled when they are first called, with that call's fuel.
        config.compilation_mode(CompilationMode::Eager);
        let engine = wasmi::Engine::new(&config);
        let unusable = |error: Error| WasmError::Module(error.to_string());
        let module = Module::new(&engine, module).map_err(unusable)?;
        let linker = imports::linker(&engine).map_err(unusable)?;
        let mut code = Code { module, linker, state_version: 0, interests: 0 };
        let (mut store, instance) =
            code.start(*super::MEMORY_BYTES.end(), [None, None, None]).map_err(unusable)?;
        let mut ask = |name| {
            let function = exported::<(), i32>(&store, &instance, name)?;
            function.call(&mut store, ()).map(i32::cast_unsigned)
        };
        let found = ask("petasos_abi_version").map_err(unusable)?;
        if found != ABI_VERSION {
            return Err(WasmError::Version { found, ours: ABI_VERSION });
        }
        code.state_version = ask("petasos_state_version").map_err(unusable)?;
        code.interests = ask("petasos_interests").map_err(unusable)?;
        Functions::of(&store, &instance).map_err(unusable)?;
        Ok(code)
    }

    fn start(
        &self,
        memory_bytes: usize,
        inputs: [Option<Arc<str>>; 3],
    ) -> Result<(Store<Data>, wasmi::Instance), Error> {
        let limits = StoreLimitsBuilder::new()
            .memory_size(memory_bytes)
            .memories(1)
            .tables(1)
            .table_elements(TABLE_MAX)
            .instances(1)
            .build();
        let facts = Facts::default();
        let data = Data { limits, memory: None, token: 0, inputs, facts };
        let mut store = Store::new(self.linker.engine(), data);
        store.limiter(|data| &mut data.limits);
        store.set_fuel(MAKING_FUEL)?;
        let instance = self.linker.instantiate_and_start(&mut store, &self.module)?;
        store.data_mut().memory = instance.get_memory(&store, "memory");
        Ok((store, instance))
    }
}

/// What a module exports.
struct Functions {
    create: TypedFunc<(), i32>,
    method: Option<TypedFunc<i32, i32>>,
    item: TypedFunc<(), i32>,
    decompose: Option<TypedFunc<(), ()>>,
}

impl Functions {
    fn of(store: &Store<Data>, instance: &wasmi::Instance) -> Result<Functions, Error> {
        let has = |name| instance.get_func(store, name).is_some();
        let (tells, saves) = (has("petasos_method"), has("petasos_decompose"));
        let method = tells.then(|| exported(store, instance, "petasos_method"));
        let decompose = saves.then(|| exported(store, instance, "petasos_decompose"));
        Ok(Functions {
            create: exported(store, instance, "petasos_create")?,
            method: method.transpose()?,
            item: exported(store, instance, "petasos_item")?,
            decompose: decompose.transpose()?,
        })
    }
}

/// A function of a module. An error names it.
fn exported<P: WasmParams, R: WasmResults>(
    store: &Store<Data>,
    instance: &wasmi::Instance,
    name: &str,
) -> Result<TypedFunc<P, R>, Error> {
    let found = instance.get_typed_func(store, name);
    found.map_err(|error| Error::new(format!("`{name}`: {error}")))
}

impl Instance {
    /// Makes an instance, with a configuration and perhaps a state, both JSON.
    pub(super) fn new(
        code: &Code,
        limits: Limits,
        configuration: Arc<str>,
        state: Option<Arc<str>>,
    ) -> Result<Instance, Refusal> {
        let failed = |error: Error| Refusal::Configuration(format!("it fails: {error}"));
        let inputs = [Some(configuration), state, None];
        let (mut store, instance) = code.start(limits.memory_bytes, inputs).map_err(failed)?;
        let functions = Functions::of(&store, &instance).map_err(failed)?;
        let Functions { create, method, item, decompose } = functions;
        let mut context = Context::new(Doing::Other, TEXT_BYTES_MAX);
        let result = context::enter(&mut context, |token| {
            store.data_mut().token = token;
            create.call(&mut store, ())
        });
        let said = context.into_said().0;
        match result.map_err(failed)? {
            OK => Ok(Instance { store, fuel: limits.fuel, method, item, decompose }),
            WRONG_STATE => Err(Refusal::State(said)),
            _ => Err(Refusal::Configuration(said)),
        }
    }

    /// Tells of a method.
    ///
    /// # Errors
    /// Here and below: the module was cut off, and is in no state to be called again.
    pub(super) fn method(&mut self, token: u64, number: u32, name: &str) -> Result<i32, String> {
        let Some(method) = self.method else { return Ok(0) };
        self.store.data_mut().inputs[Input::Method as usize] = Some(name.into());
        self.ready(token, MAKING_FUEL)?;
        ended(method.call(&mut self.store, number.cast_signed()))
    }

    /// Asks for a verdict.
    pub(super) fn item(&mut self, token: u64, facts: Facts) -> Result<u32, String> {
        self.store.data_mut().facts = facts;
        self.ready(token, self.fuel)?;
        let result = self.item.call(&mut self.store, ());
        ended(result.map(i32::cast_unsigned))
    }

    /// Has the module say its state.
    pub(super) fn decompose(&mut self, token: u64) -> Result<(), String> {
        let Some(decompose) = self.decompose else { return Ok(()) };
        self.ready(token, MAKING_FUEL)?;
        ended(decompose.call(&mut self.store, ()))
    }

    fn ready(&mut self, token: u64, fuel: u64) -> Result<(), String> {
        self.store.data_mut().token = token;
        self.store.set_fuel(fuel).map_err(|error| error.to_string())
    }
}

fn ended<R>(result: Result<R, Error>) -> Result<R, String> {
    result.map_err(|error| error.to_string())
}
