//! The client's side of a Petasos turn: keeps a window of calls outstanding, and measures them.

use std::time::Duration;

use petasos_base::{Clock, Rng, Time};
use petasos_endpoint::{Completion, Context, Endpoint, MsgBuf, Payload, SessionId};
use petasos_report::Histogram;

use super::timeline::Timeline;
use crate::error::BenchError;
use petasos_cli::service::SIZED;

/// Sessions are picked this many calls before they are used.
const PICKED_AHEAD: usize = 8;

/// The client's state.
pub struct Load {
    pub sessions: Vec<SessionId>,
    /// Picks the session of each call at random. Without it, a call uses the session of the call
    /// before.
    pick: Option<Pick>,
    request_bytes: u32,
    response_bytes: u32,
    batch: usize,
    clock: Clock,
    /// Reads the clock for every call. Use this only if one call is outstanding at a time.
    exact: bool,
    /// Lets the loop sleep according to its configuration.
    pub adaptive: bool,
    running: bool,
    enqueued_this_turn: usize,
    /// Requests for the next turn of the loop.
    ready: Vec<(SessionId, MsgBuf)>,
    outstanding: usize,
    completed: u64,
    last_at: Time,
    latency: Histogram,
    /// A latency, and how many calls with it are not in the histogram yet. Calls of one batch have
    /// the same latency, and recording many equal values in a histogram costs as much as recording
    /// one.
    latest: (u64, u64),
    /// When calls ended, if requested.
    pub timeline: Option<Timeline>,
    failure: Option<String>,
}

/// The result of one turn.
#[derive(Clone, Debug)]
pub struct LoadTurn {
    pub completed: u64,
    /// Seconds until the last completion.
    pub elapsed_s: f64,
    /// Seconds until the end, including a silence before it.
    pub whole_s: f64,
    pub cpu_s: f64,
    pub latency: Histogram,
}

impl LoadTurn {
    /// Completed calls per second.
    pub fn ops_per_s(&self) -> f64 {
        self.completed as f64 / self.elapsed_s
    }

    /// Request payload in gigabits per second.
    pub fn gbit_per_s(&self, request_bytes: u32) -> f64 {
        self.ops_per_s() * f64::from(request_bytes) * 8.0 / 1e9
    }
}

/// Sessions picked at random, a few calls in advance, so that the endpoint can be told.
struct Pick {
    rng: Rng,
    ahead: [SessionId; PICKED_AHEAD],
    next: usize,
}

impl Pick {
    fn next(&mut self, sessions: &[SessionId], cx: &mut Context<Load>) -> SessionId {
        let later = sessions[self.rng.below(sessions.len() as u64) as usize];
        cx.will_call(later);
        let at = self.next % PICKED_AHEAD;
        self.next = at + 1;
        std::mem::replace(&mut self.ahead[at], later)
    }
}

impl Load {
    pub fn new(request_bytes: u32, response_bytes: u32, batch: usize, exact: bool) -> Load {
        Load {
            sessions: Vec::new(),
            pick: None,
            request_bytes,
            response_bytes,
            batch,
            clock: Clock::system(),
            exact,
            adaptive: false,
            running: false,
            enqueued_this_turn: 0,
            ready: Vec::new(),
            outstanding: 0,
            completed: 0,
            last_at: Time::ZERO,
            latency: Histogram::new(),
            latest: (0, 0),
            timeline: None,
            failure: None,
        }
    }

    /// Makes every call use a session that is picked at random.
    pub fn pick_sessions(&mut self) {
        let mut rng = Rng::new(1);
        let sessions = &self.sessions;
        let ahead = std::array::from_fn(|_| sessions[rng.below(sessions.len() as u64) as usize]);
        self.pick = Some(Pick { rng, ahead, next: 0 });
    }

    fn next_session(&mut self, cx: &mut Context<Load>, last: SessionId) -> SessionId {
        match &mut self.pick {
            Some(pick) => pick.next(&self.sessions, cx),
            None => last,
        }
    }

    fn now(&self, cx: &Context<Load>) -> Time {
        if self.exact { self.clock.now() } else { cx.now() }
    }

    #[inline]
    fn note_latency(&mut self, nanos: u64) {
        if self.latest.0 != nanos {
            self.record_latest();
            self.latest.0 = nanos;
        }
        self.latest.1 += 1;
    }

    fn record_latest(&mut self) {
        let count = std::mem::take(&mut self.latest.1);
        if count > 0 {
            self.latency.record_many_ns(self.latest.0, count);
        }
    }

    fn send(&mut self, cx: &mut Context<Load>, session: SessionId, request: MsgBuf) {
        let tag = self.now(cx).as_nanos();
        match cx.enqueue_request(session, SIZED, request, done, tag) {
            Ok(_) => self.outstanding += 1,
            Err(refused) => self.failure = Some(refused.error.to_string()),
        }
    }
}

