//! The status of each service, and the tasks that wait for changes.

use core::future::poll_fn;
use core::task::{Poll, Waker};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, MutexGuard};

use super::ServingStatus;

#[derive(Debug)]
pub(super) struct Board {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    services: BTreeMap<Box<str>, ServingStatus>,
    is_shut_down: bool,
    /// Wakers of the tasks to be polled after any change, by the number of the watch.
    wakers: HashMap<u64, Waker>,
    next_watch: u64,
}

impl Board {
    pub(super) fn new() -> Board {
        let services = BTreeMap::from([("".into(), ServingStatus::SERVING)]);
        let (is_shut_down, wakers, next_watch) = (false, HashMap::new(), 0);
        Board { state: Mutex::new(State { services, is_shut_down, wakers, next_watch }) }
    }

    pub(super) fn set(&self, service: &str, status: Option<ServingStatus>) {
        self.change(|state| match status {
            _ if state.is_shut_down => {}
            Some(status) => drop(state.services.insert(service.into(), status)),
            None => drop(state.services.remove(service)),
        });
    }

    pub(super) fn shut_down(&self) {
        self.change(|state| {
            state.is_shut_down = true;
            state.services.values_mut().for_each(|status| *status = ServingStatus::NOT_SERVING);
        });
    }

    pub(super) fn status(&self, service: &str) -> Option<ServingStatus> {
        self.lock().services.get(service).copied()
    }

    pub(super) fn all(&self) -> Vec<(String, ServingStatus)> {
        let state = self.lock();
        state.services.iter().map(|(name, status)| (name.to_string(), *status)).collect()
    }

    /// Watches a service, whether it has a status or not.
    pub(super) fn watch<'b>(&'b self, service: &'b str) -> Watch<'b> {
        let mut state = self.lock();
        state.next_watch += 1;
        Watch { board: self, service, number: state.next_watch, told: None }
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        let wakers = core::mem::take(&mut state.wakers);
        drop(state);
        wakers.into_values().for_each(Waker::wake);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics under the lock")
    }
}

/// Waits for changes of one service's status.
pub(super) struct Watch<'b> {
    board: &'b Board,
    service: &'b str,
    number: u64,
    /// The status that was returned last, if any was.
    told: Option<Option<ServingStatus>>,
}

impl Watch<'_> {
    /// Waits until the service's status differs from the one returned last, and returns it; `None`
    /// if the service has no status. The first call returns at once.
    pub(super) async fn changed(&mut self) -> Option<ServingStatus> {
        poll_fn(|cx| {
            let waker = cx.waker().clone();
            let mut state = self.board.lock();
            let status = state.services.get(self.service).copied();
            if self.told != Some(status) {
                self.told = Some(status);
                return Poll::Ready(status);
            }
            let old = state.wakers.insert(self.number, waker);
            drop(state);
            drop(old);
            Poll::Pending
        })
        .await
    }
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        let waker = self.board.lock().wakers.remove(&self.number);
        drop(waker);
    }
}
