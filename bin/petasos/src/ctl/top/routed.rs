//! What a router does now.

use petasos::Request;
use petasos_admin::router as proto;
use petasos_cli::admin::{Order, ROUTER, RoutedFrame};
use petasos_cli::failed::Failed;
use serde_json::Value;

use super::screen::Picture;
use super::watch::Watch;
use super::{Shown, TopArgs};

impl Shown for RoutedFrame {
    type Answer = proto::WatchResponse;

    fn begin(args: &TopArgs) -> Result<Watch<proto::WatchResponse>, Failed> {
        let mut request = proto::WatchRequest::new();
        request.edit().set_interval_ms(args.interval_ms()).set_group(&args.group);
        let client = args.service.connect_router(None)?;
        Watch::begin(&ROUTER, args.patience(), move || async move {
            client.watch(Request::new(request)).await
        })
    }

    fn between(earlier: &proto::WatchResponse, now: &proto::WatchResponse) -> RoutedFrame {
        RoutedFrame::between(earlier, now)
    }

    /// Workers are in the order of their numbers.
    fn sort(&mut self, _: Order) {}

    fn picture(&self, _: Order, note: &str) -> Picture {
        let head = format!("petasos top, router: {} {note}", self.summary());
        Picture { head, tables: self.tables_within(usize::MAX), keys: "q quit" }
    }

    fn text(&self) -> String {
        self.text()
    }

    fn json(&self) -> Value {
        self.json()
    }
}
