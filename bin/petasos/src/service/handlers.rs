//! The handlers, and their state in an endpoint.

use std::sync::Arc;

use core::time::Duration;

use petasos_base::Clock;
use petasos_base::sync::{AtomicBool, Ordering};
use petasos_endpoint::{
    AttachError, Context, Endpoint, MemoryStats, MsgBuf, Payload, RejectCode, Request,
    RequestHandle, WorkerPool, WorkerRequest,
};

use super::store::Shared;
use super::{
    ECHO, GET, KEY_BYTES, PUT, Query, READ, SCAN, SIZED, SLOW, STATS, STATUS_BYTES, Status,
    split_u64,
};
use crate::failure::Failure;

/// The state of a server's endpoint.
pub struct Server {
    store: Shared,
    /// The longest response that a session can carry.
    response_bytes_max: usize,
    /// Requests for statistics. Only the code around the endpoint can read the statistics.
    waiting: Vec<RequestHandle>,
}

impl Server {
    /// The state of an endpoint that serves `store`.
    pub fn new(store: Shared, response_bytes_max: usize) -> Server {
        Server { store, response_bytes_max, waiting: Vec::new() }
    }

    /// Whether [`answer_waiting`] has something to do.
    pub fn is_asked(&self) -> bool {
        !self.waiting.is_empty()
    }
}

/// Registers the demonstration services at `endpoint`. `workers` run the slow one, whose delays end
/// early once `stopping` is true.
///
/// # Errors
/// If the system provides no file descriptor for the endpoint.
pub fn register(
    endpoint: &mut Endpoint<Server>,
    workers: &WorkerPool,
    stopping: &Arc<AtomicBool>,
) -> Result<(), Failure> {
    let stopping = stopping.clone();
    let slow = Arc::new(move |request: WorkerRequest<'_>| slow(request, &stopping));
    endpoint.register_worker(SLOW, workers, slow).map_err(AttachError::System)?;
    endpoint.register(ECHO, echo);
    endpoint.register(PUT, put);
    for method in [GET, SCAN, READ] {
        endpoint.register(method, query);
    }
    endpoint.register(STATS, stats);
    endpoint.register(SIZED, sized);
    Ok(())
}

/// Answers requests for statistics. Called between turns, when the endpoint can be read.
pub fn answer_waiting(endpoint: &mut Endpoint<Server>) {
    let text = statistics(endpoint.state(), endpoint);
    let waiting = core::mem::take(&mut endpoint.state_mut().waiting);
    for handle in waiting {
        endpoint.context().respond_with(handle, text.as_bytes());
    }
}

fn echo(_: &mut Server, cx: &mut Context<Server>, request: Request<'_>) {
    match request.payload {
        Payload::Frame(bytes) => cx.respond_with(request.handle, bytes),
        // The request's buffer becomes the response: nothing is copied.
        Payload::Buffer(buf) => cx.respond(request.handle, buf),
    }
}

fn put(server: &mut Server, cx: &mut Context<Server>, request: Request<'_>) {
    let status = match split_u64(&request.payload) {
        Some((key, value)) => {
            let value: Arc<[u8]> = Arc::from(value);
            server.store.lock().put(key, value)
        }
        None => Status::Malformed,
    };
    release(cx, request.payload);
    cx.respond_with(request.handle, &[status as u8]);
}

fn query(server: &mut Server, cx: &mut Context<Server>, request: Request<'_>) {
    let query = Query::decode(request.method, &request.payload);
    release(cx, request.payload);
    let answered = match query {
        None => Err(Status::Malformed),
        Some(Query::Get { key }) => get(server, cx, &request.handle, key),
        Some(Query::Scan { first, count }) => scan(server, cx, &request.handle, first, count),
        Some(Query::Read { key, offset, len }) => {
            read(server, cx, &request.handle, key, offset, len)
        }
    };
    match answered {
        Ok(Some(response)) => cx.respond(request.handle, response),
        Ok(None) => cx.reject(request.handle, RejectCode::Overloaded),
        Err(status) => cx.respond_with(request.handle, &[status as u8]),
    }
}

/// The response to a query; `None` if there is no memory for it now.
type Answer = Result<Option<MsgBuf>, Status>;

fn get(server: &Server, cx: &mut Context<Server>, to: &RequestHandle, key: u64) -> Answer {
    let value = server.store.lock().get(key).ok_or(Status::NotFound)?;
    respond(server, cx, to, value.len(), [&*value])
}

fn scan(
    server: &Server,
    cx: &mut Context<Server>,
    to: &RequestHandle,
    first: u64,
    count: u32,
) -> Answer {
    let found = server.store.lock().scan(first, count, server.response_bytes_max)?;
    respond(server, cx, to, found.bytes, found.values.iter().map(|value| &**value))
}

fn read(
    server: &Server,
    cx: &mut Context<Server>,
    to: &RequestHandle,
    key: u64,
    offset: u64,
    len: u32,
) -> Answer {
    let value = server.store.lock().get(key).ok_or(Status::NotFound)?;
    let start = usize::try_from(offset).ok().filter(|start| *start <= value.len());
    let tail = start.map(|start| &value[start..]).ok_or(Status::OutOfRange)?;
    let part = tail.get(..len as usize).ok_or(Status::OutOfRange)?;
    respond(server, cx, to, part.len(), [part])
}

/// A response with `bytes` in `parts` after its status: the only copy of the value.
fn respond<'v>(
    server: &Server,
    cx: &mut Context<Server>,
    to: &RequestHandle,
    bytes: usize,
    parts: impl IntoIterator<Item = &'v [u8]>,
) -> Answer {
    if bytes + STATUS_BYTES > server.response_bytes_max {
        return Err(Status::TooLong);
    }
    let Ok(mut response) = cx.response_buffer(to, STATUS_BYTES + bytes) else { return Ok(None) };
    let (status, mut rest) = response.as_mut_slice().split_at_mut(STATUS_BYTES);
    status[0] = Status::Done as u8;
    for part in parts {
        let (room, after) = rest.split_at_mut(part.len());
        room.copy_from_slice(part);
        rest = after;
    }
    Ok(Some(response))
}

