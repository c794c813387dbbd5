//! Policies of shared objects.
//!
//! # Invariants
//!
//! - An engine holds its policy, and a policy its object: a plug-in's handle is used only while
//!   what made it is there, and is destroyed once.
//! - What a plug-in says is copied before its function returns to Rust code outside this module.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use petasos_engine::{
    Declare, Decompose, Direction, Engine, FieldError, Item, MethodId, Policy, PolicyError,
    PolicyKind, State, Status, Version, Work,
};
use petasos_plugin_abi::{
    Bytes, CItem, OK, PASS, STATE_BYTES_MAX, Say, TEXT_BYTES_MAX, WRONG_STATE,
};
use serde::de::IgnoredAny;
use serde_json::{Value as Json, json};

use crate::context::{self, Context, Doing, Facts, Field};
use crate::host::HOST;
use crate::object::{Object, Table, Watch};

/// A kind of policy that a shared object has.
#[derive(Clone, Debug)]
pub(crate) struct NativeKind(Arc<Object>);

impl NativeKind {
    pub(crate) fn new(object: Object) -> NativeKind {
        NativeKind(Arc::new(object))
    }

    /// The object's bytes.
    pub(crate) fn object_bytes(&self) -> std::io::Result<Vec<u8>> {
        self.0.bytes()
    }

    /// Tells whether the object is mapped, when all that is made of it has gone.
    pub(crate) fn watch(&self) -> Watch {
        self.0.watch()
    }
}

impl Table {
    pub(crate) fn version(&self) -> Version {
        Version { kind: self.name, version: self.state_version }
    }
}

impl PolicyKind for NativeKind {
    fn version(&self) -> Version {
        self.0.table.version()
    }

    /// Makes a policy in this process. [`Plugin`](crate::Plugin) tries it in a child first.
    fn make(
        &self,
        configuration: &str,
        state: Option<&State>,
    ) -> Result<Box<dyn Policy>, PolicyError> {
        let table = &self.0.table;
        let state = checked(table, state)?;
        let mut handle = ptr::null_mut();
        let (result, said) = call(Doing::Other, TEXT_BYTES_MAX, |token| {
            let configuration = Bytes::of(configuration.as_bytes());
            // SAFETY: the header's contract; what is pointed to outlives the call.
            unsafe { (table.policy_create)(&HOST, token, configuration, state, &mut handle) }
        });
        refused(table, result, said)?;
        Ok(Box::new(NativePolicy(Arc::new(Handle { object: Arc::clone(&self.0), handle }))))
    }
}

/// A policy of the plug-in.
struct Handle {
    object: Arc<Object>,
    handle: *mut c_void,
}

// SAFETY: the header says that functions of a policy may be called from any thread, and from
// several at a time.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the plug-in has made it, all engines are gone (they hold this), and it is not
        // used any more.
        unsafe { (self.object.table.policy_destroy)(self.handle) };
    }
}

struct NativePolicy(Arc<Handle>);

impl NativePolicy {
    /// What the policy says, if that is JSON.
    fn said(&self, say: Option<Say>) -> Option<String> {
        let say = say?;
        let ((), said) = call(Doing::Other, STATE_BYTES_MAX, |token| {
            // SAFETY: the header's contract; the policy is there.
            unsafe { say(self.0.handle, token) }
        });
        json_text(said)
    }
}

impl Policy for NativePolicy {
    fn engine(&self, state: Option<&State>) -> Result<Box<dyn Engine>, PolicyError> {
        let table = &self.0.object.table;
        let state = checked(table, state)?;
        let mut handle = ptr::null_mut();
        let (result, said) = call(Doing::Other, TEXT_BYTES_MAX, |token| {
            // SAFETY: the header's contract; what is pointed to outlives the call.
            unsafe { (table.engine_create)(self.0.handle, token, state, &mut handle) }
        });
        refused(table, result, said)?;
        let (policy, fields) = (Arc::clone(&self.0), Vec::new());
        Ok(Box::new(NativeEngine { policy, handle, fields }))
    }

    fn state(&self) -> State {
        let table = &self.0.object.table;
        let json = self.said(table.policy_state).unwrap_or_else(|| "null".to_owned());
        State { kind: table.name.to_owned(), version: table.state_version, json }
    }

    fn report(&self) -> Json {
        let said = self.said(self.0.object.table.policy_report);
        let report = said.and_then(|said| serde_json::from_str(&said).ok());
        json!({"plugin": self.0.object.table.name, "report": report.unwrap_or(Json::Null)})
    }
}

struct NativeEngine {
    policy: Arc<Handle>,
    handle: *mut c_void,
    /// By the numbers that the plug-in knows.
    fields: Vec<Field>,
}

// SAFETY: the header says that functions of an engine are called from one thread at a time, which
// may be another each time.
unsafe impl Send for NativeEngine {}

