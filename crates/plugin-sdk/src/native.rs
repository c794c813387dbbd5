//! A plug-in as a shared object: the other side of the table of C functions.
//!
//! # Invariants
//!
//! - No panic leaves a function of the table (`guarded`). A destructor that panics while another
//!   panic unwinds ends the process, as everywhere in Rust.
//! - A handle is made of a `Box` by the function that creates, and becomes one again in the one
//!   that destroys. The header says that the service uses it only between these two.
//! - What the service passes is borrowed no longer than the function runs: it is reached through a
//!   `Call`, which is made for that, and through texts that are passed as arguments.
//!
//! All `unsafe` rests on the header's rules, which the service keeps.

use std::any::Any;
use std::borrow::Cow;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice;
use std::sync::Arc;

use petasos_plugin_abi::{
    ABI_VERSION, ANY_KIND, Bytes, CItem, CValue, Code, Fact, Failure, FieldKind, Host, OK,
    RawTable, WRONG_CONFIGURATION, is_name,
};

use crate::declare::Declare;
use crate::item::{Item, MethodId};
use crate::policy::{self, Engine, Policy, Refusal, Status};
use crate::service::{Deciding, Declaring, bounded, number};
use crate::value::Value;

#[cfg(panic = "abort")]
compile_error!(
    "a plug-in that is a shared object is built with `panic = \"unwind\"`: a panic would end the \
     service otherwise"
);

/// What an object exports.
#[derive(Debug)]
#[repr(transparent)]
pub struct Table(RawTable);

// SAFETY: its pointers are those of a constant text and of functions. Nobody writes them.
unsafe impl Sync for Table {}

impl Table {
    /// The table of a policy.
    pub const fn of<P: Policy>() -> Table {
        const { assert!(is_name(P::NAME), "a name has 1 to 64 letters, digits, `_` and `-`") };
        Table(RawTable {
            abi_version: ABI_VERSION,
            size: size_of::<RawTable>() as u32,
            name: Bytes::of(P::NAME.as_bytes()),
            state_version: P::STATE_VERSION,
            interests: policy::interests::<P>(),
            policy_create: Some(policy_create::<P>),
            policy_state: Some(policy_state::<P>),
            policy_report: Some(policy_report::<P>),
            policy_destroy: Some(destroy::<PolicyHandle<P>>),
            engine_create: Some(engine_create::<P>),
            engine_method: Some(engine_method::<P::Engine>),
            engine_item: Some(engine_item::<P::Engine>),
            engine_decompose: Some(engine_decompose::<P::Engine>),
            engine_destroy: Some(destroy::<EngineHandle<P::Engine>>),
        })
    }
}

struct PolicyHandle<P> {
    host: &'static Host,
    policy: Arc<P>,
}

struct EngineHandle<E> {
    host: &'static Host,
    engine: E,
}

/// # Safety
/// Here and below: as the header says. Handles are those that functions of the same table have made
/// and not destroyed; pointers are valid while the function runs.
unsafe extern "C" fn policy_create<P: Policy>(
    host: *const Host,
    token: u64,
    configuration: Bytes,
    state: Bytes,
    policy: *mut *mut c_void,
) -> i32 {
    // SAFETY: every version of the structure begins with these two numbers.
    let [version, size] = unsafe { host.cast::<[u32; 2]>().read() };
    if version != ABI_VERSION || (size as usize) < size_of::<Host>() {
        return WRONG_CONFIGURATION;
    }
    // SAFETY: it is as long, and stays valid while the object is loaded, and so this code.
    let host: &'static Host = unsafe { &*host };
    // SAFETY: the service passes texts.
    let (configuration, state) = unsafe { (text(configuration), text(state)) };
    let made = || P::new(configuration.unwrap_or_default(), state);
    let handle = |made| PolicyHandle { host, policy: Arc::new(made) };
    // SAFETY: a place for the handle is there.
    unsafe { create(Call::new(host, token), made, handle, policy) }
}

/// # Safety
/// See [`policy_create`].
unsafe extern "C" fn engine_create<P: Policy>(
    policy: *mut c_void,
    token: u64,
    state: Bytes,
    engine: *mut *mut c_void,
) -> i32 {
    // SAFETY: it is a policy of this table.
    let PolicyHandle { host, policy } = unsafe { &*policy.cast::<PolicyHandle<P>>() };
    // SAFETY: the service passes a text, or nothing.
    let state = unsafe { text(state) };
    let handle = |engine| EngineHandle { host, engine };
    // SAFETY: a place for the handle is there.
    unsafe { create(Call::new(host, token), || policy.engine(state), handle, engine) }
}

