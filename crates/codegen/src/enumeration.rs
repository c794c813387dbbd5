//! Enums: a number with named constants.

use petasos_schema::{Enum, EnumValue};

use crate::docs;
use crate::names::{Allocator, shout};
use crate::text::Text;

/// Writes the enum `item`, whose Rust name is `name`.
pub(crate) fn write(item: &Enum, name: &str, text: &mut Text) {
    let comment = docs::lines(item.comment());
    let declaration = "so numbers without a name are values, too.";
    let declaration = format!("`enum {}`: open, {declaration}", item.local_name());
    text.doc(&[&comment, &[declaration]]);
    text.line("#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]");
    text.line("#[repr(transparent)]");
    text.line(format!("pub struct {name}(pub i32);"));
    text.blank();
    text.open(format!("impl {name} {{"));
    let constants = constants(item);
    for (at, (value, constant)) in item.values().iter().zip(&constants).enumerate() {
        if at > 0 {
            text.blank();
        }
        let number = value.number();
        let declaration = format!("`{} = {number}`", value.name());
        text.doc(&[&docs::lines(value.comment()), &[declaration]]);
        text.line(format!("pub const {constant}: {name} = {name}({number});"));
    }
    text.close("}");
    text.blank();
    write_macro(item, name, text);
}

/// Tells the runtime each number's first name.
fn write_macro(item: &Enum, name: &str, text: &mut Text) {
    let mut names: Vec<&EnumValue> = item.values().iter().collect();
    names.dedup_by_key(|value| value.number());
    let arms: Vec<String> =
        names.iter().map(|value| format!("{} => {:?}", value.number(), value.name())).collect();
    let line = format!("rt::open_enum! {{ {name}; {} }}", arms.join(", "));
    if line.len() <= 80 {
        return text.line(line);
    }
    text.open("rt::open_enum! {");
    text.line(format!("{name};"));
    text.words(&arms, "");
    text.close("}");
}

/// The constants' names, without the enum's name as a prefix, which protobuf's style guide
/// recommends. If another value has the shortened name in full, the prefix stays.
fn constants(item: &Enum) -> Vec<String> {
    let last = item.local_name().rsplit('.').next().unwrap_or_default();
    let prefix = format!("{}_", shout(last));
    let short = |value: &EnumValue| {
        let full = shout(value.name());
        let short = full.strip_prefix(&prefix)?;
        let is_name = short.starts_with(|first: char| first.is_ascii_alphabetic());
        let is_free = item.values().iter().all(|other| shout(other.name()) != short);
        (is_name && is_free).then(|| short.to_owned())
    };
    let mut names = Allocator::default();
    let wanted =
        item.values().iter().map(|value| short(value).unwrap_or_else(|| shout(value.name())));
    wanted.map(|wanted| names.take(wanted)).collect()
}
