//! Snapshots of groups, made at most once per [`FRESH`], however many ask.
//!
//! Making one takes time of the group's threads, in which no packet passes.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use petasos::Status;
use petasos_base::{SystemClock, Time};
use petasos_router_control::GroupSnapshot;
use tokio::sync::Mutex;

/// So long a snapshot is given again.
pub const FRESH: Duration = Duration::from_millis(50);

/// The snapshot of a group, and when it was made.
type Copy = Arc<Mutex<Option<(Time, Arc<GroupSnapshot>)>>>;

/// See the module's documentation.
#[derive(Default)]
pub struct Copies {
    /// By group. As many as there are groups, and were.
    of: std::sync::Mutex<HashMap<SocketAddr, Copy>>,
    clock: SystemClock,
}

impl Copies {
    /// A snapshot that is fresh. Those who ask while one is made wait for the same.
    ///
    /// # Errors
    /// What `take` says.
    pub async fn get<F>(
        &self,
        group: SocketAddr,
        take: impl FnOnce() -> F,
    ) -> Result<Arc<GroupSnapshot>, Status>
    where
        F: Future<Output = Result<GroupSnapshot, Status>>,
    {
        let copy = self.all().entry(group).or_default().clone();
        let mut copy = copy.lock().await;
        let now = self.clock.now();
        if let Some((made, snapshot)) = &*copy
            && now - *made < FRESH
        {
            return Ok(snapshot.clone());
        }
        let snapshot = Arc::new(take().await?);
        *copy = Some((now, snapshot.clone()));
        Ok(snapshot)
    }

    /// Something has changed: who looks afterwards sees it. Groups may have gone, too.
    pub fn forget(&self) {
        self.all().clear();
    }

    fn all(&self) -> std::sync::MutexGuard<'_, HashMap<SocketAddr, Copy>> {
        self.of.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}
