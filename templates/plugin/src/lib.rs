//! A policy that refuses requests and messages in which a field has a certain text, and says how
//! often it has done so. The count outlives upgrades.

#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::sync::Arc;

use petasos_plugin_sdk::{
    Code, Declare, Engine, Failure, Field, FieldKind, Item, ItemKind, MethodId, Policy, Refusal,
    Status,
};
use serde::{Deserialize, Serialize};

/// What an operator has configured.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Refuse {
    /// The path of a field: names with dots between them.
    field: String,
    /// The text that it must not have.
    text: String,
}

/// What an engine leaves to its successor. If its form changes, `STATE_VERSION` counts up, and
/// earlier forms are still read.
#[derive(Debug, Default, Deserialize, Serialize)]
struct State {
    refused: u64,
}

impl Policy for Refuse {
    const NAME: &str = "refuse";
    const STATE_VERSION: u32 = 1;
    const INTERESTS: &[ItemKind] = &[ItemKind::Request, ItemKind::Message];
    type Engine = RefuseEngine;

    fn new(configuration: &str, _: Option<&str>) -> Result<Refuse, Refusal> {
        serde_json::from_str(configuration)
            .map_err(|error| Refusal::Configuration(error.to_string()))
    }

    fn engine(self: &Arc<Refuse>, state: Option<&str>) -> Result<RefuseEngine, Refusal> {
        let state = state.map_or_else(|| Ok(State::default()), serde_json::from_str);
        let state = state.map_err(|error| Refusal::State(error.to_string()))?;
        Ok(RefuseEngine { policy: self.clone(), fields: BTreeMap::new(), state })
    }
}

/// The policy's replica in one application's datapath.
pub struct RefuseEngine {
    policy: Arc<Refuse>,
    /// Of the methods that have the field.
    fields: BTreeMap<MethodId, Field>,
    state: State,
}

impl Engine for RefuseEngine {
    fn method(
        &mut self,
        method: MethodId,
        _: &str,
        declare: &mut Declare<'_>,
    ) -> Result<(), String> {
        match declare.reads(&self.policy.field, FieldKind::Text) {
            Ok(field) => drop(self.fields.insert(method, field)),
            // Calls of such methods pass.
            Err(Failure::Absent) => {}
            Err(failure) => return Err(failure.to_string()),
        }
        Ok(())
    }

    fn item(&mut self, item: &mut Item<'_>) -> Result<(), Status> {
        let Some(field) = self.fields.get(&item.method()) else { return Ok(()) };
        let Some(value) = item.field(*field) else { return Ok(()) };
        if value.as_text() != Some(&self.policy.text) {
            return Ok(());
        }
        self.state.refused += 1;
        let text = format!("no. {} of `{}`", self.state.refused, self.policy.text);
        Err(Status::new(Code::PermissionDenied, text))
    }

    fn state(&self) -> Option<String> {
        serde_json::to_string(&self.state).ok()
    }
}

petasos_plugin_sdk::export!(Refuse);

#[cfg(test)]
mod tests;
