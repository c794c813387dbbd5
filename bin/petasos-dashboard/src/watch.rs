//! Follows the service, or a router: a stream of all that there is to see, begun again whenever it
//! ends.

use std::time::Duration;

use petasos::{Msg, Request, Status, block_on};
use petasos_admin::router::{WatchRequest, WatchResponse};
use petasos_admin::{Overview, WatchOverviewRequest};
use petasos_cli::admin::{Frame, ROUTER, RoutedFrame, SERVICE, Served, ServiceArgs};
use petasos_cli::failed::Failed;
use petasos_cli::output;

use crate::history::History;
use crate::{router_view, view};

/// How often the other end tells.
const INTERVAL_MS: u32 = 1000;
/// How many entries of the audit log.
const AUDIT_ENTRIES_MAX: u32 = 100;
/// So long it waits when a stream has ended that told something.
const PAUSE: Duration = Duration::from_millis(100);
/// So long it waits until it tries again to reach who has gone.
const AGAIN: Duration = Duration::from_secs(1);

/// Adds what the service tells to its history, for ever.
pub fn follow_service(service: &ServiceArgs, history: &History) {
    follow(history, |answers| block_on(watch_service(service, history, answers)));
}

/// Adds what a router tells to its history, for ever.
pub fn follow_router(router: &ServiceArgs, history: &History) {
    follow(history, |answers| block_on(watch_router(router, history, answers)));
}

/// Watches again and again. Each time `watch` counts the answers, and says why there are no more.
fn follow(history: &History, watch: impl Fn(&mut u64) -> Failed) {
    let mut is_away = false;
    loop {
        let mut answers = 0;
        let why = watch(&mut answers);
        // Connections end when they are old: that is no absence.
        if answers > 0 {
            is_away = false;
            std::thread::sleep(PAUSE);
            continue;
        }
        history.away(&why.to_string());
        if !is_away {
            output::note(&format!("petasos: {why}"));
        }
        is_away = true;
        std::thread::sleep(AGAIN);
    }
}

async fn watch_service(service: &ServiceArgs, history: &History, answers: &mut u64) -> Failed {
    let client = match service.connect(None) {
        Ok(client) => client,
        Err(why) => return why,
    };
    let mut request = WatchOverviewRequest::new();
    request.edit().set_interval_ms(INTERVAL_MS).set_audit_entries_max(AUDIT_ENTRIES_MAX);
    let mut stream = match client.watch_overview(Request::new(request)).await {
        Ok(stream) => stream,
        Err(status) => return SERVICE.failed(&status),
    };
    let mut earlier: Option<Msg<Overview>> = None;
    loop {
        let now = match heard(&SERVICE, stream.message().await) {
            Ok(now) => now,
            Err(why) => return why,
        };
        let before = earlier.as_ref().and_then(|earlier| earlier.stats());
        let frame = before.zip(now.stats()).map(|(before, now)| Frame::between(before, now));
        history.add(frame.as_ref().map(view::frame), &view::overview(&now));
        *answers += 1;
        earlier = Some(now);
    }
}

async fn watch_router(router: &ServiceArgs, history: &History, answers: &mut u64) -> Failed {
    let client = match router.connect_router(None) {
        Ok(client) => client,
        Err(why) => return why,
    };
    let mut request = WatchRequest::new();
    request.edit().set_interval_ms(INTERVAL_MS);
    let mut stream = match client.watch(Request::new(request)).await {
        Ok(stream) => stream,
        Err(status) => return ROUTER.failed(&status),
    };
    let mut earlier: Option<Msg<WatchResponse>> = None;
    loop {
        let now = match heard(&ROUTER, stream.message().await) {
            Ok(now) => now,
            Err(why) => return why,
        };
        let frame = earlier.as_ref().map(|earlier| RoutedFrame::between(earlier, &now));
        history.add(frame.as_ref().map(router_view::frame), &router_view::overview(&now));
        *answers += 1;
        earlier = Some(now);
    }
}

/// An answer, or why there are no more.
fn heard<T>(from: &Served, answer: Result<Option<T>, Status>) -> Result<T, Failed> {
    let answer = answer.map_err(|status| from.failed(&status))?;
    answer.ok_or_else(|| Failed::new("the service tells no more"))
}