/// Runs on a worker thread.
fn slow(request: WorkerRequest<'_>, stopping: &AtomicBool) -> Result<MsgBuf, RejectCode> {
    let (delay_ms, bytes) = request.payload.split_first_chunk().ok_or(RejectCode::Declined)?;
    let delay = Duration::from_millis(u32::from_le_bytes(*delay_ms).into()).min(DELAY_MAX);
    let clock = Clock::system();
    let end = clock.now() + delay;
    // Relaxed: the flag does not guard other data.
    while clock.now() < end && !stopping.load(Ordering::Relaxed) {
        std::thread::sleep(DELAY_STEP.min(end - clock.now()));
    }
    Ok(MsgBuf::from_slice(bytes))
}

/// Answers [`SIZED`], for any server: `serve` and `bench` use the same handler.
pub fn sized<S>(_: &mut S, cx: &mut Context<S>, request: Request<'_>) {
    let wanted = request.payload.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
    let wanted = wanted as usize;
    match request.payload.get(..wanted) {
        Some(bytes) => cx.respond_with(request.handle, bytes),
        None => match cx.response_buffer(&request.handle, wanted) {
            Ok(mut response) => {
                // This client must not see the previous content of the buffer.
                response.fill(0);
                cx.respond(request.handle, response);
            }
            Err(_) => cx.reject(request.handle, RejectCode::Overloaded),
        },
    }
    release(cx, request.payload);
}

fn stats(server: &mut Server, cx: &mut Context<Server>, request: Request<'_>) {
    release(cx, request.payload);
    server.waiting.push(request.handle);
}

/// Releases a request's buffer, if it has one.
fn release<S>(cx: &mut Context<S>, payload: Payload<'_>) {
    if let Payload::Buffer(buf) = payload {
        cx.free(buf);
    }
}

fn statistics(server: &Server, endpoint: &Endpoint<Server>) -> String {
    let (keys, bytes, bytes_max) = server.store.lock().totals();
    let MemoryStats { pool, session_bytes, .. } = endpoint.memory();
    let (running, _) = endpoint.unfinished();
    let running = running - server.waiting.len();
    let mut text = format!(
        "requests.running {running}\n\
         store.keys {keys}\nstore.bytes {bytes}\nstore.bytes_max {bytes_max}\n\
         memory.pool_lent_bytes {}\nmemory.pool_kept_bytes {}\nmemory.session_bytes {}\n",
        pool.lent_bytes, pool.kept_bytes, session_bytes,
    );
    for (group, name, value) in endpoint.stats().iter() {
        text += &format!("{group}.{name} {value}\n");
    }
    text
}

/// The longest delay of a slow call.
const DELAY_MAX: Duration = Duration::from_secs(60);
const DELAY_STEP: Duration = Duration::from_millis(5);

const _: () = assert!(KEY_BYTES >= STATUS_BYTES, "what can be put can be got");
