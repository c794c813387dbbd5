//! Handles requests that arrived: starts their handlers, answers binds, and abandons requests.

use petasos_call::{
    BindRequest, Code, Load, Malformed, RequestHead, ResponseHead, Services, Status, split,
};
use petasos_endpoint::{Context, RejectCode, Request, RequestKey};

use super::handlers;
use crate::buffers::free;
use crate::dispatcher::Dispatcher;

/// The endpoint's handler of all methods.
pub(crate) fn dispatch(
    dispatcher: &mut Dispatcher,
    cx: &mut Context<Dispatcher>,
    mut request: Request<'_>,
) {
    let Dispatcher { methods, parts } = dispatcher;
    parts.local.set_turn(Some(cx.now()));
    let at = usize::from(request.method).wrapping_sub(1);
    let method = methods.get_mut(at).expect("numbers are registered with their methods");
    method.start(parts, cx, &mut request);
}

/// The endpoint's handler of unary methods that were withdrawn. The caller asks for another
/// session, in which it binds the service anew (R12).
pub(crate) fn refuse(_: &mut Dispatcher, cx: &mut Context<Dispatcher>, request: Request<'_>) {
    cx.reject(request.handle, RejectCode::Draining);
    free(cx, request.payload);
}

/// R2: the handler of method 0.
pub(crate) fn bind(
    dispatcher: &mut Dispatcher,
    cx: &mut Context<Dispatcher>,
    request: Request<'_>,
) {
    let parts = &mut dispatcher.parts;
    if cx.is_draining() {
        cx.reject(request.handle, RejectCode::Draining);
    } else {
        match bound(&parts.services, parts.load(), &request.payload) {
            Ok(Ok(answer)) => cx.respond_with(request.handle, &answer),
            Ok(Err(status)) => parts.refuse(cx, request.handle, &status),
            Err(malformed) => parts.refuse_malformed(cx, request.handle, malformed),
        }
    }
    free(cx, request.payload);
}

/// R2: answers a bind. The answer includes the load, since a bind is also a probe (R7).
fn bound(
    services: &Services,
    load: Load,
    bytes: &[u8],
) -> Result<Result<Vec<u8>, Status>, Malformed> {
    let head = bytes.first_chunk().ok_or(Malformed::TooShort)?;
    let head = RequestHead::parse(*head)?;
    let (body, _) = split(bytes, head.has_tail)?;
    let request = BindRequest::parse(&bytes[body])?;
    Ok(services.answer(&request).map(|answer| {
        let (encoding, codec) = Default::default();
        let head = ResponseHead { encoding, codec, has_tail: false, code: Code::Ok, load };
        let mut bytes = head.to_bytes().to_vec();
        answer.write(&mut bytes);
        bytes
    }))
}

/// R11: handles a waiting request that is no longer wanted.
pub(crate) fn abandon(dispatcher: &mut Dispatcher, cx: &mut Context<Dispatcher>, key: RequestKey) {
    let Dispatcher { methods, parts } = dispatcher;
    if let Some(task) = parts.waiting.get(&key) {
        let task = *task;
        // First, since a handler may panic when it is dropped.
        cx.end_abandoned(key);
        return methods[task.kind as usize].abandon(parts, cx, task.slot);
    }
    handlers::abandon(dispatcher, cx, key);
}
