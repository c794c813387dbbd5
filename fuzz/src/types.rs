//! Messages as codegen prints them: every kind of field, in every form.
#![allow(missing_docs, clippy::all, dead_code, reason = "generated, and of a test's fixture")]

#[path = "../../crates/message/tests/fixture/kinds.rs"]
mod kinds;

pub use kinds::*;
use petasos_message::Msg;
use petasos_message::well_known::Value;

/// A message of each type, with something in every field.
pub fn filled() -> (Msg<Single>, Msg<Lists>, Msg<Maps>, Msg<Choice>) {
    let mut single = Single::new();
    single
        .edit()
        .set_b(true)
        .set_i32(-5)
        .set_i64(1 << 40)
        .set_u32(7)
        .set_f32(0.5)
        .set_s("a string that is longer than others")
        .set_d(&[1, 2, 3][..])
        .set_e(Shade::DARK)
        .set_os("present")
        .set_od(&[][..])
        .set_of(f64::NAN);
    single.edit().m_mut().set_u64(9).m_mut().set_s("deep");
    let mut lists = Lists::new();
    lists.edit().b_mut().extend([true, false]);
    lists.edit().i32_mut().extend([-1, 0, 300]);
    lists.edit().f64_mut().extend((0..600).map(f64::from));
    lists.edit().d_mut().push(&[7; 40][..]).push(&[][..]);
    lists.edit().m_mut().add().u32_mut().extend([1, 2, 3]);
    lists.edit().c_mut().add().set_i32(4);
    let mut maps = Maps::new();
    maps.edit().i64_mut().insert(-4, Shade::LIGHT);
    maps.edit().u64_mut().insert(4, 0.25);
    let mut choice = Choice::new();
    choice.edit().set_s("chosen").set_name("other");
    (single, lists, maps, choice)
}

/// A value of JSON that contains others.
pub fn value() -> Msg<Value> {
    let mut value = Value::new();
    let mut edit = value.edit();
    let mut list = edit.list_value_mut();
    let mut values = list.values_mut();
    values.add().set_number_value(1.5);
    values.add().set_string_value("text");
    values.add().struct_value_mut().fields_mut();
    value
}
