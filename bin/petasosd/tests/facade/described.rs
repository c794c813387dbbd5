//! Health checks and reflection of a server that is reached through the service.

use petasos::Server;
use petasos_health::{HealthCheckRequest, HealthClient, ServingStatus};
use petasos_reflection::Reflection;
use petasos_reflection::client::Conversation;
use petasos_schema::Files;

use crate::support::managed::WorkServer;
use crate::support::{Daemon, Worker};

const SERVICE: &str = "managed.Work";

#[test]
fn health_is_checked_and_watched_through_the_service() {
    let daemon = Daemon::start("health", None);
    let (reporter, health) = petasos_health::service();
    reporter.set(SERVICE, ServingStatus::NOT_SERVING);
    let server = Server::builder().add(WorkServer::new(Worker)).add(health).listen("127.0.0.1:0");
    let server = server.service(daemon.service("server")).start().unwrap();
    let event_loop = daemon.event_loop("client");
    let client = HealthClient::new(event_loop.channel(server.local_address().unwrap()));
    let asked = |service: &str| {
        let mut request = HealthCheckRequest::new();
        request.set_service(service);
        request
    };
    event_loop.block_on(async {
        let whole = client.check(asked("")).await.unwrap();
        assert_eq!(whole.status(), ServingStatus::SERVING);
        let missing = client.check(asked("managed.Play")).await.unwrap_err();
        assert_eq!(missing.code(), petasos::Code::NotFound);
        let mut watched = client.watch(asked(SERVICE)).await.unwrap();
        let next = watched.message().await.unwrap().unwrap();
        assert_eq!(next.status(), ServingStatus::NOT_SERVING);
        reporter.set(SERVICE, ServingStatus::SERVING);
        let next = watched.message().await.unwrap().unwrap();
        assert_eq!(next.status(), ServingStatus::SERVING);
        reporter.shut_down();
        let next = watched.message().await.unwrap().unwrap();
        assert_eq!(next.status(), ServingStatus::NOT_SERVING);
    });
}

#[test]
fn a_caller_that_knows_no_schema_learns_it_through_the_service() {
    let daemon = Daemon::start("reflection", None);
    let work = WorkServer::new(Worker);
    let mut reflection = Reflection::new();
    reflection.describe(&work);
    let (v1, v1alpha) = reflection.services();
    let server = Server::builder().add(work).add(v1).add(v1alpha).listen("127.0.0.1:0");
    let server = server.service(daemon.service("server")).start().unwrap();
    let event_loop = daemon.event_loop("client");
    let channel = event_loop.channel(server.local_address().unwrap());
    event_loop.block_on(async {
        let (mut conversation, services) = Conversation::begin(&channel).await.unwrap();
        let reflections = ["grpc.reflection.v1", "grpc.reflection.v1alpha"];
        let reflections = reflections.map(|package| format!("{package}.ServerReflection"));
        assert_eq!(services, [&reflections[0], &reflections[1], SERVICE]);
        let mut files = Files::default();
        conversation.collect(SERVICE, &mut files).await.unwrap();
        assert!(files.services().any(|name| name == SERVICE) && files.missing_import().is_none());
    });
}
