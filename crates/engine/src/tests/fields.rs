//! Declared fields (E3), and states (E5).

use std::sync::{Arc, Mutex};

use super::support::*;
use crate::*;

/// Declares fields, and writes one of them.
struct Declares {
    fields: Vec<(&'static str, FieldKind)>,
    writes: Option<&'static str>,
    read: Arc<Mutex<Vec<String>>>,
}

struct DeclaresEngine {
    policy: Arc<Declares>,
    ids: Vec<FieldId>,
    written: Option<FieldId>,
}

struct Shared(Arc<Declares>);

impl Policy for Shared {
    fn engine(&self, _: Option<&State>) -> Result<Box<dyn Engine>, PolicyError> {
        let policy = self.0.clone();
        Ok(Box::new(DeclaresEngine { policy, ids: Vec::new(), written: None }))
    }
    fn state(&self) -> State {
        State::new(VERSION, &())
    }
}

impl Engine for DeclaresEngine {
    fn method(
        &mut self,
        _: MethodId,
        _: &str,
        declare: &mut Declare<'_>,
    ) -> Result<(), FieldError> {
        for (path, kind) in &self.policy.fields {
            self.ids.push(declare.reads(path, *kind)?);
        }
        if let Some(path) = self.policy.writes {
            self.written = Some(declare.writes(path, FieldKind::Text)?);
        }
        Ok(())
    }

    fn work(&mut self, work: &mut Work<'_>) {
        while let Some(item) = work.next(Direction::Outbound) {
            for id in &self.ids {
                let value = format!("{:?}", work.field(&item, *id));
                self.policy.read.lock().unwrap().push(value);
            }
            if let Some(id) = self.written {
                work.set_field(&item, id, Value::Text("written"));
            }
            work.forward(item);
        }
    }

    fn decompose(self: Box<Self>, _: &mut Decompose<'_>) -> Option<State> {
        None
    }
}

fn declares(
    fields: &[(&'static str, FieldKind)],
    writes: Option<&'static str>,
) -> (Arc<dyn Policy>, Arc<Mutex<Vec<String>>>) {
    let read = Arc::<Mutex<Vec<String>>>::default();
    let declares = Declares { fields: fields.to_vec(), writes, read: read.clone() };
    (Arc::new(Shared(Arc::new(declares))), read)
}

fn schema() -> TestSchema {
    TestSchema {
        fields: vec![("name", FieldKind::Text), ("age", FieldKind::Signed)],
        wanted: vec![],
    }
}

#[test]
fn e3_engines_see_what_they_declared_and_what_others_wrote() {
    let mut schema = schema();
    let mut datapath = Datapath::new(10, 7);
    let (writer, _) = declares(&[], Some("name"));
    let (reader, read) = declares(&[("name", FieldKind::Text), ("age", FieldKind::Signed)], None);
    datapath.attach(0, reader.clone(), &mut schema).unwrap();
    datapath.add_method(MethodId(3), "p.S/M", &mut schema).unwrap();
    datapath.attach(0, writer, &mut schema).unwrap();
    assert_eq!(schema.wanted.len(), 2, "each field once: {:?}", schema.wanted);
    let id = datapath.begin(call(Direction::Outbound, false)).unwrap();
    let index = submit(&mut datapath, id, ItemKind::Request, 1).unwrap();
    let name = schema.wanted.iter().find(|(_, path, ..)| path == "name").unwrap();
    assert!(name.3, "it is written");
    datapath.fields_mut(index).insert(name.2, Value::Text("sent"));
    datapath.run(Time::ZERO);
    assert_eq!(*read.lock().unwrap(), ["Some(Text(\"written\"))", "None"]);
    let next = datapath.peek(Direction::Outbound).unwrap();
    assert_eq!((next.index, next.call, next.kind), (index, id, ItemKind::Request));
    let written: Vec<_> = next.fields.written().collect();
    assert_eq!(written, [(name.2, Value::Text("written"))]);
    datapath.take(Direction::Outbound).unwrap();
    datapath.detach(0, &mut schema).unwrap();
    datapath.detach(0, &mut schema).unwrap();
    assert!(schema.wanted.is_empty(), "nobody declares anything any more");
    let again = datapath.attach(0, reader, &mut schema);
    assert!(again.is_ok() && schema.wanted.iter().any(|wanted| wanted.2.index() < 2));
}

#[test]
fn e3_a_field_that_is_not_there_is_an_error_that_changes_nothing() {
    let mut schema = schema();
    let mut datapath = Datapath::new(10, 7);
    let (wrong, _) = declares(&[("name", FieldKind::Text), ("nam", FieldKind::Text)], None);
    datapath.attach(0, wrong.clone(), &mut schema).expect("there is no method yet");
    let refused = datapath.add_method(MethodId(3), "p.S/M", &mut schema);
    assert!(matches!(refused, Err(FieldError::Unknown { path, .. }) if path == "nam"));
    assert!(schema.wanted.is_empty());
    datapath.detach(0, &mut schema).unwrap();
    datapath.add_method(MethodId(3), "p.S/M", &mut schema).unwrap();
    let refused = datapath.attach(0, wrong, &mut schema);
    assert!(matches!(refused, Err(ChangeError::Field(FieldError::Unknown { .. }))));
    let (kind, _) = declares(&[("age", FieldKind::Text)], None);
    let refused = datapath.attach(0, kind, &mut schema);
    assert!(matches!(refused, Err(ChangeError::Field(FieldError::Kind { .. }))), "{refused:?}");
    assert!(datapath.is_empty() && schema.wanted.is_empty());
}

#[test]
fn values_are_kept_as_they_are_and_written_ones_are_listed_once() {
    let mut fields = Fields::default();
    let values = [
        Value::Bool(true),
        Value::Signed(-1),
        Value::Unsigned(u64::MAX),
        Value::Float(0.5),
        Value::Text("text"),
        Value::Bytes(&[0, 255]),
    ];
    for (index, value) in values.iter().enumerate() {
        fields.insert(FieldId(index as u16), *value);
    }
    for (index, value) in values.iter().enumerate() {
        assert_eq!(fields.get(FieldId(index as u16)), Some(*value));
        assert_eq!(fields.get(FieldId(index as u16)).map(|value| value.kind()), Some(value.kind()));
    }
    fields.put(FieldId(4), Value::Text("a"), true);
    fields.put(FieldId(4), Value::Text("longer"), true);
    assert_eq!(fields.written().collect::<Vec<_>>(), [(FieldId(4), Value::Text("longer"))]);
    fields.clear();
    assert_eq!((fields.get(FieldId(0)), fields.written().count()), (None, 0));
}

#[test]
fn e5_states_of_later_versions_and_of_others_are_refused() {
    let state = State { kind: "test".to_owned(), version: 1, json: "5".to_owned() };
    assert_eq!(state.read::<u32>(VERSION), Ok(5), "an earlier version");
    let later = State { version: 3, ..state.clone() };
    let error = later.read::<u32>(VERSION).unwrap_err().to_string();
    assert!(error.contains("version 3") && error.contains("version 2"), "{error}");
    let other = State { kind: "other".to_owned(), ..state.clone() };
    assert!(other.read::<u32>(VERSION).unwrap_err().to_string().contains("`other`"));
    assert!(state.read::<String>(VERSION).is_err());
}

#[test]
fn e6_a_configuration_that_cannot_be_read_says_where() {
    assert!(TestKind.make("\"Pass\"", None).is_ok());
    let error = TestKind.make("{", None).err().expect("it is no JSON").to_string();
    assert!(error.starts_with("the configuration of `test` is wrong: "), "{error}");
}
