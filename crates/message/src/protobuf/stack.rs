//! An explicit stack instead of recursion: the places to which a codec returns after nested
//! messages. So a nested message costs a few words and not a call.
//!
//! Invariant: the slots below `len` are initialised.

use std::mem::MaybeUninit;

use crate::DEPTH_MAX;

/// As many frames as messages may be nested (M18, M30).
pub(super) struct Stack<T> {
    /// At most [`DEPTH_MAX`].
    len: usize,
    slots: [MaybeUninit<T>; DEPTH_MAX as usize],
}

impl<T: Copy> Stack<T> {
    #[inline(always)]
    pub(super) fn new() -> Stack<T> {
        Stack { len: 0, slots: [const { MaybeUninit::uninit() }; DEPTH_MAX as usize] }
    }

    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// How many more frames there may be.
    #[inline(always)]
    pub(super) fn left(&self) -> u32 {
        DEPTH_MAX - self.len as u32
    }

    /// Puts a frame on top; `None` if messages are nested too deep.
    #[inline(always)]
    #[must_use]
    pub(super) fn push(&mut self, frame: T) -> Option<()> {
        self.slots.get_mut(self.len)?.write(frame);
        self.len += 1;
        Some(())
    }

    /// The frame on top, if there are more than `base`.
    #[inline(always)]
    pub(super) fn top(&mut self, base: usize) -> Option<&mut T> {
        if self.len <= base {
            return None;
        }
        // SAFETY: `len` is at least 1 and at most the number of slots, and this one is written.
        Some(unsafe { self.slots.get_unchecked_mut(self.len - 1).assume_init_mut() })
    }

    /// Drops the frame on top.
    #[inline(always)]
    pub(super) fn pop(&mut self) {
        self.len = self.len.checked_sub(1).expect("what is dropped was on top");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stack_is_as_deep_as_messages_are() {
        let mut stack = Stack::new();
        for frame in 0..DEPTH_MAX {
            assert_eq!(stack.left(), DEPTH_MAX - frame);
            assert_eq!(stack.push(frame), Some(()));
            assert_eq!(stack.top(frame as usize), Some(&mut frame.clone()));
            assert_eq!(stack.top(frame as usize + 1), None, "no frame above this base");
        }
        assert_eq!(stack.push(0), None);
        stack.pop();
        assert_eq!((stack.len(), stack.top(0)), (99, Some(&mut 98)));
    }
}
