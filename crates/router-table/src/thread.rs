//! The thread: an endpoint that answers binds, and makes them at workers.
//!
//! It sleeps when there is nothing to do: commands make a descriptor readable that the endpoint's
//! loop watches.

use std::collections::VecDeque;
use std::sync::Arc;

use petasos_endpoint::{Completion, Context, Endpoint, Mailbox, Payload, Request, SessionState};

use crate::judging::{Judging, PATIENCE, Stage, UnderWay};
use crate::messages;
use crate::table::{JudgeError, Judged, Table};
use crate::verdict::{Command, Membership, News, Question, RefuseReason, Verdict, Verdicts};

/// The number of bind (R1).
pub(crate) const BIND: u16 = 0;

/// Workers are asked one bind after the other.
const SLOTS: u32 = 1;

/// What handlers and continuations share.
pub(crate) struct State {
    pub(crate) table: Table,
    pub(crate) judging: Judging,
    pub(crate) commands: Arc<Mailbox<Command>>,
    pub(crate) verdicts: Arc<Verdicts>,
}

impl State {
    /// Lets clients bind from what the router has committed. Members that have waited for that are
    /// accepted.
    fn commit(&mut self) {
        let accepted = self.table.commit(self.verdicts.committed());
        accepted.into_iter().for_each(|member| self.accept(member));
    }

    /// What the router has committed is current, and the next version may come.
    fn follow(&mut self) {
        self.commit();
        self.say_change();
    }

    fn leave(&mut self, member: u64) {
        self.table.leave(member);
        self.say_change();
    }

    fn say_change(&mut self) {
        if let Some(change) = self.table.take_change() {
            self.verdicts.post(News::Changed(change));
        }
    }

    fn accept(&self, member: u64) {
        let membership = Membership { member, commands: self.commands.clone() };
        self.verdicts.post(News::Judged(member, Verdict::Accepted(membership)));
    }

    /// Whether the thread has more to do than to turn the loop.
    fn needs_thread(&self, cx: &Context<State>) -> bool {
        let is_due = |it: &UnderWay| match it.stage {
            Stage::Connecting => cx.session_state(it.session) != SessionState::Connecting,
            Stage::Asked => false,
            Stage::Answered | Stage::Failed(..) => true,
        };
        self.commands.has_mail() || self.judging.under_way.values().any(is_due)
    }
}

/// R2: the handler of binds.
pub(crate) fn bind(state: &mut State, cx: &mut Context<State>, request: Request<'_>) {
    // A client that has heard of a version binds from it.
    state.commit();
    let answer = state.table.respond(&request.payload);
    cx.respond_with(request.handle, &answer);
    free(cx, request.payload);
}

/// A worker's bind has ended.
fn on_answer(state: &mut State, cx: &mut Context<State>, done: Completion<'_>) {
    cx.free(done.request);
    // Who was refused meanwhile is not there any more.
    let worker = state.judging.under_way.get_mut(&done.tag);
    let worker = worker.filter(|worker| worker.session == done.session);
    match done.result {
        Ok(payload) => {
            if let Some(worker) = worker {
                worker.on_answer(Ok(&payload));
            }
            free(cx, payload);
        }
        Err(error) => {
            if let Some(worker) = worker {
                worker.on_answer(Err(error));
            }
        }
    }
}

fn free(cx: &mut Context<State>, payload: Payload<'_>) {
    if let Payload::Buffer(buf) = payload {
        cx.free(buf);
    }
}

/// What was found of a worker, or why it is refused.
type Found = Result<Judged, (RefuseReason, String)>;

/// See the module's documentation.
pub(crate) struct BindThread {
    pub(crate) endpoint: Endpoint<State>,
    pub(crate) commands: Arc<Mailbox<Command>>,
    pub(crate) verdicts: Arc<Verdicts>,
}

impl BindThread {
    pub(crate) fn run(mut self) {
        let mut commands = VecDeque::new();
        loop {
            self.turn();
            self.commands.hush();
            if self.commands.has_mail() {
                self.commands.take(&mut commands);
            }
            for command in commands.drain(..) {
                match command {
                    Command::Judge(question) => self.admit(question),
                    Command::Leave(member) => self.endpoint.state_mut().leave(member),
                    Command::Commit => self.endpoint.state_mut().follow(),
                    Command::Stop => return,
                }
            }
            self.advance_all();
            while let Some(question) = self.endpoint.state_mut().judging.next() {
                self.begin(question);
            }
        }
    }

    /// Turns the loop until there is something else to do.
    fn turn(&mut self) {
        let wake_at = self.endpoint.state().judging.next_timeout();
        match self.endpoint.until(wake_at) {
            None => self.endpoint.run(|state, cx| state.needs_thread(cx)),
            Some(wait) => drop(self.endpoint.run_for(wait, |state, cx| state.needs_thread(cx))),
        }
    }