fn done(load: &mut Load, cx: &mut Context<Load>, completion: Completion<'_>) {
    load.outstanding -= 1;
    match completion.result {
        Ok(payload) => {
            let now = load.now(cx);
            if load.running {
                load.completed += 1;
                load.last_at = now;
                load.note_latency(now.as_nanos().saturating_sub(completion.tag));
                if let Some(timeline) = &mut load.timeline {
                    timeline.note(now);
                }
            }
            if payload.len() != load.response_bytes as usize {
                load.failure = Some(format!("a response of {} bytes", payload.len()));
            }
            if let Payload::Buffer(buf) = payload {
                cx.free(buf);
            }
        }
        Err(error) => load.failure = Some(error.to_string()),
    }
    if load.running && load.enqueued_this_turn < load.batch {
        load.enqueued_this_turn += 1;
        let session = load.next_session(cx, completion.session);
        load.send(cx, session, completion.request);
    } else {
        load.ready.push((completion.session, completion.request));
    }
}

/// Fills the window with requests for the first turn.
pub fn prepare(client: &mut Endpoint<Load>, window: usize) -> Result<(), BenchError> {
    let (load, cx) = client.split();
    for index in 0..window {
        // Neighbouring requests share a session, so that all its slots are used at once.
        let session = load.sessions[index * load.sessions.len() / window];
        let mut request = cx
            .alloc(load.request_bytes as usize)
            .map_err(|error| format!("no memory for the requests: {error:?}"))?;
        if let Some(head) = request.first_chunk_mut() {
            *head = load.response_bytes.to_le_bytes();
        } else if load.response_bytes > 0 {
            return Err("a request below 4 bytes cannot ask for a response of its own size: \
                        use --response 0"
                .into());
        }
        load.ready.push((session, request));
    }
    Ok(())
}

/// Runs a turn of `duration`. Afterwards no call is outstanding.
pub fn turn(client: &mut Endpoint<Load>, duration: Duration) -> Result<LoadTurn, BenchError> {
    turn_beside(client, duration, || {})
}

/// Like [`turn`], and calls `beside` after each turn of the client's loop.
pub fn turn_beside(
    client: &mut Endpoint<Load>,
    duration: Duration,
    mut beside: impl FnMut(),
) -> Result<LoadTurn, BenchError> {
    let clock = client.clock().clone();
    let (start, cpu_start) = (clock.now(), super::turns::thread_cpu_s());
    let load = client.state_mut();
    (load.running, load.completed, load.latency) = (true, 0, Histogram::new());
    let mut checks = 0u32;
    let whole = loop {
        step(client);
        beside();
        checks += 1;
        let whole = if checks.is_multiple_of(64) { clock.now() - start } else { Duration::ZERO };
        if whole >= duration {
            break whole;
        }
    };
    let load = client.state_mut();
    load.running = false;
    load.record_latest();
    let elapsed_s = load.last_at.nanos_since(start) as f64 / 1e9;
    let turn = LoadTurn {
        completed: load.completed,
        elapsed_s: elapsed_s.max(1e-9),
        whole_s: whole.as_secs_f64(),
        cpu_s: super::turns::thread_cpu_s() - cpu_start,
        latency: std::mem::take(&mut load.latency),
    };
    finish(client, &clock, beside)?;
    Ok(turn)
}

/// Sends every prepared request once, and waits for all answers.
pub fn once(client: &mut Endpoint<Load>) -> Result<(), BenchError> {
    let clock = client.clock().clone();
    let requests = std::mem::take(&mut client.state_mut().ready);
    let mut requests = requests.into_iter().peekable();
    while requests.peek().is_some() {
        let (load, cx) = client.split();
        for (session, request) in requests.by_ref().take(64) {
            load.send(cx, session, request);
        }
        finish(client, &clock, || {})?;
    }
    Ok(())
}

/// Runs the loop once, after enqueuing waiting requests up to the batch size.
fn step(client: &mut Endpoint<Load>) {
    let (load, cx) = client.split();
    load.enqueued_this_turn = 0;
    while load.running && load.enqueued_this_turn < load.batch {
        let Some((session, request)) = load.ready.pop() else { break };
        load.enqueued_this_turn += 1;
        load.send(cx, session, request);
    }
    if load.adaptive {
        let mut turns = 0;
        client.run_for(Duration::from_millis(5), |load, _| {
            load.enqueued_this_turn = 0;
            turns += 1;
            turns >= 64 || !load.ready.is_empty()
        });
    } else {
        client.run_once();
    }
}

/// Waits for outstanding calls.
fn finish(
    client: &mut Endpoint<Load>,
    clock: &Clock,
    mut beside: impl FnMut(),
) -> Result<(), BenchError> {
    let patience_until = clock.now() + Duration::from_secs(5);
    while client.state().outstanding > 0 {
        client.run_once();
        beside();
        if clock.now() > patience_until {
            return Err(
                "calls were not answered within 5 seconds: is the server overloaded?".into()
            );
        }
    }
    match client.state_mut().failure.take() {
        Some(failure) => Err(format!("a call failed: {failure}").into()),
        None => Ok(()),
    }
}
