//! What the numbers in states mean.

use std::sync::Arc;

use petasos_service::{Hash, Numbered, PolicyNumbers};
use serde::{Deserialize, Serialize};

/// [`PolicyNumbers`], as they are written.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(super) struct Numbers {
    applications: Vec<(String, u32)>,
    next_application: u32,
    called: Vec<(String, u32)>,
    next_called: u32,
    callers: Vec<(String, u32)>,
    methods: Vec<Method>,
    next_method: u32,
}

#[derive(Debug, Deserialize, Serialize)]
struct Method {
    name: String,
    /// The hashes of its messages.
    messages: [[u8; 16]; 2],
    is_stream: bool,
    number: u32,
}

impl From<PolicyNumbers> for Numbers {
    fn from(numbers: PolicyNumbers) -> Numbers {
        let PolicyNumbers { applications, called, callers, methods } = numbers;
        let names = |of: Vec<(Arc<str>, u32)>| {
            of.into_iter().map(|(name, number)| (name.to_string(), number)).collect()
        };
        let bound = methods.known.into_iter().map(|((name, messages, is_stream), number)| Method {
            name: name.to_string(),
            messages: messages.map(Hash::to_bytes),
            is_stream,
            number,
        });
        Numbers {
            applications: names(applications.known),
            next_application: applications.next,
            called: names(called.known),
            next_called: called.next,
            callers: names(callers),
            methods: bound.collect(),
            next_method: methods.next,
        }
    }
}

impl From<Numbers> for PolicyNumbers {
    fn from(numbers: Numbers) -> PolicyNumbers {
        let names = |of: Vec<(String, u32)>| -> Vec<(Arc<str>, u32)> {
            of.into_iter().map(|(name, number)| (name.into(), number)).collect()
        };
        let bound = numbers.methods.into_iter().map(|method| {
            let messages = method.messages.map(Hash::from_bytes);
            ((method.name.into(), messages, method.is_stream), method.number)
        });
        let (applications, called) = (names(numbers.applications), names(numbers.called));
        PolicyNumbers {
            applications: Numbered { known: applications, next: numbers.next_application },
            called: Numbered { known: called, next: numbers.next_called },
            callers: names(numbers.callers),
            methods: Numbered { known: bound.collect(), next: numbers.next_method },
        }
    }
}