    fn admit(&mut self, question: Question) {
        if let Err(question) = self.endpoint.state_mut().judging.wait(question) {
            let detail = "too many workers join at the same time".to_owned();
            self.refuse(question.ticket, RefuseReason::Overloaded, detail);
        }
    }

    fn begin(&mut self, question: Question) {
        let (ticket, address) = (question.ticket, question.address);
        match self.endpoint.connect_with_slots(address, SLOTS) {
            Ok(session) => {
                let worker = UnderWay::new(question, session, self.endpoint.clock().now());
                self.endpoint.state_mut().judging.under_way.insert(ticket, worker);
            }
            Err(error) => {
                let detail = format!("the router cannot dial the worker at {address}: {error}");
                self.refuse(ticket, RefuseReason::NotAnswered, detail);
            }
        }
    }

    /// Does what comes next for each worker, up to the first verdict. To judge may take long: binds
    /// are answered in between, and the time is nobody else's.
    fn advance_all(&mut self) {
        let under_way = &self.endpoint.state().judging.under_way;
        for ticket in under_way.keys().copied().collect::<Vec<_>>() {
            let begun = self.endpoint.clock().now();
            if let Some(found) = self.advance(ticket) {
                self.end(ticket, found);
                let spent = self.endpoint.clock().now() - begun;
                return self.endpoint.state_mut().judging.extend(spent);
            }
        }
    }

    /// Does what comes next for one worker. Returns what was found, if that is it.
    fn advance(&mut self, ticket: u64) -> Option<Found> {
        let (state, cx) = self.endpoint.split();
        let worker = state.judging.under_way.get_mut(&ticket).expect("it was just there");
        let (address, now) = (worker.address, cx.now());
        let refused = |reason, detail| Some(Err((reason, detail)));
        match &worker.stage {
            Stage::Failed(reason, detail) => return refused(*reason, detail.clone()),
            _ if worker.deadline <= now => {
                let detail =
                    format!("the worker at {address} has not answered binds within {PATIENCE:?}");
                return refused(RefuseReason::NotAnswered, detail);
            }
            Stage::Connecting => match cx.session_state(worker.session) {
                SessionState::Connecting => return None,
                SessionState::Ready => {}
                // It has failed, or will never be ready.
                _ => {
                    let error = cx.session_error(worker.session);
                    let error = error.map_or_else(String::new, |error| format!(": {error}"));
                    let detail = format!("the router cannot dial the worker at {address}{error}");
                    return refused(RefuseReason::NotAnswered, detail);
                }
            },
            Stage::Asked => return None,
            Stage::Answered => {}
        }
        let Some(service) = state.table.names().get(worker.answers.len()) else {
            let judged = state.table.judge(ticket, &worker.answers);
            return Some(judged.map_err(|error| (reason_of(&error), error.to_string())));
        };
        if let Err(error) = ask(cx, (ticket, worker), service) {
            let detail = format!("the router could not ask the worker at {address}: {error}");
            return refused(RefuseReason::NotAnswered, detail);
        }
        worker.stage = Stage::Asked;
        None
    }

    fn end(&mut self, ticket: u64, found: Found) {
        let worker = self.endpoint.state_mut().judging.under_way.remove(&ticket);
        self.endpoint.close_session(worker.expect("it was just there").session);
        match found {
            Ok(judged) => {
                let state = self.endpoint.state_mut();
                // The first version comes before the verdict.
                state.say_change();
                if judged == Judged::Member {
                    state.accept(ticket);
                }
            }
            Err((reason, detail)) => {
                tracing::debug!(detail, "a worker does not fit the table");
                self.refuse(ticket, reason, detail);
            }
        }
    }

    fn refuse(&self, ticket: u64, reason: RefuseReason, detail: String) {
        self.verdicts.post(News::Judged(ticket, Verdict::Refused { reason, detail }));
    }
}

fn reason_of(error: &JudgeError) -> RefuseReason {
    match error {
        JudgeError::Incompatible(_) => RefuseReason::Incompatible,
        JudgeError::Changing => RefuseReason::Overloaded,
    }
}

/// Binds a service at a worker.
fn ask(
    cx: &mut Context<State>,
    (ticket, worker): (u64, &UnderWay),
    service: &str,
) -> Result<(), String> {
    let message = messages::request(service);
    let mut request = cx.alloc(message.len()).map_err(|_| "no memory".to_owned())?;
    request.as_mut_slice().copy_from_slice(&message);
    // It ends with the session, when the worker's time is up.
    match cx.enqueue_request(worker.session, BIND, request, on_answer, ticket) {
        Ok(_) => Ok(()),
        Err(refused) => {
            cx.free(refused.request);
            Err(refused.error.to_string())
        }
    }
}

/// However the thread ends, even by a panic, nobody waits for it.
impl Drop for BindThread {
    fn drop(&mut self) {
        self.commands.close();
        self.verdicts.wake();
    }
}
