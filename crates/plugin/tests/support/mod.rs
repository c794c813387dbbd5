//! A datapath with one engine of a plug-in, and calls in it.

use std::sync::Arc;

use petasos_engine::*;

/// The method whose calls are made.
pub const METHOD: (MethodId, &str) = (MethodId(3), "pkg.Service/Method");

/// A datapath with an engine.
pub struct Rig {
    pub datapath: Datapath,
    pub schema: TestSchema,
    /// Of the other end of calls.
    pub identity: Option<Arc<str>>,
}

/// What became of a request.
#[derive(Debug, PartialEq)]
pub enum Outcome {
    /// It has left, with this metadata and these values that the engine has written.
    Passed { metadata: Vec<(String, String)>, written: Vec<String> },
    /// Its call has ended.
    Ended(Code, String),
}

impl Rig {
    pub fn new(policy: &Arc<dyn Policy>) -> Rig {
        Rig::told(policy).expect("it is content")
    }

    /// The same, unless the engine refuses the method.
    pub fn told(policy: &Arc<dyn Policy>) -> Result<Rig, FieldError> {
        let mut schema = TestSchema::default();
        let mut datapath = Datapath::new(1000, 7);
        datapath.attach(0, Arc::clone(policy), &mut schema).expect("it is placed");
        datapath.add_method(METHOD.0, METHOD.1, &mut schema)?;
        Ok(Rig { datapath, schema, identity: None })
    }

    /// Makes a call with this `name` and `count`.
    pub fn request(&mut self, name: &str, count: u64) -> Outcome {
        self.request_with(name, count, Metadata::new())
    }

    pub fn request_with(&mut self, name: &str, count: u64, metadata: Metadata) -> Outcome {
        let call = Call { identity: self.identity.clone(), ..call() };
        let call = self.datapath.begin(call).expect("there is room");
        let mut item = Submission::new(ItemKind::Request, Direction::Outbound, 100);
        item.metadata = metadata;
        let index = self.datapath.submit(call, item, Time::ZERO).expect("the call is there");
        for (path, id) in &self.schema.wanted {
            let value = match &**path {
                "name" => Value::Text(name),
                _ => Value::Unsigned(count),
            };
            self.datapath.fields_mut(index).insert(*id, value);
        }
        self.datapath.run(Time::ZERO);
        while self.datapath.pop_void().is_some() {}
        if let Some(next) = self.datapath.peek(Direction::Outbound) {
            let written = next.fields.written().map(|(_, value)| format!("{value:?}")).collect();
            let item = self.datapath.take(Direction::Outbound).expect("it was there");
            let entries = item.metadata.iter();
            let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
            let metadata = entries.map(|(key, value)| (key.to_owned(), text(value))).collect();
            self.finish(call);
            return Outcome::Passed { metadata, written };
        }
        let item = self.datapath.take(Direction::Inbound).expect("its call has ended");
        let status = item.status.expect("it failed");
        Outcome::Ended(status.code(), status.message().to_owned())
    }

    fn finish(&mut self, call: CallId) {
        let end = Submission::new(ItemKind::End, Direction::Inbound, 10);
        self.datapath.submit(call, end, Time::ZERO).expect("the call is there");
        self.datapath.run(Time::ZERO);
        self.datapath.take(Direction::Inbound).expect("the end passes");
    }

    /// Puts another policy's engine in the place of the one that is there.
    pub fn replace(&mut self, policy: &Arc<dyn Policy>) -> Result<(), ChangeError> {
        self.datapath.replace(0, Arc::clone(policy), &mut self.schema).map(drop)
    }

    pub fn detach(mut self) -> Option<State> {
        self.datapath.detach(0, &mut self.schema).expect("it is there")
    }
}

pub fn passed() -> Outcome {
    Outcome::Passed { metadata: Vec::new(), written: Vec::new() }
}

/// Makes a policy.
pub fn make(
    kind: &dyn PolicyKind,
    configuration: &str,
    state: Option<&State>,
) -> Result<Arc<dyn Policy>, PolicyError> {
    kind.make(configuration, state).map(Arc::from)
}

fn call() -> Call {
    Call {
        application: Application(1),
        peer: Peer(2),
        method: METHOD.0,
        requests: Direction::Outbound,
        is_stream: false,
        is_idempotent: false,
        is_sealed: false,
        attempt: 0,
        began: Time::ZERO,
        deadline: Time::NEVER,
        identity: None,
    }
}

/// A schema in which each method has a text `name` and a number `count`.
#[derive(Default)]
pub struct TestSchema {
    pub wanted: Vec<(String, FieldId)>,
}

impl Schema for TestSchema {
    fn field(
        &mut self,
        _: MethodId,
        path: &str,
        id: FieldId,
        _: bool,
    ) -> Result<FieldKind, FieldError> {
        let kind = match path {
            "name" => FieldKind::Text,
            "count" => FieldKind::Unsigned,
            _ => {
                let (method, path) = (METHOD.1.to_owned(), path.to_owned());
                return Err(FieldError::Unknown { method, path });
            }
        };
        self.wanted.push((path.to_owned(), id));
        Ok(kind)
    }

    fn forget(&mut self, id: FieldId) {
        self.wanted.retain(|(_, wanted)| *wanted != id);
    }
}
