//! The program under test of protobuf's conformance suite: `cargo xtask conformance protobuf`.
//!
//! The suite's runner starts this program, writes requests to its standard input, and checks the
//! answers. A payload is decoded as a message that the request names, and encoded again; both may
//! be in protobuf or in JSON. The messages are known only at run time, from the .proto files in the
//! folder that the environment variable `CONFORMANCE_PROTOS` names. So the code under test is the
//! one that a service uses for types it was not compiled with.
//!
//! Requests and responses themselves are decoded with prost: a mistake in the encoding under test
//! must fail a test, not the communication with the runner.

mod protocol;

use std::error::Error;
use std::io::{self, Read, Write};
use std::process::ExitCode;

use petasos_message::{
    DecodeLimits, DynamicMsg, FromJson, Input, Plans, ToJson, json_to_protobuf, protobuf_to_json,
};
use petasos_schema::{MessageId, Options, Schema};
use prost::Message as _;

use crate::protocol::{Answer, Category, Payload, Request, Response, WireFormat};

/// The file with the proto3 messages.
const PROTO: &str = "google/protobuf/test_messages_proto3.proto";

/// The longest request, in bytes: far above what the suite sends.
const REQUEST_BYTES_MAX: u32 = 1 << 28;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("protobuf-conformance: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn Error>> {
    let folder = std::env::var_os("CONFORMANCE_PROTOS")
        .ok_or("CONFORMANCE_PROTOS should name the folder with google/protobuf/…")?;
    let schema = petasos_schema::compile([PROTO], [folder], &Options::default())?.schema;
    let testee = Testee { plans: Plans::of(&schema)?, schema };
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    while let Some(request) = read(&mut input)? {
        let answer = testee.answer(Request::decode(&request[..])?);
        let response = Response { answer: Some(answer) }.encode_to_vec();
        output.write_all(&u32::try_from(response.len())?.to_le_bytes())?;
        output.write_all(&response)?;
        output.flush()?;
    }
    Ok(())
}

/// The next request: its length in four bytes, and its bytes. `None` at the end.
fn read(input: &mut impl Read) -> Result<Option<Vec<u8>>, Box<dyn Error>> {
    let mut len = [0; 4];
    match input.read_exact(&mut len) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        result => result?,
    }
    let len = u32::from_le_bytes(len);
    if len > REQUEST_BYTES_MAX {
        return Err(format!("a request of {len} bytes is no request").into());
    }
    let mut request = vec![0; len as usize];
    input.read_exact(&mut request)?;
    Ok(Some(request))
}

struct Testee {
    schema: Schema,
    plans: Plans,
}

impl Testee {
    fn answer(&self, request: Request) -> Answer {
        // The runner's first request asks for a list of expected failures.
        if request.message_type == "conformance.FailureSet" {
            return Answer::Protobuf(Vec::new());
        }
        let Some((id, _)) = self.schema.message_by_name(&request.message_type) else {
            return Answer::Skipped(format!("{} is not proto3", request.message_type));
        };
        let is_json = request.output_format == i32::from(WireFormat::Json);
        if !is_json && request.output_format != i32::from(WireFormat::Protobuf) {
            return Answer::Skipped("only protobuf and JSON are encoded".into());
        }
        let decoded = match request.payload {
            Some(Payload::Protobuf(payload)) => self.recode(id, &payload),
            Some(Payload::Json(text)) => {
                let ignore_unknown = request.category == i32::from(Category::JsonIgnoreUnknown);
                self.parse_json(id, &text, &FromJson { ignore_unknown })
            }
            _ => return Answer::Skipped("only protobuf and JSON are decoded".into()),
        };
        match decoded {
            Ok(protobuf) if is_json => self.print_json(id, &protobuf),
            Ok(protobuf) => Answer::Protobuf(protobuf),
            Err(answer) => answer,
        }
    }

    /// Decodes a message and encodes it again.
    fn recode(&self, id: MessageId, payload: &[u8]) -> Result<Vec<u8>, Answer> {
        let limits = DecodeLimits::for_input(payload.len());
        let message =
            DynamicMsg::from_protobuf(self.plans.message(id), Input::Borrowed(payload), &limits)
                .map_err(|error| Answer::ParseError(error.to_string()))?;
        let image = message.to_protobuf(0);
        let image = image.map_err(|error| Answer::SerializeError(error.to_string()))?;
        Ok(image.into_buf().as_slice().to_vec())
    }

    fn parse_json(&self, id: MessageId, text: &str, how: &FromJson) -> Result<Vec<u8>, Answer> {
        let limits = DecodeLimits::for_input(text.len());
        let image = json_to_protobuf(&self.schema, &self.plans, id, text, &limits, how, 0);
        let image = image.map_err(|error| Answer::ParseError(error.to_string()))?;
        Ok(image.into_buf().as_slice().to_vec())
    }

    fn print_json(&self, id: MessageId, protobuf: &[u8]) -> Answer {
        let limits = DecodeLimits::for_input(protobuf.len());
        let (input, how) = (Input::Borrowed(protobuf), ToJson::default());
        match protobuf_to_json(&self.schema, &self.plans, id, input, &limits, &how) {
            Ok(text) => Answer::Json(text),
            Err(error) => Answer::SerializeError(error.to_string()),
        }
    }
}
