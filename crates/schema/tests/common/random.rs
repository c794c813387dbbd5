//! Random schemas, as descriptors.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use prost_reflect::prost_types::field_descriptor_proto::{Label, Type};
use prost_reflect::prost_types::{
    DescriptorProto, EnumDescriptorProto, EnumValueDescriptorProto, FieldDescriptorProto,
    FieldOptions, FileDescriptorProto, FileDescriptorSet, MessageOptions, MethodDescriptorProto,
    MethodOptions, OneofDescriptorProto, ServiceDescriptorProto,
};

/// What a random field is, its types chosen later from what the schema has.
#[derive(Clone, Debug)]
struct FieldPlan {
    shape: u8,
    kind: u8,
    key: u8,
    to: Index,
    number_gap: i32,
    flag: bool,
}

#[derive(Clone, Debug)]
struct MessagePlan {
    fields: Vec<FieldPlan>,
    is_nested: bool,
}

fn field_plan() -> impl Strategy<Value = FieldPlan> {
    (0..6u8, 0..17u8, 0..12u8, any::<Index>(), 1..40i32, any::<bool>()).prop_map(
        |(shape, kind, key, to, number_gap, flag)| FieldPlan {
            shape,
            kind,
            key,
            to,
            number_gap,
            flag,
        },
    )
}

const KINDS: [Type; 17] = [
    Type::Message,
    Type::Enum,
    Type::Double,
    Type::Float,
    Type::Bytes,
    Type::Int32,
    Type::Int64,
    Type::Uint32,
    Type::Uint64,
    Type::Sint32,
    Type::Sint64,
    Type::Fixed32,
    Type::Fixed64,
    Type::Sfixed32,
    Type::Sfixed64,
    Type::Bool,
    Type::String,
];

/// A valid set of one file: up to twelve messages, half of them nested in the one before, that
/// refer to each other in any way, two enums, and services.
pub fn descriptor_set() -> impl Strategy<Value = FileDescriptorSet> {
    let message = (vec(field_plan(), 0..8), any::<bool>())
        .prop_map(|(fields, is_nested)| MessagePlan { fields, is_nested });
    let method = (any::<Index>(), any::<Index>(), any::<[bool; 2]>(), 0..3i32);
    (vec(message, 1..12), vec(any::<i32>(), 0..5), vec(method, 0..4)).prop_map(
        |(messages, values, methods)| {
            let names = names(&messages);
            let mut file = FileDescriptorProto {
                name: Some("random.proto".into()),
                package: Some("random.test".into()),
                syntax: Some("proto3".into()),
                ..Default::default()
            };
            for (at, plan) in messages.iter().enumerate() {
                let message = message_from(at, plan, &names);
                match file.message_type.last_mut() {
                    Some(outer) if plan.is_nested => outer.nested_type.push(message),
                    _ => file.message_type.push(message),
                }
            }
            file.enum_type = vec![enumeration("First", &[]), enumeration("Second", &values)];
            let methods =
                methods.iter().enumerate().map(|(at, (input, output, streams, level))| {
                    MethodDescriptorProto {
                        name: Some(format!("Method{}", 9 - at)),
                        input_type: Some(input.get(&names).clone()),
                        output_type: Some(output.get(&names).clone()),
                        options: Some(MethodOptions {
                            idempotency_level: Some(*level),
                            ..Default::default()
                        }),
                        client_streaming: Some(streams[0]),
                        server_streaming: Some(streams[1]),
                    }
                });
            file.service = vec![ServiceDescriptorProto {
                name: Some("Service".into()),
                method: methods.collect(),
                options: None,
            }];
            FileDescriptorSet { file: vec![file] }
        },
    )
}

