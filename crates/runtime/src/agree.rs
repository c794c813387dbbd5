//! Evaluates the answer to a bind: whether the two schemas are compatible, and in which encoding
//! the ends exchange messages (R3, R4).
//!
//! The answer comes from the network. The limits of messages bound its size, and the limits of
//! schemas bound the schema in it.

use petasos_call::{
    Agreement, BindResponse, CallerSchema, Code, Malformed, MethodMatch, ResponseHead, Status,
    read_tail, split,
};
use petasos_schema::{Compatibility, Limits, Schema};

use petasos_rpc::descriptors::ServiceRef;
use petasos_rpc::dynamic;
use petasos_rpc::request::TAIL_BYTES_LIMIT;

/// What a bind's answer means for the methods of a service (R3). `caller` is what was asked with.
pub(crate) fn agreement(
    service: &ServiceRef,
    caller: &CallerSchema,
    answer: &[u8],
) -> Result<Agreement, Status> {
    let head = answer.first_chunk().ok_or(Malformed::TooShort)?;
    let head = ResponseHead::parse(*head)?;
    let (body, tail) = split(answer, head.has_tail)?;
    if head.code != Code::Ok {
        return Err(read_tail(tail, TAIL_BYTES_LIMIT)?.into_status(head.code).0);
    }
    let answer = BindResponse::parse(&answer[body])?;
    Ok(Agreement::evaluate(caller, &answer, |theirs| compare(service, theirs))?)
}

/// Finds this end's methods in the server's schema, which is in compact form; or says why the
/// schemas are incompatible.
fn compare(service: &ServiceRef, theirs: &[u8]) -> Result<Vec<Option<MethodMatch>>, String> {
    let theirs = Schema::decode(theirs, &Limits::default())
        .map_err(|error| format!("the server's schema cannot be read: {error}"))?;
    if let Some(found) = dynamic::find_by_name(service, &theirs) {
        return found;
    }
    let (name, module) = (service.name(), service.module());
    let ours = module.schema();
    let (id, here) = ours
        .service_by_name(name)
        .ok_or_else(|| format!("the caller's schema has no service `{name}`"))?;
    let there = theirs.service_by_name(name);
    let (there, service) =
        there.ok_or_else(|| format!("the server's schema has no service `{name}`"))?;
    if let Compatibility::Incompatible(mismatch) = ours.compare_services(id, &theirs, there) {
        return Err(mismatch.to_string());
    }
    let methods = service.methods();
    let found = |name: &str| methods.binary_search_by(|method| method.name().cmp(name)).ok();
    let matched = here.methods().iter().map(|here| {
        let index = found(here.name())?;
        let there = &methods[index];
        let same = |a, b| ours.message(a).hash() == theirs.message(b).hash();
        Some(MethodMatch {
            index: u16::try_from(index).ok()?,
            same_request: same(here.input(), there.input()),
            same_response: same(here.output(), there.output()),
        })
    });
    Ok(matched.collect())
}
