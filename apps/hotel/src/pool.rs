//! A bounded pool of connections.
//!
//! A connection goes back only if its user says that it is in order: after an error, or if the user
//! gave up in the middle of an answer, it is closed.

use std::future::Future;
use std::ops::{Deref, DerefMut};
use std::sync::Mutex;

use tokio::sync::{Semaphore, SemaphorePermit};

use crate::error::Error;

/// The most connections to a store or cache.
pub const CONNECTIONS_MAX: usize = 8;

/// Connections of one kind to one server.
#[derive(Debug)]
pub struct Pool<T> {
    permits: Semaphore,
    idle: Mutex<Vec<T>>,
    is_usable: fn(&T) -> bool,
}

impl<T> Pool<T> {
    /// An empty pool of so many. Idle connections that are not usable any more are dropped.
    pub fn new(connections_max: usize, is_usable: fn(&T) -> bool) -> Pool<T> {
        let (permits, idle) = (Semaphore::new(connections_max), Mutex::default());
        Pool { permits, idle, is_usable }
    }

    /// An idle connection, or a new one; waits while all are in use.
    ///
    /// # Errors
    /// Those of `connect`.
    pub async fn take(
        &self,
        connect: impl Future<Output = Result<T, Error>>,
    ) -> Result<Held<'_, T>, Error> {
        let permit = self.permits.acquire().await;
        let permit = permit.map_err(|_| Error::internal("the pool is closed"))?;
        let idle = self.idle_one();
        let connection = match idle {
            Some(connection) => connection,
            None => connect.await?,
        };
        Ok(Held { pool: self, connection: Some(connection), is_in_order: false, _permit: permit })
    }

    fn idle_one(&self) -> Option<T> {
        let mut idle = self.idle.lock().expect("nothing panics under the lock");
        std::iter::from_fn(|| idle.pop()).find(|connection| (self.is_usable)(connection))
    }
}

/// A connection in use.
pub struct Held<'a, T> {
    pool: &'a Pool<T>,
    connection: Option<T>,
    is_in_order: bool,
    _permit: SemaphorePermit<'a>,
}

impl<T> Held<'_, T> {
    /// The connection is in order, and goes back to the pool.
    pub fn give_back(mut self) {
        self.is_in_order = true;
    }
}

impl<T> Deref for Held<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.connection.as_ref().expect("it is there until the end")
    }
}

impl<T> DerefMut for Held<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.connection.as_mut().expect("it is there until the end")
    }
}

impl<T> Drop for Held<'_, T> {
    fn drop(&mut self) {
        if let (true, Some(connection)) = (self.is_in_order, self.connection.take()) {
            let mut idle = self.pool.idle.lock().expect("nothing panics under the lock");
            idle.push(connection);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::ready;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn now<F: Future>(future: F) -> Option<F::Output> {
        match std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    fn take(pool: &Pool<u32>, fresh: u32) -> Option<Held<'_, u32>> {
        now(pool.take(ready(Ok(fresh)))).map(|held| held.expect("it connects"))
    }

    #[test]
    fn only_what_is_in_order_comes_back() {
        let pool = Pool::new(1, |number| *number != 3);
        take(&pool, 1).expect("it is free").give_back();
        assert_eq!(*take(&pool, 2).expect("it is free"), 1);
        // That one was dropped.
        take(&pool, 3).expect("it is free").give_back();
        assert_eq!(*take(&pool, 4).expect("it is free"), 4);
    }

    #[test]
    fn there_are_no_more_than_allowed() {
        let pool = Pool::new(CONNECTIONS_MAX, |_| true);
        let held: Vec<_> = (0..8).map(|number| take(&pool, number)).collect();
        assert_eq!(held.len(), CONNECTIONS_MAX);
        assert!(take(&pool, 9).is_none());
        drop(held);
        assert!(take(&pool, 9).is_some());
        let failed = now(pool.take(ready(Err(Error::away("no")))));
        assert!(failed.is_some_and(|outcome| outcome.is_err()));
        assert!(take(&pool, 10).is_some());
    }
}
