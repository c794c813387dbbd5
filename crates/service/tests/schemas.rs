//! Schemas that applications submit.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;

use petasos_base::Rng;
use petasos_schema::Limits;
use petasos_service::{BindError, SchemaLimits, Schemas};

fn schema() -> Vec<u8> {
    let protos = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/protos");
    let compiled = petasos_schema::compile(["greet.proto"], [protos], &Default::default());
    compiled.unwrap().schema.encode()
}

#[test]
fn a_schema_is_checked_once_and_forgotten_with_its_last_binding() {
    let mut schemas = Schemas::new(SchemaLimits::default());
    let bytes = schema();
    let first = schemas.bind(&bytes, "greet.Greeter").unwrap();
    let second = schemas.bind(&bytes, "greet.Greeter").unwrap();
    assert!(Arc::ptr_eq(&first.types, &second.types));
    assert_eq!(schemas.bytes(), bytes.len());
    let numbers = |binding: &petasos_service::Binding| {
        binding.methods.iter().map(|method| method.id).collect::<Vec<_>>()
    };
    let before = numbers(&first);
    assert_eq!(numbers(&second), before, "a method has one number");
    drop((first, second));
    assert_eq!(schemas.bytes(), 0);
    let again = schemas.bind(&bytes, "greet.Greeter").unwrap();
    let after = numbers(&again);
    assert!(after.iter().all(|id| !before.contains(id)), "a number is given once");
    assert_eq!(*again.methods[1].name, *"greet.Greeter/Greet");
}

#[test]
fn hostile_schemas_are_refused_and_fill_nothing() {
    let mut schemas = Schemas::new(SchemaLimits::default());
    let bytes = schema();
    assert!(matches!(schemas.bind(&[], "a"), Err(BindError::NoService(_) | BindError::Schema(_))));
    assert!(matches!(schemas.bind(&bytes, "greet.None"), Err(BindError::NoService(_))));
    let mut rng = Rng::new(5);
    for _ in 0..5000 {
        let mut damaged = bytes.clone();
        for _ in 0..=rng.below(3) {
            let at = rng.below(damaged.len() as u64) as usize;
            damaged[at] = rng.next_u64() as u8;
        }
        damaged.truncate(rng.below(2 * bytes.len() as u64) as usize);
        drop(schemas.bind(&damaged, "greet.Greeter"));
    }
    assert_eq!(schemas.bytes(), 0);
    let long = vec![0; (256 << 10) + 1];
    assert!(matches!(schemas.bind(&long, "a"), Err(BindError::Schema(_))));
}

#[test]
fn all_schemas_together_and_all_methods_are_bounded() {
    let bytes = schema();
    let limits = |bytes_max, methods_max| {
        let schema = Limits::default();
        SchemaLimits { schema, bytes_max, methods_max, ..SchemaLimits::default() }
    };
    let mut schemas = Schemas::new(limits(bytes.len(), 100));
    let held = schemas.bind(&bytes, "greet.Greeter").unwrap();
    // With another name for one field it is another schema.
    let at = bytes.windows(5).position(|text| text == b"count").unwrap();
    let other = [&bytes[..at], b"other", &bytes[at + 5..]].concat();
    assert!(matches!(schemas.bind(&other, "greet.Greeter"), Err(BindError::TooMany)));
    assert!(schemas.bind(&bytes, "greet.Greeter").is_ok(), "it is known");
    drop(held);
    assert!(schemas.bind(&other, "greet.Greeter").is_ok());
    let mut schemas = Schemas::new(limits(1 << 20, 1));
    assert!(matches!(schemas.bind(&bytes, "greet.Greeter"), Err(BindError::TooMany)));
    // Methods that nobody has any more make room.
    let mut schemas = Schemas::new(limits(1 << 20, 2));
    drop(schemas.bind(&bytes, "greet.Greeter").unwrap());
    assert!(schemas.bind(&other, "greet.Greeter").is_ok());
}