/// Makes something, and gives its handle; or says why not.
///
/// # Safety
/// A handle can be written to `place`.
unsafe fn create<T, H>(
    call: Call<'_>,
    make: impl FnOnce() -> Result<T, Refusal>,
    handle: impl FnOnce(T) -> H,
    place: *mut *mut c_void,
) -> i32 {
    let made = guarded(make).unwrap_or_else(|panic| Err(Refusal::Configuration(panic)));
    let (returned, made) = policy::made(made);
    match made {
        // SAFETY: the caller's promise.
        Ok(made) => unsafe { place.write(Box::into_raw(Box::new(handle(made))).cast()) },
        Err(why) => call.say(bounded(&why)),
    }
    returned
}

/// # Safety
/// See [`policy_create`]. The handle is one of this type.
unsafe extern "C" fn destroy<H>(handle: *mut c_void) {
    // SAFETY: it was made of such a box, and is not used any more.
    let handle = unsafe { Box::from_raw(handle.cast::<H>()) };
    // Nobody can be told of a panic, except by what it prints.
    let _ = guarded(|| drop(handle));
}

/// # Safety
/// See [`policy_create`].
unsafe extern "C" fn policy_state<P: Policy>(policy: *mut c_void, token: u64) {
    // SAFETY: it is a policy of this table.
    let PolicyHandle { host, policy } = unsafe { &*policy.cast::<PolicyHandle<P>>() };
    say_all(Call::new(host, token), || policy.state());
}

/// # Safety
/// See [`policy_create`].
unsafe extern "C" fn policy_report<P: Policy>(policy: *mut c_void, token: u64) {
    // SAFETY: it is a policy of this table.
    let PolicyHandle { host, policy } = unsafe { &*policy.cast::<PolicyHandle<P>>() };
    say_all(Call::new(host, token), || policy.report());
}

/// # Safety
/// See [`policy_create`].
unsafe extern "C" fn engine_decompose<E: Engine>(engine: *mut c_void, token: u64) {
    // SAFETY: it is an engine of this table, and no other function of it runs.
    let EngineHandle { host, engine } = unsafe { &*engine.cast::<EngineHandle<E>>() };
    say_all(Call::new(host, token), || engine.state());
}

/// Says what something has to say. What panics says nothing.
fn say_all(call: Call<'_>, text: impl FnOnce() -> Option<String>) {
    if let Ok(Some(text)) = guarded(text) {
        call.say(&text);
    }
}

/// # Safety
/// See [`policy_create`].
unsafe extern "C" fn engine_method<E: Engine>(
    engine: *mut c_void,
    token: u64,
    method: u32,
    name: Bytes,
) -> i32 {
    // SAFETY: it is an engine of this table, and no other function of it runs.
    let EngineHandle { host, engine } = unsafe { &mut *engine.cast::<EngineHandle<E>>() };
    // SAFETY: the service passes a text.
    let name = unsafe { text(name) }.unwrap_or_default();
    let mut call = Call::new(host, token);
    let told = guarded(|| engine.method(MethodId(method), name, &mut Declare::new(&mut call)));
    match told.unwrap_or_else(Err) {
        Ok(()) => OK,
        Err(why) => {
            call.say(bounded(&why));
            WRONG_CONFIGURATION
        }
    }
}

/// # Safety
/// See [`policy_create`].
unsafe extern "C" fn engine_item<E: Engine>(engine: *mut c_void, item: *const CItem) -> u32 {
    // SAFETY: it is an engine of this table, and no other function of it runs.
    let EngineHandle { host, engine } = unsafe { &mut *engine.cast::<EngineHandle<E>>() };
    // SAFETY: the service passes an item.
    let item = unsafe { &*item };
    let mut call = Call { item: Some(item), ..Call::new(host, item.token) };
    let decided = guarded(|| engine.item(&mut Item::new(&mut call)));
    let decided = decided.unwrap_or_else(|panic| Err(Status::new(Code::Internal, panic)));
    let (verdict, text) = policy::verdict(decided);
    if !text.is_empty() {
        call.say(bounded(&text));
    }
    verdict
}

/// Does something that may panic. Gives what the panic says.
fn guarded<R>(act: impl FnOnce() -> R) -> Result<R, String> {
    // What the panic has left half done belongs to the plug-in, which is called again.
    catch_unwind(AssertUnwindSafe(act)).map_err(|panic| format!("it has panicked: {}", said(panic)))
}

fn said(panic: Box<dyn Any + Send>) -> String {
    let panic = match panic.downcast::<String>() {
        Ok(text) => return *text,
        Err(other) => other,
    };
    match panic.downcast::<&'static str>() {
        Ok(text) => (*text).to_owned(),
        Err(other) => {
            // Its destructor might panic, too, and that panic's.
            if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(other))) {
                std::mem::forget(another);
            }
            "nothing is said".to_owned()
        }
    }
}

