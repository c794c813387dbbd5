//! Requests from the command line or standard input: JSON texts, one after another.

use std::io::{self, Read};

use petasos_cli::failed::Failed;
use serde_json::value::RawValue;

/// The source of requests.
pub enum Data {
    /// There are no requests.
    Nothing,
    /// The command line.
    Text(String),
    /// Standard input. Each request is read when it arrives.
    Stdin,
}

impl Data {
    /// The source for an option's value: `@` and `-` mean standard input.
    pub fn of(text: Option<&str>) -> Data {
        match text {
            None => Data::Nothing,
            Some("@" | "-") => Data::Stdin,
            Some(text) => Data::Text(text.to_owned()),
        }
    }

    /// The texts, each as soon as it is available.
    pub fn texts(self) -> impl Iterator<Item = Result<String, Failed>> + Send {
        let reader: Box<dyn Read + Send> = match self {
            Data::Nothing => Box::new(io::empty()),
            Data::Text(text) => Box::new(io::Cursor::new(text)),
            Data::Stdin => Box::new(io::stdin()),
        };
        let texts = serde_json::Deserializer::from_reader(reader).into_iter::<Box<RawValue>>();
        let texts = texts.map(|text| text.map(|text| text.get().to_owned()).map_err(unread));
        // After invalid JSON, the following texts cannot be separated.
        let mut failed = false;
        texts.take_while(move |text| !std::mem::replace(&mut failed, text.is_err()))
    }
}

fn unread(error: serde_json::Error) -> Failed {
    Failed::new(format!("the requests are not JSON: {error}"))
        .with_advice("give one JSON object after another")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_follow_each_other() {
        let texts = Data::of(Some("{\"a\": 1}\n{} {\"b\": [\"}\"]}")).texts();
        let texts: Vec<String> = texts.map(|text| text.expect("all are JSON")).collect();
        assert_eq!(texts, ["{\"a\": 1}", "{}", "{\"b\": [\"}\"]}"]);
        assert_eq!(Data::of(None).texts().count(), 0);
    }

    #[test]
    fn what_is_no_json_is_named_once() {
        let texts: Vec<_> = Data::of(Some("{}\n{\"a\" 1} {}")).texts().collect();
        assert_eq!(texts.len(), 2);
        let error = texts[1].as_ref().expect_err("the second is none").to_string();
        assert!(error.contains("line 2 column 6"), "{error}");
    }
}
