//! A plug-in as a WebAssembly module: its exports, and what it imports of the service.
//!
//! # Invariants
//!
//! - A module has one engine, with a policy of its own, from the time that it is created.
//! - It has one thread, and the service calls no function of it while another runs.
//!
//! `unsafe` is in the imports that take pointers. The service checks each against the module's
//! memory, so that a wrong one harms nobody but the module.

use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::Arc;

pub use petasos_plugin_abi::ABI_VERSION;
use petasos_plugin_abi::{ANY_KIND, Fact, Failure, FieldKind, Input, OK, WRONG_CONFIGURATION};

use crate::declare::Declare;
use crate::item::{Item, MethodId};
use crate::policy::{self, Engine, Policy, Refusal};
use crate::service::{Deciding, Declaring, bounded, number};
use crate::value::Value;

/// What a module keeps: its engine, once it is created.
pub struct Module<P: Policy>(RefCell<Option<P::Engine>>);

impl<P: Policy> Module<P> {
    /// Which kinds of items the engine is to see.
    pub const INTERESTS: u32 = policy::interests::<P>();

    /// One without an engine.
    pub const fn new() -> Module<P> {
        Module(RefCell::new(None))
    }

    /// Makes the policy and the engine.
    pub fn create(&self) -> i32 {
        let made = Module::<P>::engine();
        let (returned, made) = policy::made(made);
        match made {
            Ok(engine) => *self.0.borrow_mut() = Some(engine),
            Err(why) => speak(bounded(&why)),
        }
        returned
    }

    fn engine() -> Result<P::Engine, Refusal> {
        let configuration = text_of(Input::Configuration).unwrap_or_default();
        let policy = Arc::new(P::new(&configuration, None)?);
        policy.engine(text_of(Input::State).as_deref())
    }

    /// Tells the engine of a method.
    pub fn method(&self, method: u32) -> i32 {
        let name = text_of(Input::Method).unwrap_or_default();
        let told = self
            .with(|engine| engine.method(MethodId(method), &name, &mut Declare::new(&mut Imports)));
        match told {
            Ok(()) => OK,
            Err(why) => {
                speak(bounded(&why));
                WRONG_CONFIGURATION
            }
        }
    }

    /// Has the engine decide about the item that is there.
    pub fn item(&self) -> u32 {
        let decided = self.with(|engine| engine.item(&mut Item::new(&mut Imports)));
        let (verdict, text) = policy::verdict(decided);
        if !text.is_empty() {
            speak(bounded(&text));
        }
        verdict
    }

    /// Has the engine say its state.
    pub fn decompose(&self) {
        if let Some(state) = self.with(|engine| engine.state()) {
            speak(&state);
        }
    }

    fn with<R>(&self, act: impl FnOnce(&mut P::Engine) -> R) -> R {
        act(self.0.borrow_mut().as_mut().expect("the service creates a module first"))
    }
}

impl<P: Policy> Default for Module<P> {
    fn default() -> Module<P> {
        Module::new()
    }
}

// SAFETY: the service has these functions, of these types (`petasos_plugin_wasm.md`).
#[link(wasm_import_module = "petasos")]
unsafe extern "C" {
    fn input(which: u32, offset: u32, to: *mut u8, room: usize) -> i32;
    fn say(text: *const u8, len: usize) -> i32;
    fn declare_field(path: *const u8, len: usize, kind: u32, writes: u32) -> i32;
    safe fn has_field(field: u32) -> i32;
    safe fn field_number(field: u32) -> u64;
    fn field_bytes(field: u32, offset: u32, to: *mut u8, room: usize) -> i32;
    safe fn set_field_number(field: u32, bits: u64) -> i32;
    fn set_field_bytes(field: u32, from: *const u8, len: usize) -> i32;
    fn metadata(key: *const u8, key_len: usize, to: *mut u8, room: usize) -> i32;
    fn set_metadata(key: *const u8, key_len: usize, value: *const u8, len: usize) -> i32;
    fn remove_metadata(key: *const u8, key_len: usize) -> i32;
    safe fn item(what: u32) -> u64;
    safe fn random() -> u64;
}

/// As much room as most texts need.
const ROOM: usize = 64;

/// Has the service copy something, which may be longer than expected.
fn copied(copy: impl Fn(&mut [u8]) -> i32) -> Option<Vec<u8>> {
    let mut bytes = vec![0; ROOM];
    loop {
        let len = number(copy(&mut bytes)).ok()? as usize;
        let is_whole = len <= bytes.len();
        bytes.resize(len, 0);
        if is_whole {
            return Some(bytes);
        }
    }
}

fn text_of(which: Input) -> Option<String> {
    // SAFETY: the service writes to the room only.
    let copy = |to: &mut [u8]| unsafe { input(which as u32, 0, to.as_mut_ptr(), to.len()) };
    copied(copy).and_then(|text| String::from_utf8(text).ok())
}

/// Appends to what the module says.
fn speak(text: &str) {
    // SAFETY: the text is there. If there is no room, nothing is said.
    unsafe { say(text.as_ptr(), text.len()) };
}

/// What the service offers to the function of the module that runs.
struct Imports;

impl Declaring for Imports {
    fn declare_field(
        &mut self,
        path: &str,
        kind: Option<FieldKind>,
        writes: bool,
    ) -> Result<u32, Failure> {
        let kind = kind.map_or(ANY_KIND, |kind| kind as u32);
        // SAFETY: the path is there.
        number(unsafe { declare_field(path.as_ptr(), path.len(), kind, writes.into()) })
    }
}

impl Deciding for Imports {
    fn fact(&self, fact: Fact) -> u64 {
        item(fact as u32)
    }

    fn identity(&self) -> Option<&str> {
        None
    }

    fn field(&self, field: u32) -> Option<Value<'_>> {
        let kind = FieldKind::from_number(number(has_field(field)).ok()?)?;
        let bytes = match kind {
            FieldKind::Text | FieldKind::Bytes => copied(|to| {
                // SAFETY: the service writes to the room only.
                unsafe { field_bytes(field, 0, to.as_mut_ptr(), to.len()) }
            })?,
            _ => Vec::new(),
        };
        Value::of(kind, field_number(field), Cow::Owned(bytes))
    }

    fn set_field(&mut self, field: u32, value: &Value<'_>) -> Result<(), Failure> {
        let set = match value.kind() {
            FieldKind::Text | FieldKind::Bytes => {
                let bytes = value.bytes();
                // SAFETY: the bytes are there.
                unsafe { set_field_bytes(field, bytes.as_ptr(), bytes.len()) }
            }
            _ => set_field_number(field, value.bits()),
        };
        number(set).map(drop)
    }

    fn metadata(&self, key: &str) -> Option<Cow<'_, [u8]>> {
        let copy = |to: &mut [u8]| {
            // SAFETY: the key is there, and the service writes to the room only.
            unsafe { metadata(key.as_ptr(), key.len(), to.as_mut_ptr(), to.len()) }
        };
        copied(copy).map(Cow::Owned)
    }

    fn set_metadata(&mut self, key: &str, value: Option<&[u8]>) -> Result<(), Failure> {
        let set = match value {
            // SAFETY: the key and the value are there.
            Some(value) => unsafe {
                set_metadata(key.as_ptr(), key.len(), value.as_ptr(), value.len())
            },
            // SAFETY: the key is there.
            None => unsafe { remove_metadata(key.as_ptr(), key.len()) },
        };
        number(set).map(drop)
    }

    fn random(&mut self) -> u64 {
        random()
    }
}
