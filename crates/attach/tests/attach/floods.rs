//! Many connections at once.

use petasos_attach::ListenerConfig;
use petasos_attach::message::{FromApplication, FromService};
use petasos_attach::reason::RefuseCode;

use crate::application::{Honest, hello};
use crate::memory::descriptors;
use crate::raw::Raw;
use crate::service::{App, Service};
use crate::{Folder, alone};

#[test]
fn a_thousand_connections_take_no_more_than_their_users_share() {
    let (_alone, folder) = (alone(), Folder::new());
    let config = ListenerConfig { pending_per_user_max: 16, ..ListenerConfig::default() };
    let mut service = Service::bind(&folder.socket(), config);
    let honest = Honest::start(&folder.socket());
    let works = |app: &App| app.answered > 10;
    service.until("the honest one works", |service| service.app("honest").is_some_and(works));
    let before = descriptors();
    let mut raws = Vec::new();
    let mut refused = 0;
    for _ in 0..1000 {
        let raw = loop {
            match Raw::try_connect(&folder.socket()) {
                Some(raw) => break raw,
                None => drop(service.turn()),
            }
        };
        raws.push(raw);
        assert!(service.listener.pending() <= 16);
    }
    service.until("all are accepted", |service| service.listener.stats().accepted == 1001);
    assert_eq!(service.listener.pending(), 16);
    for raw in &mut raws {
        raw.hear();
        if let Some(FromService::Refuse(code, _)) = raw.said.first() {
            assert_eq!((*code, code.may_retry()), (RefuseCode::Busy, true));
            assert!(raw.is_closed);
            refused += 1;
        }
    }
    assert_eq!(refused, 1000 - 16);
    drop(raws.drain(..500));
    service.skew += ListenerConfig::default().patience;
    service.until("their time is over", |service| service.listener.pending() == 0);
    drop(raws);
    assert_eq!(descriptors(), before);
    let mut raw = Raw::connect(&folder.socket());
    raw.say(&FromApplication::Hello(hello("late", 1)));
    service.until("there is room again", |service| service.app("late").is_some());
    assert!(honest.end(&mut service) > 0);
}

#[test]
fn connections_in_all_are_bounded_as_well() {
    let (_alone, folder) = (alone(), Folder::new());
    let config = ListenerConfig { pending_max: 4, ..ListenerConfig::default() };
    let mut service = Service::bind(&folder.socket(), config);
    let raws: Vec<Raw> = (0..9).map(|_| Raw::connect(&folder.socket())).collect();
    service.until("all are accepted", |service| service.listener.stats().accepted == 9);
    assert_eq!((service.listener.pending(), service.listener.stats().refused), (4, 5));
    drop(raws);
    service.until("they have left", |service| service.listener.pending() == 0);
    assert_eq!(service.listener.stats().left, 4);
}