/// The full names of the messages, each nested in the last one that is not.
fn names(messages: &[MessagePlan]) -> Vec<String> {
    let mut outer = None;
    let mut names = Vec::new();
    for (at, plan) in messages.iter().enumerate() {
        match &outer {
            Some(outer) if plan.is_nested => names.push(format!("{outer}.Message{at}")),
            _ => {
                let name = format!(".random.test.Message{at}");
                names.push(name.clone());
                outer = Some(name);
            }
        }
    }
    names
}

fn enumeration(name: &str, values: &[i32]) -> EnumDescriptorProto {
    let values = std::iter::once(&0).chain(values).enumerate();
    let value = values.map(|(at, number)| EnumValueDescriptorProto {
        name: Some(format!("{name}_VALUE_{at}")),
        number: Some(*number),
        options: None,
    });
    EnumDescriptorProto { name: Some(name.into()), value: value.collect(), ..Default::default() }
}

fn message_from(at: usize, plan: &MessagePlan, names: &[String]) -> DescriptorProto {
    let mut message = DescriptorProto { name: Some(format!("Message{at}")), ..Default::default() };
    let mut number = 0;
    for (place, plan) in plan.fields.iter().enumerate() {
        number += plan.number_gap;
        let kind = KINDS[usize::from(plan.kind)];
        let mut field = field(&format!("field_{place}"), number, kind, plan, names);
        match plan.shape {
            0 => {}
            1 => {
                field.proto3_optional = Some(true);
                field.oneof_index = Some(oneof(&mut message, &format!("_field_{place}")));
            }
            2 => field.oneof_index = Some(oneof(&mut message, "first_oneof")),
            3 => field.oneof_index = Some(oneof(&mut message, "second_oneof")),
            4 => {
                field.label = Some(Label::Repeated.into());
                if !matches!(kind, Type::Message | Type::String | Type::Bytes) {
                    field.options =
                        Some(FieldOptions { packed: Some(plan.flag), ..Default::default() });
                }
            }
            _ => {
                let entry = format!("Field{place}Entry");
                let key = KINDS[5 + usize::from(plan.key)];
                let fields = vec![
                    self::field("key", 1, key, plan, names),
                    FieldDescriptorProto { name: Some("value".into()), number: Some(2), ..field },
                ];
                let options = MessageOptions { map_entry: Some(true), ..Default::default() };
                message.nested_type.push(DescriptorProto {
                    name: Some(entry.clone()),
                    field: fields,
                    options: Some(options),
                    ..Default::default()
                });
                field = FieldDescriptorProto {
                    name: Some(format!("field_{place}")),
                    number: Some(number),
                    label: Some(Label::Repeated.into()),
                    r#type: Some(Type::Message.into()),
                    type_name: Some(format!("{}.{entry}", names[at])),
                    ..Default::default()
                };
            }
        }
        if plan.flag {
            field.json_name = Some(format!("json name {place}"));
        }
        message.field.push(field);
    }
    message
}

/// A single field; its message or enum, if it is one, is the plan's.
fn field(
    name: &str,
    number: i32,
    kind: Type,
    plan: &FieldPlan,
    names: &[String],
) -> FieldDescriptorProto {
    let enums = [".random.test.First".to_owned(), ".random.test.Second".to_owned()];
    let type_name = match kind {
        Type::Message => Some(plan.to.get(names).clone()),
        Type::Enum => Some(plan.to.get(&enums).clone()),
        _ => None,
    };
    FieldDescriptorProto {
        name: Some(name.into()),
        number: Some(number),
        label: Some(Label::Optional.into()),
        r#type: Some(kind.into()),
        type_name,
        ..Default::default()
    }
}

/// The index of the oneof `name`, declared if it is new.
fn oneof(message: &mut DescriptorProto, name: &str) -> i32 {
    let at = message.oneof_decl.iter().position(|oneof| oneof.name() == name);
    let at = at.unwrap_or_else(|| {
        message.oneof_decl.push(OneofDescriptorProto { name: Some(name.into()), options: None });
        message.oneof_decl.len() - 1
    });
    at as i32
}
