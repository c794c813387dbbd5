//! Queues, which collect the tags of wakers and have a file descriptor for event loops.

use core::ffi::c_void;
use std::collections::VecDeque;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

use petasos::Status;
use rustix::event::{EventfdFlags, eventfd};

use crate::failure::{PETASOS_OK, contained, guarded, guarded_or, petasos_code};
use crate::notifier::{For, Notifier};
use crate::{pointer, wait};

/// The tags of called wakers, in order. This is for programs with their own event loop: wakers call
/// petasos_queue_push with the queue as their context, and the loop watches the queue's descriptor
/// and takes the tags. Any number of threads may use it.
pub struct petasos_queue {
    tags: Mutex<VecDeque<u64>>,
    /// Readable while there are tags.
    descriptor: OwnedFd,
    notifier: Arc<Notifier>,
}

impl petasos_queue {
    fn push(&self, tag: u64) {
        let mut tags = self.tags.lock().unwrap_or_else(PoisonError::into_inner);
        tags.push_back(tag);
        if tags.len() == 1 {
            // This fails only if the counter overflows. It is reset when the queue is emptied.
            let _ = rustix::io::write(&self.descriptor, &1_u64.to_ne_bytes());
        }
        drop(tags);
        self.notifier.notify();
    }

    fn take(&self, to: &mut [u64]) -> usize {
        let mut tags = self.tags.lock().unwrap_or_else(PoisonError::into_inner);
        let count = to.len().min(tags.len());
        for (place, tag) in to.iter_mut().zip(tags.drain(..count)) {
            *place = tag;
        }
        if count > 0 && tags.is_empty() {
            // Under the lock, so that the next push makes it readable again.
            let _ = rustix::io::read(&self.descriptor, &mut [0; 8]);
        }
        count
    }
}

/// Makes a queue; free it with petasos_queue_free.
///
/// # Safety
/// `queue` is writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_queue_new(queue: *mut *mut petasos_queue) -> petasos_code {
    guarded(|| {
        // SAFETY: the caller's promise.
        let to = unsafe { pointer::out(queue)? };
        let descriptor = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let descriptor = descriptor
            .map_err(|error| Status::resource_exhausted(format!("no descriptor: {error}")))?;
        *to = pointer::give(petasos_queue {
            tags: Mutex::default(),
            descriptor,
            notifier: Arc::default(),
        });
        Ok(PETASOS_OK)
    })
}

/// A petasos_wake: adds a tag to the queue that is the context.
///
/// # Safety
/// `queue` is a valid petasos_queue.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_queue_push(queue: *mut c_void, tag: u64) {
    contained(|| {
        let queue = queue.cast_const().cast::<petasos_queue>();
        // SAFETY: the caller's promise.
        if let Some(queue) = unsafe { queue.as_ref() } {
            queue.push(tag);
        }
    });
}

/// A file descriptor that is readable while the queue has tags. It belongs to the queue, and may
/// only be used with poll(2) and similar functions. -1 if the queue is null.
///
/// # Safety
/// The queue is null or valid.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_queue_descriptor(queue: *const petasos_queue) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { queue.as_ref() }.map_or(-1, |queue| queue.descriptor.as_raw_fd())
}

/// Takes up to `max` tags. Waits up to `timeout_us` microseconds for the first one; 0 returns at
/// once, a negative value waits without limit. Returns the number of tags.
///
/// # Safety
/// The queue is valid, and `max` tags can be written to `tags`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_queue_take(
    queue: *const petasos_queue,
    tags: *mut u64,
    max: usize,
    timeout_us: i64,
) -> usize {
    guarded_or(0, || {
        // SAFETY: the caller's promise.
        let Some(queue) = (unsafe { queue.as_ref() }).filter(|_| !tags.is_null() && max > 0) else {
            return 0;
        };
        // SAFETY: the caller's promise; numbers of any value are valid.
        let to = unsafe { core::slice::from_raw_parts_mut(tags, max) };
        let mut count = queue.take(to);
        if count == 0 && timeout_us != 0 {
            let waited = wait::block(&queue.notifier, For::Receiving, timeout_us, |_| {
                count = queue.take(to);
                if count > 0 { Poll::Ready(Ok(PETASOS_OK)) } else { Poll::Pending }
            });
            waited.expect("looking at a queue does not fail");
        }
        count
    })
}

/// Frees a queue; does nothing if it is null.
///
/// # Safety
/// It is null, or came from petasos_queue_new, and no waker with it can be called any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn petasos_queue_free(queue: *mut petasos_queue) {
    // SAFETY: the caller's promise.
    unsafe { pointer::free(queue) }
}