/// A text that the service passes; none if there is none.
///
/// # Safety
/// If the pointer is not null, so many bytes are there, and nobody writes them during `'a`.
unsafe fn text<'a>(text: Bytes) -> Option<&'a str> {
    if text.data.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    str::from_utf8(unsafe { bytes(text) }).ok()
}

/// # Safety
/// As [`text`].
unsafe fn bytes<'a>(bytes: Bytes) -> &'a [u8] {
    if bytes.data.is_null() {
        return &[];
    }
    // SAFETY: the caller's promise. The service's lengths are those of slices.
    unsafe { slice::from_raw_parts(bytes.data, bytes.len as usize) }
}

/// A function of the plug-in that runs, and what the service offers to it.
struct Call<'a> {
    host: &'static Host,
    token: u64,
    item: Option<&'a CItem>,
}

impl Call<'_> {
    fn new(host: &'static Host, token: u64) -> Call<'static> {
        Call { host, token, item: None }
    }

    /// Appends to what the plug-in says.
    fn say(&self, text: &str) {
        // SAFETY: the text outlives the call. If there is no room, nothing is said.
        unsafe { (self.host.say)(self.token, Bytes::of(text.as_bytes())) };
    }
}

/// What a function of the service returns.
fn done(returned: i32) -> Result<(), Failure> {
    number(returned).map(drop)
}

impl Declaring for Call<'_> {
    fn declare_field(
        &mut self,
        path: &str,
        kind: Option<FieldKind>,
        writes: bool,
    ) -> Result<u32, Failure> {
        let (mut field, mut found) = (0, 0);
        let (path, kind) = (Bytes::of(path.as_bytes()), kind.map_or(ANY_KIND, |kind| kind as u32));
        let declare = self.host.declare_field;
        // SAFETY: the path and the places outlive the call.
        done(unsafe { declare(self.token, path, kind, writes.into(), &mut field, &mut found) })?;
        Ok(field)
    }
}

impl Deciding for Call<'_> {
    fn fact(&self, fact: Fact) -> u64 {
        let Some(item) = self.item else { return 0 };
        match fact {
            Fact::Call => item.call,
            Fact::Now => item.now_ns,
            Fact::Arrived => item.arrived_ns,
            Fact::Deadline => item.deadline_ns,
            Fact::Kind => item.kind.into(),
            Fact::Flags => item.flags.into(),
            Fact::Application => item.application.into(),
            Fact::Peer => item.peer.into(),
            Fact::Method => item.method.into(),
            Fact::Bytes => item.bytes.into(),
            Fact::Status => item.status.into(),
            Fact::Attempt => item.attempt.into(),
        }
    }

    fn identity(&self) -> Option<&str> {
        // SAFETY: the service passes a text with the item, and both are there as long.
        self.item.and_then(|item| unsafe { text(item.identity) })
    }

    fn field(&self, field: u32) -> Option<Value<'_>> {
        let mut value = MaybeUninit::<CValue>::uninit();
        // SAFETY: the place outlives the call.
        done(unsafe { (self.host.field)(self.token, field, value.as_mut_ptr()) }).ok()?;
        // SAFETY: the service has written it.
        let value = unsafe { value.assume_init() };
        // SAFETY: the bytes stay until the next call of `set_field`, which would need `&mut self`,
        // or until this function of the plug-in returns, and `self` does not live longer.
        let bytes = unsafe { bytes(value.bytes) };
        Value::of(FieldKind::from_number(value.kind)?, value.number, Cow::Borrowed(bytes))
    }

    fn set_field(&mut self, field: u32, value: &Value<'_>) -> Result<(), Failure> {
        let bytes = Bytes::of(value.bytes());
        let value = CValue { kind: value.kind() as u32, reserved: 0, number: value.bits(), bytes };
        // SAFETY: the value outlives the call.
        done(unsafe { (self.host.set_field)(self.token, field, &value) })
    }

    fn metadata(&self, key: &str) -> Option<Cow<'_, [u8]>> {
        let mut value = Bytes::NONE;
        let key = Bytes::of(key.as_bytes());
        // SAFETY: the key and the place outlive the call.
        done(unsafe { (self.host.metadata)(self.token, key, &mut value) }).ok()?;
        // SAFETY: as in `field`, with `set_metadata`.
        Some(Cow::Borrowed(unsafe { bytes(value) }))
    }

    fn set_metadata(&mut self, key: &str, value: Option<&[u8]>) -> Result<(), Failure> {
        let (key, value) = (Bytes::of(key.as_bytes()), value.map_or(Bytes::NONE, Bytes::of));
        // SAFETY: both outlive the call.
        done(unsafe { (self.host.set_metadata)(self.token, key, value) })
    }

    fn random(&mut self) -> u64 {
        let mut bits = 0;
        // SAFETY: the place outlives the call. If it fails, the bits stay 0.
        unsafe { (self.host.random)(self.token, &mut bits) };
        bits
    }
}
