//! Binds as messages: what the router asks workers, and what it answers clients (R2, R5).

use petasos_call::{
    BindRequest, BindResponse, Code, HEAD_BYTES, Hash, Load, Malformed, RequestHead, ResponseHead,
    Status, TAIL_BYTES_MAX, TailWriter, read_tail, split,
};

/// Asks for a service, its schema included: by a caller that has none.
pub(crate) fn request(service: &str) -> Vec<u8> {
    let mut message = RequestHead::default().to_bytes().to_vec();
    BindRequest { layout: 0, hash: Hash::default(), name: service }.write(&mut message);
    message
}

/// Reads what a client asks.
pub(crate) fn read_request(message: &[u8]) -> Result<BindRequest<'_>, Malformed> {
    let head = RequestHead::parse(*message.first_chunk().ok_or(Malformed::TooShort)?)?;
    let (body, _) = split(message, head.has_tail)?;
    BindRequest::parse(&message[body])
}

/// The answer to a client.
pub(crate) fn answer(result: Result<BindResponse<'_>, Status>) -> Vec<u8> {
    let (encoding, codec) = Default::default();
    let head = |code, has_tail| {
        // A router has no handlers, and so no load.
        ResponseHead { encoding, codec, has_tail, code, load: Load::default() }.to_bytes()
    };
    match result {
        Ok(answer) => {
            let mut message = head(Code::Ok, false).to_vec();
            answer.write(&mut message);
            message
        }
        Err(status) => {
            let mut message = vec![0; HEAD_BYTES];
            let mut tail = TailWriter::new(&mut message);
            tail.status(&status);
            let has_tail = !tail.is_empty();
            if has_tail {
                tail.finish();
            }
            message[..HEAD_BYTES].copy_from_slice(&head(status.code(), has_tail));
            message
        }
    }
}

/// Reads what a worker answers.
pub(crate) fn read_answer(message: &[u8]) -> Result<BindResponse<'_>, Status> {
    let head = ResponseHead::parse(*message.first_chunk().ok_or(Malformed::TooShort)?)?;
    let (body, tail) = split(message, head.has_tail)?;
    if head.code != Code::Ok {
        return Err(read_tail(tail, TAIL_BYTES_MAX)?.into_status(head.code).0);
    }
    Ok(BindResponse::parse(&message[body])?)
}
