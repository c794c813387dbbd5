//! A datapath with a few items, to see whether a policy works before it is let into the service.

use std::sync::Arc;

use petasos_engine::{
    Application, Call, CallId, ChangeError, Datapath, Direction, FieldError, FieldId, FieldKind,
    ItemKind, MethodId, Peer, Policy, Schema, Submission, Time, Value,
};

const METHOD: MethodId = MethodId(1);
const NAME: &str = "petasos.sample.Sample/Call";
const ITEMS_MAX: usize = 64;
const CALLS: u64 = 4;
/// A policy that asks for more fields of other kinds than these is not tried with items.
const KINDS_MAX: usize = 1024;

/// Has an engine of the policy see calls, go on from its own state, see more calls, and end.
///
/// # Errors
/// What is wrong, as a text.
pub(crate) fn run(policy: &Arc<dyn Policy>) -> Result<(), String> {
    let mut schema = Sample::default();
    let mut datapath = Datapath::new(ITEMS_MAX, 1);
    let change = |error: ChangeError| error.to_string();
    datapath.attach(0, Arc::clone(policy), &mut schema).map_err(change)?;
    if !add_method(&mut datapath, &mut schema) {
        // It wants methods with other fields. That is no fault.
        return Ok(());
    }
    calls(&mut datapath, &schema, 0);
    datapath.replace(0, Arc::clone(policy), &mut schema).map_err(change)?;
    calls(&mut datapath, &schema, CALLS);
    datapath.detach(0, &mut schema).map_err(change)?;
    Ok(())
}

/// Declares fields of whatever kinds the policy wants. Whether it is content.
fn add_method(datapath: &mut Datapath, schema: &mut Sample) -> bool {
    for _ in 0..KINDS_MAX {
        match datapath.add_method(METHOD, NAME, schema) {
            Ok(()) => return true,
            Err(FieldError::Kind { path, expected, .. }) => schema.kinds.push((path, expected)),
            Err(_) => return false,
        }
    }
    false
}

/// Unary calls and a stream, some of which are given up.
fn calls(datapath: &mut Datapath, schema: &Sample, first: u64) {
    for number in first..first + CALLS {
        let now = Time::from_nanos(1_000_000 * (number + 1));
        let is_stream = number % 2 == 1;
        let Ok(call) = datapath.begin(sample(is_stream, now)) else { continue };
        submit(datapath, schema, call, ItemKind::Request, now);
        if is_stream {
            submit(datapath, schema, call, ItemKind::Message, now);
            submit(datapath, schema, call, ItemKind::Head, now);
            submit(datapath, schema, call, ItemKind::Close, now);
        }
        let last = if number % 4 == 3 { ItemKind::Cancel } else { ItemKind::End };
        submit(datapath, schema, call, last, now);
    }
}

fn submit(datapath: &mut Datapath, schema: &Sample, call: CallId, kind: ItemKind, now: Time) {
    let direction = match kind {
        ItemKind::Head | ItemKind::End => Direction::Inbound,
        _ => Direction::Outbound,
    };
    // An engine may have ended the call.
    if let Ok(index) = datapath.submit(call, Submission::new(kind, direction, 64), now)
        && matches!(kind, ItemKind::Request | ItemKind::Message)
    {
        for (id, kind) in &schema.wanted {
            datapath.fields_mut(index).insert(*id, value(*kind));
        }
    }
    datapath.run(now);
    while datapath.pop_void().is_some() {}
    for direction in Direction::ALL {
        while datapath.take(direction).is_some() {}
    }
    while datapath.pop_void().is_some() {}
}

fn sample(is_stream: bool, now: Time) -> Call {
    Call {
        application: Application(1),
        peer: Peer(1),
        method: METHOD,
        requests: Direction::Outbound,
        is_stream,
        is_idempotent: false,
        is_sealed: false,
        attempt: 0,
        began: now,
        deadline: Time::NEVER,
        identity: Some("sample".into()),
    }
}

fn value(kind: FieldKind) -> Value<'static> {
    match kind {
        FieldKind::Bool => Value::Bool(true),
        FieldKind::Signed => Value::Signed(-1),
        FieldKind::Unsigned => Value::Unsigned(1),
        FieldKind::Float => Value::Float(0.5),
        FieldKind::Text => Value::Text("sample"),
        FieldKind::Bytes => Value::Bytes(b"sample"),
    }
}

/// A schema that has every field. Each is a text, unless it has been asked for as something else.
#[derive(Default)]
struct Sample {
    kinds: Vec<(String, FieldKind)>,
    wanted: Vec<(FieldId, FieldKind)>,
}

impl Schema for Sample {
    fn field(
        &mut self,
        _: MethodId,
        path: &str,
        id: FieldId,
        _: bool,
    ) -> Result<FieldKind, FieldError> {
        let known = self.kinds.iter().find(|(known, _)| known == path);
        let kind = known.map_or(FieldKind::Text, |(_, kind)| *kind);
        self.forget(id);
        self.wanted.push((id, kind));
        Ok(kind)
    }

    fn forget(&mut self, id: FieldId) {
        self.wanted.retain(|(wanted, _)| *wanted != id);
    }
}
