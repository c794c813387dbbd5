//! Random messages of random schemas, in both directions.

use petasos_base::Rng;
use proptest::prelude::*;
use prost_reflect::prost::Message as _;
use prost_reflect::{DynamicMessage, ReflectMessage};

use crate::random;
use crate::schemas::descriptor_set;
use crate::support::{Fixture, encode};

proptest! {
    #![proptest_config(petasos_cases::kept_with(200))]

    /// M28, M29, M31
    #[test]
    fn what_the_oracle_encodes_is_decoded_and_encoded_again(
        set in descriptor_set(),
        seed in any::<u64>(),
    ) {
        let fixture = Fixture::of(&set.encode_to_vec());
        let mut rng = Rng::new(seed);
        for descriptor in fixture.pool.all_messages().filter(|it| !it.is_map_entry()) {
            let message = random::message(&descriptor, &mut rng, false, 3);
            let theirs = message.encode_to_vec();
            let message = DynamicMessage::decode(descriptor.clone(), &theirs[..]).unwrap();
            let ours = encode(&fixture.decode(descriptor.full_name(), &theirs).unwrap());
            let back = DynamicMessage::decode(descriptor.clone(), &ours[..]).unwrap();
            prop_assert!(back == message, "{}\n{theirs:02x?}\n{ours:02x?}", descriptor.full_name());
            // Ours is canonical: it decodes to itself.
            prop_assert_eq!(fixture.recode(descriptor.full_name(), &ours).unwrap(), ours);
        }
    }

    /// M31
    #[test]
    fn without_maps_the_bytes_are_the_oracles(set in descriptor_set(), seed in any::<u64>()) {
        let fixture = Fixture::of(&set.encode_to_vec());
        let mut rng = Rng::new(seed);
        for descriptor in fixture.pool.all_messages().filter(|it| !it.is_map_entry()) {
            let theirs = random::message(&descriptor, &mut rng, true, 3).encode_to_vec();
            let ours = fixture.recode(descriptor.full_name(), &theirs).unwrap();
            prop_assert_eq!(ours, theirs);
        }
    }

    /// M29: records in another order, doubled and left out are what the oracle makes of them.
    #[test]
    fn shuffled_records_mean_what_the_oracle_says(set in descriptor_set(), seed in any::<u64>()) {
        let fixture = Fixture::of(&set.encode_to_vec());
        let mut rng = Rng::new(seed);
        for descriptor in fixture.pool.all_messages().filter(|it| !it.is_map_entry()) {
            let mut records = Vec::new();
            for _ in 0..3 {
                let message = random::message(&descriptor, &mut rng, false, 2);
                records.extend(records_of(&message));
            }
            for at in (1..records.len()).rev() {
                records.swap(at, rng.below(at as u64 + 1) as usize);
            }
            let bytes = records.concat();
            let theirs = DynamicMessage::decode(descriptor.clone(), &bytes[..]).unwrap();
            let ours = fixture.recode(descriptor.full_name(), &bytes).unwrap();
            let back = DynamicMessage::decode(descriptor.clone(), &ours[..]).unwrap();
            prop_assert!(back == theirs, "{}\n{bytes:02x?}\n{ours:02x?}", descriptor.full_name());
        }
    }

    /// M10: a program that does not know half of the fields keeps them.
    #[test]
    fn fields_that_one_side_does_not_know_come_back(set in descriptor_set(), seed in any::<u64>()) {
        let newer = Fixture::of(&set.encode_to_vec());
        let mut rng = Rng::new(seed);
        let mut older = set.clone();
        older.file[0].message_type.iter_mut().for_each(|message| {
            let keep = rng.next_u64();
            let mut at = 0;
            message.field.retain(|field| {
                at += 1;
                field.oneof_index.is_some() || keep >> at & 1 == 0
            });
        });
        let older = Fixture::of(&older.encode_to_vec());
        for descriptor in newer.pool.all_messages().filter(|it| !it.is_map_entry()) {
            let message = random::message(&descriptor, &mut rng, false, 3);
            let name = descriptor.full_name();
            let theirs = message.encode_to_vec();
            let message = DynamicMessage::decode(descriptor.clone(), &theirs[..]).unwrap();
            let through = older.recode(name, &theirs).unwrap();
            let back = DynamicMessage::decode(descriptor.clone(), &through[..]).unwrap();
            prop_assert!(back == message, "{name}\n{theirs:02x?}\n{through:02x?}");
            let ours = newer.recode(name, &through).unwrap();
            let back = DynamicMessage::decode(descriptor.clone(), &ours[..]).unwrap();
            prop_assert!(back == message, "{name}\n{theirs:02x?}\n{ours:02x?}");
        }
    }
}

/// The message's fields, each as bytes of its own.
fn records_of(message: &DynamicMessage) -> Vec<Vec<u8>> {
    let fields = message.fields();
    fields
        .map(|(field, value)| {
            let mut single = DynamicMessage::new(message.descriptor());
            single.set_field(&field, value.clone());
            single.encode_to_vec()
        })
        .collect()
}
