use petasos_plugin_abi::Code;

use super::*;
use crate::declare::Field;

/// Adds what its metadata says to a number, and refuses what has become too much.
struct Adder;

struct Adding {
    number: Option<Field>,
    sum: u64,
}

impl Policy for Adder {
    const NAME: &str = "adder";
    const STATE_VERSION: u32 = 1;
    const INTERESTS: &[ItemKind] = &[ItemKind::Request];
    type Engine = Adding;

    fn new(configuration: &str, _: Option<&str>) -> Result<Adder, Refusal> {
        match configuration {
            "{}" => Ok(Adder),
            _ => Err(Refusal::Configuration("it has none".into())),
        }
    }

    fn engine(self: &Arc<Adder>, state: Option<&str>) -> Result<Adding, Refusal> {
        let sum = state.map_or(Ok(0), str::parse);
        let sum = sum.map_err(|_| Refusal::State("it is no number".into()))?;
        Ok(Adding { number: None, sum })
    }

    fn report(&self) -> Option<String> {
        Some("{}".to_owned())
    }
}

impl Engine for Adding {
    fn method(&mut self, _: MethodId, name: &str, declare: &mut Declare<'_>) -> Result<(), String> {
        let number = declare.writes("number", FieldKind::Unsigned);
        self.number = Some(number.map_err(|_| format!("{name} has no number"))?);
        declare.reads_any("number").map(drop).map_err(|_| "it was there".to_owned())
    }

    fn item(&mut self, item: &mut Item<'_>) -> Result<(), Status> {
        let Some(field) = self.number else { return Ok(()) };
        let Some(Value::Unsigned(number)) = item.field(field) else { return Ok(()) };
        let more = item.metadata("more").map_or(0, |more| more.len() as u64);
        item.remove_metadata("more");
        self.sum = number + more;
        if self.sum > 9 {
            return Err(Status::new(Code::OutOfRange, "too much"));
        }
        let wrong = item.set_field(field, &Value::Signed(1));
        assert_eq!(wrong, Err(Failure::Invalid), "it is of another kind");
        let set = item.set_field(field, &Value::Unsigned(self.sum));
        set.map_err(|_| Status::new(Code::Internal, "it cannot be set"))
    }

    fn state(&self) -> Option<String> {
        Some(self.sum.to_string())
    }
}

fn rig() -> Rig<Adder> {
    Rig::new("{}").expect("it is right")
}

#[test]
fn an_engine_reads_changes_and_refuses_what_a_test_makes() {
    let mut rig = rig();
    let method = rig.method("Test/Add", &[("number", FieldKind::Unsigned)]).expect("it is right");
    let mut item = TestItem::request(method).with("number", Value::Unsigned(3));
    item.metadata.push(("more".to_owned(), b"12".to_vec()));
    assert_eq!(rig.decide(&mut item), Ok(()));
    assert_eq!(item, TestItem::request(method).with("number", Value::Unsigned(5)));
    let mut much = TestItem::request(method).with("number", Value::Unsigned(10));
    assert_eq!(rig.decide(&mut much), Err(Status::new(Code::OutOfRange, "too much")));
    assert_eq!((rig.state().as_deref(), rig.report().as_deref()), (Some("10"), Some("{}")));
    let next = rig.replace::<Adder>("{}").expect("it goes on");
    assert_eq!(next.state().as_deref(), Some("10"));
}

#[test]
fn fields_are_those_of_the_method() {
    let mut rig = rig();
    let none = rig.method("Test/Other", &[("other", FieldKind::Text)]);
    assert_eq!(none, Err("Test/Other has no number".to_owned()));
    let other_kind = rig.method("Test/Text", &[("number", FieldKind::Text)]);
    assert_eq!(other_kind, Err("Test/Text has no number".to_owned()));
    rig.method("Test/Add", &[("number", FieldKind::Unsigned)]).expect("it is right");
    // An item of another method, which has not declared the field.
    let mut item = TestItem::request(MethodId(0)).with("number", Value::Unsigned(3));
    assert_eq!(rig.decide(&mut item), Ok(()));
    assert_eq!(item.fields["number"], Value::Unsigned(3));
}

#[test]
fn what_is_refused_is_told() {
    let wrong = Rig::<Adder>::new("[]").err();
    assert_eq!(wrong, Some(Refusal::Configuration("it has none".into())));
    let wrong = Rig::<Adder>::from_states("{}", None, Some("x")).err();
    assert_eq!(wrong, Some(Refusal::State("it is no number".into())));
}
