//! An engine whose decisions a module makes.

use std::sync::Arc;

use petasos_engine::{
    Declare, Decompose, Direction, Engine, FieldError, Item, ItemKind, MethodId, State, Status,
    Version, Work,
};
use petasos_plugin_abi::{PASS, STATE_BYTES_MAX, TEXT_BYTES_MAX};

use super::instance::Instance;
use super::{Rule, Shared};
use crate::context::{self, Context, Doing, Facts, Field};
use crate::native::{accepted, json_text};

pub(super) struct WasmEngine {
    shared: Arc<Shared>,
    /// None since it was cut off.
    instance: Option<Instance>,
    /// By the numbers that the module knows.
    fields: Vec<Field>,
}

impl WasmEngine {
    pub(super) fn new(shared: Arc<Shared>, instance: Instance) -> WasmEngine {
        WasmEngine { shared, instance: Some(instance), fields: Vec::new() }
    }

    /// The module is not called any more.
    fn cut_off(&mut self, why: String) {
        self.instance = None;
        self.shared.note(why);
    }

    fn decide(&mut self, work: &mut Work<'_>, item: &Item) -> Option<Status> {
        let kind = work.kind(item);
        if self.shared.code.interests >> context::kind_number(kind) & 1 == 0 {
            return None;
        }
        let Some(instance) = &mut self.instance else { return self.without(kind) };
        let facts = Facts::of(work, item);
        let doing = Doing::Deciding { work, item, fields: &self.fields };
        let mut context = Context::new(doing, TEXT_BYTES_MAX);
        match context::enter(&mut context, |token| instance.item(token, facts)) {
            Ok(PASS) => None,
            Ok(verdict) => Some(context::status(self.shared.name, verdict, context.into_said().0)),
            Err(why) => {
                self.cut_off(why);
                self.without(kind)
            }
        }
    }

    /// What becomes of an item that the module was to decide about, but cannot.
    fn without(&self, kind: ItemKind) -> Option<Status> {
        let begins = matches!(kind, ItemKind::Request | ItemKind::Message);
        let is_refused = self.shared.rule == Rule::Closed && begins;
        is_refused.then(|| Status::unavailable(format!("`{}` has failed", self.shared.name)))
    }
}

impl Engine for WasmEngine {
    fn method(
        &mut self,
        method: MethodId,
        name: &str,
        declare: &mut Declare<'_>,
    ) -> Result<(), FieldError> {
        let Some(instance) = &mut self.instance else { return Ok(()) };
        let fields = &mut self.fields;
        let doing = Doing::Declaring { method, declare, fields, error: None };
        let mut context = Context::new(doing, TEXT_BYTES_MAX);
        let result = context::enter(&mut context, |token| instance.method(token, method.0, name));
        match result {
            Ok(result) => {
                let (said, error) = context.into_said();
                accepted(result, name, said, error)
            }
            Err(why) => {
                self.cut_off(why);
                Ok(())
            }
        }
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

    fn decompose(mut self: Box<Self>, _: &mut Decompose<'_>) -> Option<State> {
        let instance = self.instance.as_mut()?;
        let mut context = Context::new(Doing::Other, STATE_BYTES_MAX);
        if let Err(why) = context::enter(&mut context, |token| instance.decompose(token)) {
            self.cut_off(why);
            return None;
        }
        let Version { kind, version } = self.shared.version();
        let json = json_text(context.into_said().0)?;
        Some(State { kind: kind.to_owned(), version, json })
    }
}
