//! Follows the service: a stream of all that there is to see, begun again when it ends.

use std::time::Duration;

use petasos::{Msg, Request, block_on};
use petasos_admin::{AdminClient, Overview, WatchOverviewRequest};
use petasos_cli::admin::{Frame, ServiceArgs, failed};
use petasos_cli::failed::Failed;
use petasos_cli::output;

use crate::history::History;
use crate::view;

/// How often the service tells.
const INTERVAL_MS: u32 = 1000;
/// How many entries of the audit log.
const AUDIT_ENTRIES_MAX: u32 = 100;
/// So long it waits when a stream has ended that told something.
const PAUSE: Duration = Duration::from_millis(100);
/// So long it waits until it tries again to reach a service that has gone.
const AGAIN: Duration = Duration::from_secs(1);

/// Adds what the service tells to the history, for ever.
pub fn follow(service: &ServiceArgs, history: &History) {
    let mut is_away = false;
    loop {
        let (answers, why) = watched(service, history);
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

/// Watches until that ends. Says how often the service has told something, and why it ended.
fn watched(service: &ServiceArgs, history: &History) -> (u64, Failed) {
    let mut answers = 0;
    match service.connect(None) {
        Ok(client) => {
            let why = block_on(watch(&client, history, &mut answers));
            (answers, why.err().unwrap_or_else(|| Failed::new("the service tells no more")))
        }
        Err(why) => (answers, why),
    }
}

async fn watch(client: &AdminClient, history: &History, answers: &mut u64) -> Result<(), Failed> {
    let mut request = WatchOverviewRequest::new();
    request.edit().set_interval_ms(INTERVAL_MS).set_audit_entries_max(AUDIT_ENTRIES_MAX);
    let opened = client.watch_overview(Request::new(request)).await;
    let mut stream = opened.map_err(|status| failed(&status))?;
    let mut earlier: Option<Msg<Overview>> = None;
    while let Some(now) = stream.message().await.map_err(|status| failed(&status))? {
        let before = earlier.as_ref().and_then(|earlier| earlier.stats());
        let frame = before.zip(now.stats()).map(|(before, now)| Frame::between(before, now));
        history.add(frame.as_ref().map(view::frame), &view::overview(&now));
        *answers += 1;
        earlier = Some(now);
    }
    Ok(())
}
