//! JSON of messages, well-known types among them, and service configs.
//!
//! What is read is written to JSON that reads as the same again.

use petasos_call::policy::Policies;
use petasos_message::well_known::{Any, Duration, FieldMask, Struct, Timestamp, Value};
use petasos_message::{DecodeLimits, FromJson, Message, Msg, ToJson};

use crate::types::{self, Choice, Lists, Maps, Single};
use crate::{Input, Seed};

/// A byte for the type and one for options, then the text.
pub fn run(bytes: &[u8]) {
    let mut input = Input::new(bytes);
    let (kind, options, text) = (input.u8() % 12, input.u8(), input.rest());
    let Ok(text) = std::str::from_utf8(text) else { return };
    match kind {
        0 => judge::<Single>(text, options),
        1 => judge::<Lists>(text, options),
        2 => judge::<Maps>(text, options),
        3 => judge::<Choice>(text, options),
        4 => judge::<Value>(text, options),
        5 => judge::<Struct>(text, options),
        6 => judge::<Duration>(text, options),
        7 => judge::<Timestamp>(text, options),
        8 => judge::<FieldMask>(text, options),
        9 => judge::<Any>(text, options),
        _ => drop(Policies::from_json(text)),
    }
}

fn judge<T: Message>(text: &str, options: u8) {
    let from = FromJson { ignore_unknown: options & 1 == 1 };
    let limits = DecodeLimits::for_input(text.len());
    let Ok(message) = Msg::<T>::from_json(text, &from, &limits) else { return };
    let to = ToJson {
        proto_names: options & 2 != 0,
        defaults: options & 4 != 0,
        enum_numbers: options & 8 != 0,
    };
    let Ok(ours) = Msg::to_json(&message, &to) else { return };
    let wide = DecodeLimits::for_input(1 << 20);
    let again = Msg::<T>::from_json(&ours, &from, &wide).expect("ours is read");
    assert_eq!(format!("{:?}", **again), format!("{:?}", **message), "{ours}");
}

/// A text of each type.
pub fn seeds() -> Vec<Seed> {
    let (single, lists, maps, choice) = types::filled();
    let text = |kind: u8, text: &str| [&[kind, 0][..], text.as_bytes()].concat();
    vec![
        ("single", json(0, &single)),
        ("lists", json(1, &lists)),
        ("maps", json(2, &maps)),
        ("choice", json(3, &choice)),
        ("value", json(4, &types::value())),
        ("struct", text(5, r#"{"a": [1, null, "\u00e9\ud83d\ude00"], "b": {"c": -1.5e-7}}"#)),
        ("duration", text(6, r#""-3.000000001s""#)),
        ("timestamp", text(7, r#""1972-01-01T10:00:20.021+01:00""#)),
        ("field-mask", text(8, r#""user.displayName,photo""#)),
        ("any", text(9, r#"{"@type": "type.googleapis.com/x.Y", "value": "AQI="}"#)),
        (
            "service-config",
            text(
                10,
                r#"{"loadBalancingConfig": [{"round_robin": {}}], "methodConfig": [{"name":
                [{"service": "a.B", "method": "C"}], "timeout": "1.5s", "waitForReady": true,
                "retryPolicy": {"maxAttempts": 3, "initialBackoff": "0.1s", "maxBackoff": "1s",
                "backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE", 4]}}],
                "retryThrottling": {"maxTokens": 10, "tokenRatio": 0.1}}"#,
            ),
        ),
    ]
}

fn json<T: Message>(kind: u8, message: &Msg<T>) -> Vec<u8> {
    let text = Msg::to_json(message, &ToJson::default()).expect("it has a form");
    [&[kind, 0][..], text.as_bytes()].concat()
}
