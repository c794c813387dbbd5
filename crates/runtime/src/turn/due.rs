//! Ends what has reached its deadline (R10).

use petasos_endpoint::Context;

use super::{attempts, callers, handlers};
use crate::dispatcher::Dispatcher;
use crate::due::Due;

/// R10: ends every call and handler whose time has passed.
#[cold]
pub(super) fn expire(dispatcher: &mut Dispatcher, cx: &mut Context<Dispatcher>) {
    let (now, parts) = (cx.now(), &mut dispatcher.parts);
    let mut due = core::mem::take(&mut parts.due);
    parts.deadlines.advance(now, |item| due.push(item));
    for item in due.drain(..) {
        let Dispatcher { methods, parts } = &mut *dispatcher;
        if item.at() > now {
            parts.deadlines.insert(now, item.at(), item);
            continue;
        }
        match item {
            Due::Handler { task, generation, .. } => {
                methods[task.kind as usize].expire(parts, cx, task.slot, generation);
            }
            Due::Call { call, .. } => attempts::expire(parts, cx, call),
            Due::Stream { key, .. } => callers::expire(parts.local, key),
            Due::Sweep { .. } => handlers::sweep(dispatcher, cx),
            Due::Timer { number, .. } => parts.local.timer_is_due(number),
            Due::Channel { channel, at } => {
                parts.local.channels.borrow_mut().is_due(channel, at);
            }
        }
    }
    dispatcher.parts.due = due;
}
