//! A plug-in for tests: a request's `count` says what it does with it. Requests of the trial have
//! another.

#![forbid(unsafe_code)]

use std::sync::Arc;

use petasos_plugin_sdk::{
    Code, Declare, Engine, Failure, Field, FieldKind, Item, ItemKind, MethodId, Policy, Refusal,
    Status, Value,
};

const CHANGE: u64 = 100;
const TELL: u64 = 101;
const ERR: u64 = 102;
const SAY_MUCH: u64 = 103;
const ANSWER: u64 = 104;
const PANIC: u64 = 105;
const PANIC_WITH_A_NUMBER: u64 = 106;
const FORGET: u64 = 107;

struct Probe {
    configuration: String,
}

struct ProbeEngine {
    name: Option<Field>,
    count: Option<Field>,
    decided: u64,
    forgets: bool,
    panics_at_last: bool,
    refuses_methods: bool,
}

impl Policy for Probe {
    const NAME: &str = "probe";
    const STATE_VERSION: u32 = 3;
    const INTERESTS: &[ItemKind] = &[ItemKind::Request];
    type Engine = ProbeEngine;

    fn new(configuration: &str, state: Option<&str>) -> Result<Probe, Refusal> {
        match configuration {
            r#"{"panic":"new"}"# => panic!("of the configuration {configuration}"),
            r#"{"refuse":"long"}"# => return Err(Refusal::Configuration(long())),
            _ => {}
        }
        if state.is_some_and(|state| state != r#""left""#) {
            return Err(Refusal::State("it is none of mine".into()));
        }
        Ok(Probe { configuration: configuration.to_owned() })
    }

    fn engine(self: &Arc<Probe>, state: Option<&str>) -> Result<ProbeEngine, Refusal> {
        assert!(self.configuration != r#"{"panic":"engine"}"#, "of the engine");
        let decided = state.map_or(Ok(0), str::parse);
        let decided = decided.map_err(|_| Refusal::State("it is no number".into()))?;
        let panics_at_last = self.configuration == r#"{"panic":"drop"}"#;
        let refuses_methods = self.configuration == r#"{"refuse":"method"}"#;
        let (name, count, forgets) = (None, None, false);
        Ok(ProbeEngine { name, count, decided, forgets, panics_at_last, refuses_methods })
    }

    fn state(&self) -> Option<String> {
        Some(r#""left""#.to_owned())
    }

    fn report(&self) -> Option<String> {
        assert!(self.configuration != r#"{"panic":"report"}"#, "of the report");
        Some(format!(r#"{{"configuration":{}}}"#, self.configuration))
    }
}

impl Engine for ProbeEngine {
    fn method(&mut self, _: MethodId, name: &str, declare: &mut Declare<'_>) -> Result<(), String> {
        if self.refuses_methods {
            return Err("it likes no method".to_owned());
        }
        // The method of the trial has every field.
        if !name.starts_with("petasos.sample.") {
            let absent = [declare.reads("nothing", FieldKind::Text), declare.reads_any("none")];
            assert_eq!(absent, [Err(Failure::Absent); 2]);
        }
        self.count = declare.writes("count", FieldKind::Unsigned).ok();
        self.name = declare.reads_any("name").ok();
        Ok(())
    }

    fn item(&mut self, item: &mut Item<'_>) -> Result<(), Status> {
        let (Some(name), Some(count)) = (self.name, self.count) else { return Ok(()) };
        let Some(Value::Unsigned(number)) = item.field(count) else { return Ok(()) };
        self.decided += 1;
        match number {
            CHANGE => change(item, count),
            TELL => Err(Status::new(Code::Aborted, told(item, name))),
            ERR => Err(Status::new(Code::Aborted, errors(item, name, count))),
            SAY_MUCH => Err(Status::new(Code::DataLoss, long())),
            ANSWER => Err(Status::new(Code::Ok, "an answer")),
            PANIC => panic!("about no. {}", self.decided),
            PANIC_WITH_A_NUMBER => std::panic::panic_any(7),
            FORGET => {
                self.forgets = true;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn state(&self) -> Option<String> {
        assert!(!self.forgets, "of the state");
        Some(self.decided.to_string())
    }
}

impl Drop for ProbeEngine {
    fn drop(&mut self) {
        assert!(!self.panics_at_last, "of the end");
    }
}

/// More than a plug-in may say, and the limit is within a letter.
fn long() -> String {
    format!("x{}", "é".repeat(1000))
}

/// Changes what can be changed.
fn change(item: &mut Item<'_>, count: Field) -> Result<(), Status> {
    let failed = |failure: Failure| Status::new(Code::Internal, failure.to_string());
    let old = item.metadata("old").map(|value| value.into_owned());
    item.set_metadata("new", &old.unwrap_or_default()).map_err(failed)?;
    item.remove_metadata("old");
    item.set_field(count, &Value::Unsigned(42)).map_err(failed)
}

/// All that there is to know.
fn told(item: &mut Item<'_>, name: Field) -> String {
    let bits = (item.random(), item.random());
    format!(
        "{:?} {} {:?} {:?} {} {} {} {:?} {} {} {} {} {}",
        item.kind(),
        item.method().0,
        item.deadline_ns(),
        item.status(),
        item.application(),
        item.peer(),
        item.attempt(),
        item.identity(),
        item.is_stream(),
        item.is_from_caller(),
        item.is_inbound(),
        bits.0 != bits.1,
        item.field(name).as_ref().and_then(Value::as_text).unwrap_or("no text"),
    )
}

/// What goes wrong.
fn errors(item: &mut Item<'_>, name: Field, count: Field) -> String {
    let all = [
        item.set_field(name, &Value::text("it was not declared as written")),
        item.set_field(count, &Value::Signed(-1)),
        item.set_metadata("Not A Key", b"value"),
        item.set_metadata("key", b"\xe4"),
    ];
    let none = item.metadata("key").is_none() && item.metadata("Not A Key").is_none();
    format!("{all:?} {none}")
}

petasos_plugin_sdk::export!(Probe);
