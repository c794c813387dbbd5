//! Schemas that applications submit.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::sync::Arc;

use petasos_base::Rng;
use petasos_schema::{Digest, Limits};
use petasos_service::{BindError, Binding, Host, SchemaLimits, Schemas};

fn schema() -> Vec<u8> {
    version("")
}

/// Another version of it: the folder of its file.
fn version(folder: &str) -> Vec<u8> {
    let protos = format!("{}/tests/protos/{folder}", env!("CARGO_MANIFEST_DIR"));
    let compiled = petasos_schema::compile(["greet.proto"], [protos], &Default::default());
    compiled.unwrap().schema.encode()
}

/// The same with another name for a field.
fn schema_with(field: &str) -> Vec<u8> {
    let mut bytes = schema();
    let at = bytes.windows(5).position(|text| text == b"count").unwrap();
    bytes[at..at + 5].copy_from_slice(field.as_bytes());
    bytes
}

/// Limits with so many schemas that nobody has bound.
fn spare(spare_max: usize) -> SchemaLimits {
    SchemaLimits { spare_max, ..SchemaLimits::default() }
}

#[test]
fn d13_a_digest_names_the_bytes_and_nothing_else() {
    let mut schemas = Schemas::new(SchemaLimits::default());
    // A hostile application submits a schema whose messages have the same hashes, with other names:
    // a policy on the field `count` would not see it.
    let (schema, hostile) = (schema(), schema_with("other"));
    let first = schemas.bind(&hostile, "greet.Greeter").unwrap();
    let recalled = schemas.recall(Digest::of(&schema), "greet.Greeter");
    assert!(matches!(recalled, Err(BindError::Unknown)));
    let honest = schemas.bind(&schema, "greet.Greeter").unwrap();
    assert_eq!(first.types.schema().hash(), honest.types.schema().hash());
    for (bytes, name) in [(&hostile, "other"), (&schema, "count")] {
        let bound = schemas.recall(Digest::of(bytes), "greet.Greeter").unwrap();
        let request = bound.types.schema().message_by_name("greet.Request").unwrap().1;
        assert_eq!((request.fields()[1].name(), bound.known().bytes()), (name, &bytes[..]));
    }
}

#[test]
fn schemas_that_nobody_has_are_kept_in_the_order_of_their_use() {
    let mut schemas = Schemas::new(spare(2));
    let of = |at: usize| schema_with(&format!("f{at:04}"));
    let is_known = |schemas: &Schemas, at| schemas.get(Digest::of(&of(at))).is_some();
    for at in 0..3 {
        schemas.bind(&of(at), "greet.Greeter").unwrap();
    }
    schemas.recall(Digest::of(&of(1)), "greet.Greeter").unwrap();
    let held = schemas.bind(&of(3), "greet.Greeter").unwrap();
    schemas.bind(&of(4), "greet.Greeter").unwrap();
    schemas.bind(&of(5), "greet.Greeter").unwrap();
    let known: Vec<_> = (0..6).filter(|at| is_known(&schemas, *at)).collect();
    assert_eq!(known, [1, 3, 4, 5], "the last is looked at with the next");
    // What is loaded stays, and what is bound cannot be evicted.
    let (loaded, _) = schemas.load(&of(6), true).unwrap();
    for at in 7..20 {
        schemas.bind(&of(at), "greet.Greeter").unwrap();
    }
    assert!(is_known(&schemas, 3) && is_known(&schemas, 6) && !is_known(&schemas, 1));
    assert_eq!(schemas.evict(Digest::of(&of(3))).unwrap_err(), 1);
    assert!(schemas.evict(loaded).unwrap().1);
    assert_eq!(schemas.evict(loaded).unwrap_err(), 0);
    drop(held);
    assert!(!schemas.evict(Digest::of(&of(3))).unwrap().1);
    assert!(schemas.all().len() <= 3);
    let bytes: usize = schemas.all().iter().map(|kept| kept.schema.bytes().len()).sum();
    assert_eq!(schemas.bytes(), bytes);
}

#[test]
fn methods_keep_the_numbers_of_another_process_until_its_applications_are_here() {
    let [before, after] = [(); 2].map(|()| Host::new(SchemaLimits::default()));
    let bind = |host: &Host, schema: &[u8]| host.schemas().bind(schema, "greet.Greeter").unwrap();
    let numbers =
        |binding: &Binding| -> Vec<_> { binding.methods.iter().map(|method| method.id).collect() };
    let (newer, other) = (version("newer"), version("other"));
    let [bound_newer, bound] = [&newer, &schema()].map(|schema| bind(&before, schema));
    after.inherit(before.policy_numbers()).unwrap();
    let again = bind(&after, &schema());
    assert_eq!(numbers(&again), numbers(&bound), "it is bound first here");
    let known = [numbers(&bound_newer), numbers(&bound)].concat();
    let bound_other = bind(&after, &other);
    assert!(numbers(&bound_other).iter().all(|number| !known.contains(number)));
    after.schemas().forget_inherited();
    let late = bind(&after, &newer);
    assert!(numbers(&late).iter().all(|number| !known.contains(number)), "nobody has come");
    assert_eq!(numbers(&bind(&after, &schema())), numbers(&bound), "it is still bound");
}

#[test]
fn a_schema_is_checked_once_and_its_methods_are_forgotten_with_its_last_binding() {
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
    assert_eq!(schemas.bytes(), bytes.len(), "it is kept for the next");
    let again = schemas.bind(&bytes, "greet.Greeter").unwrap();
    let after = numbers(&again);
    assert!(after.iter().all(|id| !before.contains(id)), "a number is given once");
    assert_eq!(*again.methods[1].name, *"greet.Greeter/Greet");
}

#[test]
fn hostile_schemas_are_refused_and_fill_nothing() {
    let mut schemas = Schemas::new(spare(3));
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
    assert!(schemas.all().len() <= 4, "few are kept");
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
