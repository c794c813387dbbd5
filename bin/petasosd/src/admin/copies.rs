//! Copies of what is counted, shared by those who ask for them.
//!
//! The loop makes each copy between two turns, so calls wait for it.
//!
//! # Invariants
//! - There is at most one copy per [`COPY_EVERY`], however many ask.
//! - A copy was begun after its asker had asked: nobody is given what is out of date.
//! - At most [`ASKERS_MAX`] wait.

use std::sync::Arc;
use std::time::Duration;

use petasos::Status;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::{Instant, sleep_until};

use crate::stats::Snapshot;

/// So often a copy is made at most.
const COPY_EVERY: Duration = Duration::from_millis(20);
/// So many may wait for one.
const ASKERS_MAX: usize = 256;

/// The newest copy, and those who wait for the next.
pub struct Copies {
    newest: Mutex<Option<Copy>>,
    askers: Semaphore,
}

struct Copy {
    /// Of the application of this name, or of all if it is empty.
    application: String,
    begun: Instant,
    snapshot: Arc<Snapshot>,
}

impl Copies {
    pub fn new() -> Copies {
        Copies { newest: Mutex::new(None), askers: Semaphore::new(ASKERS_MAX) }
    }

    /// A copy of an application, or of all, which `take` makes if there is none that is new enough.
    ///
    /// # Errors
    /// Those of `take`; and too many wait.
    pub async fn get<F>(
        &self,
        application: &str,
        take: impl FnOnce() -> F,
    ) -> Result<Arc<Snapshot>, Status>
    where
        F: Future<Output = Result<Snapshot, Status>>,
    {
        let asked = Instant::now();
        let full = |_| Status::resource_exhausted("too many wait for statistics");
        let _permit = self.askers.try_acquire().map_err(full)?;
        let mut newest = self.newest.lock().await;
        if let Some(copy) = &*newest {
            if copy.begun >= asked && copy.application == application {
                return Ok(copy.snapshot.clone());
            }
            sleep_until(copy.begun + COPY_EVERY).await;
        }
        let (application, begun) = (application.to_owned(), Instant::now());
        let snapshot = Arc::new(take().await?);
        *newest = Some(Copy { application, begun, snapshot: snapshot.clone() });
        Ok(snapshot)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use petasos_base::Time;
    use petasos_service::Gone;
    use tokio::task::yield_now;

    use super::*;

    /// A copy whose time is the number of its making.
    async fn take(made: &Cell<u64>) -> Result<Snapshot, Status> {
        made.set(made.get() + 1);
        let time = Time::ZERO.plus_nanos(made.get());
        yield_now().await;
        let (applications, gone, rows_left_out) = (Vec::new(), Gone::default(), 0);
        let (runtimes, grpc) = (Vec::new(), None);
        Ok(Snapshot { time, applications, gone, rows_left_out, runtimes, grpc })
    }

    fn run<R>(test: impl Future<Output = R>) -> R {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_time().build().expect("it needs nothing").block_on(test)
    }

    #[test]
    fn those_who_ask_meanwhile_share_the_next_copy() {
        let (copies, made) = (Copies::new(), Cell::new(0));
        run(async {
            let ask = |name: &'static str| {
                let (copies, made) = (&copies, &made);
                async move { copies.get(name, || take(made)).await.expect("there is room").time }
            };
            let (first, second, third) = tokio::join!(ask(""), ask(""), ask(""));
            assert!(first < second, "the second asked after the first copy was begun");
            assert_eq!((second, made.get()), (third, 2));
            assert!(ask("").await > third, "a copy of before is not given");
            let (one, other) = tokio::join!(ask("a"), ask("b"));
            assert!(one != other, "copies of two applications differ");
        });
    }

    #[test]
    fn a_failure_is_told_to_who_asked_and_not_kept() {
        let (copies, made) = (Copies::new(), Cell::new(0));
        run(async {
            let failed = copies.get("", || async { Err(Status::not_found("none")) }).await;
            assert_eq!(failed.err().map(|status| status.code()), Some(petasos::Code::NotFound));
            assert!(copies.get("", || take(&made)).await.is_ok());
        });
    }

    #[test]
    fn few_wait_and_others_are_told() {
        let (copies, made) = (Copies::new(), Cell::new(0));
        run(async {
            let all = copies.askers.acquire_many(ASKERS_MAX as u32).await.expect("it is open");
            let full = copies.get("", || take(&made)).await;
            let code = full.err().map(|status| status.code());
            assert_eq!((code, made.get()), (Some(petasos::Code::ResourceExhausted), 0));
            drop(all);
            assert!(copies.get("", || take(&made)).await.is_ok());
        });
    }
}
