//! What the author of a plug-in writes: a policy and its engine.

use std::sync::Arc;

use petasos_plugin_abi::{Code, ItemKind, OK, PASS, WRONG_CONFIGURATION, WRONG_STATE};

use crate::declare::Declare;
use crate::item::{Item, MethodId};

/// What an operator has configured.
pub trait Policy: Sized + Send + Sync + 'static {
    /// Names the kind in states and messages: 1 to 64 letters, digits, `_` and `-`. (A module is
    /// called what the operator calls it.)
    const NAME: &'static str;

    /// Of states. It counts up with each change of their form: the service refuses states of later
    /// versions, and of plug-ins of another name.
    const STATE_VERSION: u32;

    /// Which kinds of items its engines are to see. Others pass.
    const INTERESTS: &'static [ItemKind];

    /// Its replica in one datapath.
    type Engine: Engine;

    /// Makes a policy of a configuration, a JSON text. It goes on from what an earlier policy has
    /// left, if there is a state ([`Policy::state`]).
    ///
    /// # Errors
    /// Why the configuration or the state cannot be used.
    fn new(configuration: &str, state: Option<&str>) -> Result<Self, Refusal>;

    /// Makes an engine. It goes on from what an earlier engine has left ([`Engine::state`]).
    ///
    /// # Errors
    /// Why the state cannot be used.
    fn engine(self: &Arc<Self>, state: Option<&str>) -> Result<Self::Engine, Refusal>;

    /// What the policy that replaces this one goes on from, a JSON text of at most
    /// [`STATE_BYTES_MAX`](crate::STATE_BYTES_MAX) bytes.
    fn state(&self) -> Option<String> {
        None
    }

    /// What operators see of it, a JSON text that is no longer.
    fn report(&self) -> Option<String> {
        None
    }
}

/// A policy's replica in one datapath. It never blocks, and reads no clock: [`Item::now_ns`] is
/// the time.
pub trait Engine: Send + 'static {
    /// Calls of a method will come, by this number. The engine declares the fields of the caller's
    /// messages that it needs.
    ///
    /// # Errors
    /// Why the engine cannot be where calls of this method are. Its change is refused.
    fn method(
        &mut self,
        method: MethodId,
        name: &str,
        declare: &mut Declare<'_>,
    ) -> Result<(), String> {
        let _ = (method, name, declare);
        Ok(())
    }

    /// Decides about an item: it passes, or its call ends.
    ///
    /// # Errors
    /// With which status the call ends.
    fn item(&mut self, item: &mut Item<'_>) -> Result<(), Status>;

    /// What the engine that replaces this one goes on from, as [`Policy::state`]. Nothing comes to
    /// the engine after this.
    fn state(&self) -> Option<String> {
        None
    }
}

/// Why a policy or an engine is not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The configuration cannot be used.
    Configuration(String),
    /// The state cannot be used.
    State(String),
}

/// With what a call ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    /// The code. [`Code::Ok`] stands for a mistake of the plug-in, and becomes `INTERNAL`: an
    /// engine cannot answer calls.
    pub code: Code,
    /// A text for people. What is beyond [`TEXT_BYTES_MAX`](crate::TEXT_BYTES_MAX) is left out.
    pub text: String,
}

impl Status {
    /// A status of a code and a text.
    pub fn new(code: Code, text: impl Into<String>) -> Status {
        Status { code, text: text.into() }
    }
}

/// The bits of the kinds of items that a policy's engines are to see.
pub(crate) const fn interests<P: Policy>() -> u32 {
    let (mut bits, mut index) = (0, 0);
    while index < P::INTERESTS.len() {
        bits |= 1 << P::INTERESTS[index] as u32;
        index += 1;
    }
    bits
}

/// What is returned for something that was to be made, and what is said.
pub(crate) fn made<T>(result: Result<T, Refusal>) -> (i32, Result<T, String>) {
    match result {
        Ok(made) => (OK, Ok(made)),
        Err(Refusal::Configuration(why)) => (WRONG_CONFIGURATION, Err(why)),
        Err(Refusal::State(why)) => (WRONG_STATE, Err(why)),
    }
}

/// What is returned for a verdict, and what is said.
pub(crate) fn verdict(decided: Result<(), Status>) -> (u32, String) {
    match decided {
        Ok(()) => (PASS, String::new()),
        Err(Status { code: Code::Ok, text }) => (Code::Internal as u32, text),
        Err(Status { code, text }) => (code as u32, text),
    }
}