impl Drop for NativeEngine {
    fn drop(&mut self) {
        // SAFETY: the plug-in has made it, and it is not used any more. Its policy is there.
        unsafe { (self.policy.object.table.engine_destroy)(self.handle) };
    }
}

impl Engine for NativeEngine {
    fn method(
        &mut self,
        method: MethodId,
        name: &str,
        declare: &mut Declare<'_>,
    ) -> Result<(), FieldError> {
        let Some(tell) = self.policy.object.table.engine_method else { return Ok(()) };
        let (handle, fields) = (self.handle, &mut self.fields);
        let doing = Doing::Declaring { method, declare, fields, error: None };
        let mut context = Context::new(doing, TEXT_BYTES_MAX);
        let result = context::enter(&mut context, |token| {
            // SAFETY: the header's contract; the name outlives the call.
            unsafe { tell(handle, token, method.0, Bytes::of(name.as_bytes())) }
        });
        let (said, error) = context.into_said();
        accepted(result, name, said, error)
    }

    fn work(&mut self, work: &mut Work<'_>) {
        for direction in Direction::ALL {
            while let Some(item) = work.next(direction) {
                match self.decide(work, &item) {
                    None => work.forward(item),
                    Some(status) => work.end(item, status),
                }
            }
        }
    }

    fn decompose(self: Box<Self>, _: &mut Decompose<'_>) -> Option<State> {
        let table = &self.policy.object.table;
        let decompose = table.engine_decompose?;
        let ((), said) = call(Doing::Other, STATE_BYTES_MAX, |token| {
            // SAFETY: the header's contract; the engine is there.
            unsafe { decompose(self.handle, token) }
        });
        let (kind, version) = (table.name.to_owned(), table.state_version);
        json_text(said).map(|json| State { kind, version, json })
    }
}

impl NativeEngine {
    fn decide(&self, work: &mut Work<'_>, item: &Item) -> Option<Status> {
        let table = &self.policy.object.table;
        if table.interests >> context::kind_number(work.kind(item)) & 1 == 0 {
            return None;
        }
        let facts = Facts::of(work, item);
        let identity = work.call(item).identity.clone();
        let identity = identity.as_deref().map_or(Bytes::NONE, |name| Bytes::of(name.as_bytes()));
        let doing = Doing::Deciding { work, item, fields: &self.fields };
        let (verdict, said) = call(doing, TEXT_BYTES_MAX, |token| {
            let item = c_item(&facts, token, identity);
            // SAFETY: the header's contract; the item outlives the call.
            unsafe { (table.engine_item)(self.handle, &item) }
        });
        (verdict != PASS).then(|| context::status(table.name, verdict, said))
    }
}

fn c_item(facts: &Facts, token: u64, identity: Bytes) -> CItem {
    CItem {
        token,
        call: facts.call,
        now_ns: facts.now_ns,
        arrived_ns: facts.arrived_ns,
        deadline_ns: facts.deadline_ns,
        kind: facts.kind,
        flags: facts.flags,
        application: facts.application,
        peer: facts.peer,
        method: facts.method,
        bytes: facts.bytes,
        status: facts.status,
        attempt: facts.attempt,
        identity,
    }
}

/// Calls a plug-in. Gives what it returns, and what it has said.
fn call<R>(doing: Doing<'_, '_>, said_max: usize, call: impl FnOnce(u64) -> R) -> (R, String) {
    let mut context = Context::new(doing, said_max);
    let result = context::enter(&mut context, call);
    (result, context.into_said().0)
}

/// The contents of a state of this kind and version, or of an earlier one.
fn checked(table: &Table, state: Option<&State>) -> Result<Bytes, PolicyError> {
    let Some(state) = state else { return Ok(Bytes::NONE) };
    state.read::<IgnoredAny>(table.version())?;
    // A policy without a state of its own has left this.
    let is_nothing = state.json == "null";
    Ok(if is_nothing { Bytes::NONE } else { Bytes::of(state.json.as_bytes()) })
}

/// What a plug-in answers that is to make something.
fn refused(table: &Table, result: i32, why: String) -> Result<(), PolicyError> {
    let kind = table.name.to_owned();
    match result {
        OK => Ok(()),
        WRONG_STATE => Err(PolicyError::State { kind, why }),
        _ => Err(PolicyError::Configuration { kind, why }),
    }
}

/// What a plug-in answers that is told of a method.
pub(crate) fn accepted(
    result: i32,
    method: &str,
    said: String,
    error: Option<FieldError>,
) -> Result<(), FieldError> {
    if result == OK {
        return Ok(());
    }
    let unknown = || FieldError::Unknown { method: method.to_owned(), path: said };
    Err(error.unwrap_or_else(unknown))
}

/// A text, if it is JSON and not empty.
pub(crate) fn json_text(said: String) -> Option<String> {
    serde_json::from_str::<IgnoredAny>(&said).is_ok().then_some(said)
}
