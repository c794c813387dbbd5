//! The child's side of a trial.

use std::fs::File;
use std::io::{Read, Write};
use std::process::ExitCode;
use std::sync::Arc;

use petasos_engine::{Policy, PolicyError, PolicyKind, State};
use rustix::process::{Resource, Rlimit, setrlimit};

use super::message::{ANSWER_BYTES_MAX, Answer, Making, Refusal, Request};
use crate::native::NativeKind;
use crate::object::Object;
use crate::sample;

/// Tries what standard input has, as [`Trial`](super::Trial) gives it, and writes the answer to
/// standard output. The program does nothing else, before or after.
pub fn run_trial() -> ExitCode {
    let mut input = Vec::new();
    let answers = answers();
    let read = std::io::stdin().lock().read_to_end(&mut input);
    let (Ok(mut answers), Ok(_)) = (answers, read) else { return ExitCode::FAILURE };
    let Some((request, object)) = Request::parse(&input) else { return ExitCode::FAILURE };
    limit(&request);
    let answer = match attempt(object, request.making.as_ref()) {
        Ok(()) => Answer::Passed,
        Err(refusal) => Answer::Refused(refusal),
    };
    let answer = serde_json::to_vec(&answer).expect("it is plain data");
    match answers.write_all(&answer) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

/// Where the answer goes: what is standard output now. What plug-ins print goes elsewhere then.
fn answers() -> std::io::Result<File> {
    let answers = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    Ok(answers.into())
}

/// Bounds what the object can do. A limit that cannot be set is no reason not to try.
fn limit(request: &Request) {
    let exactly = |limit| Rlimit { current: Some(limit), maximum: Some(limit) };
    let _ = setrlimit(Resource::Core, exactly(0));
    let _ = setrlimit(Resource::Cpu, exactly(request.limit_ms / 1000 + 1));
    // The copy of the object is written as a file, too.
    let longest = crate::object::OBJECT_BYTES_MAX.max(ANSWER_BYTES_MAX);
    let _ = setrlimit(Resource::Fsize, exactly(longest));
}

fn attempt(object: &[u8], making: Option<&Making>) -> Result<(), Refusal> {
    let object = Object::load(object).map_err(|error| Refusal::Object(error.to_string()))?;
    let kind = NativeKind::new(object);
    let Some(making) = making else { return Ok(()) };
    let state = making.state();
    let policy = make(&kind, making, state.as_ref())?;
    sample::run(&policy).map_err(Refusal::Object)?;
    let state = policy.state();
    drop(policy);
    let again = |why: Refusal| match why {
        Refusal::Object(why) | Refusal::Configuration(why) | Refusal::State(why) => {
            Refusal::Object(format!("it does not go on from its own state: {why}"))
        }
    };
    make(&kind, making, Some(&state)).map_err(again).map(drop)
}

fn make(
    kind: &NativeKind,
    making: &Making,
    state: Option<&State>,
) -> Result<Arc<dyn Policy>, Refusal> {
    let made = kind.make(&making.configuration, state);
    made.map(Arc::from).map_err(|error| match error {
        PolicyError::Configuration { why, .. } => Refusal::Configuration(why),
        PolicyError::State { why, .. } => Refusal::State(why),
        other => Refusal::Object(other.to_string()),
    })
}
