//! Applications that other hosts call at listeners of their own.

use petasos_call::Code;
use petasos_service::{Incoming, ListenerId, RouteIn};

use crate::remote::*;
use crate::support::*;

const ALL: ListenerId = ListenerId(0);
const SHOP: ListenerId = ListenerId(1);
const BANK: ListenerId = ListenerId(2);

fn route(world: &mut World, listener: ListenerId) -> Result<RouteIn, Code> {
    let route = world.hub.route_in(listener, ("greet.Greeter", "Greet"), false);
    route.map_err(|status| status.code())
}

/// The application that gets a call that comes in there.
fn callee(world: &mut World, listener: ListenerId, apps: &mut [&mut App]) -> usize {
    let incoming = Incoming { listener, ..incoming("Greet", Some(&[])) };
    world.hub.begin_remote(incoming, NOW).unwrap();
    world.run(apps);
    let got: Vec<_> = apps.iter_mut().map(|app| app.take(|said| Some(*said)).len()).collect();
    assert_eq!(got.iter().sum::<usize>(), 1, "{got:?}");
    got.iter().position(|count| *count == 1).unwrap()
}

#[test]
fn applications_that_serve_the_same_are_called_at_their_own_listeners_only() {
    let mut world = world();
    world.hub.set_listeners(&["shop", "bank"].map(|name| Some(name.into())));
    let mut apps = [world.proved_app("bank"), world.app("other"), world.proved_app("shop")];
    for (app, name) in apps.iter().zip(["a", "b", "c"]) {
        world.hub.serve(app.number, name).unwrap();
    }
    for (listener, expected) in [(ALL, 1), (SHOP, 2), (BANK, 0)] {
        assert_eq!(world.hub.exports(listener).len(), 1);
        let mut all: Vec<_> = apps.iter_mut().collect();
        assert_eq!(callee(&mut world, listener, &mut all), expected, "{listener:?}");
    }
    assert_eq!(route(&mut world, ListenerId(3)).unwrap_err(), Code::Unavailable);
}

#[test]
fn a_name_that_is_not_proved_is_called_where_all_are() {
    let mut world = world();
    world.hub.set_listeners(&[Some("shop".into())]);
    let shop = world.app("shop");
    world.hub.serve(shop.number, "a").unwrap();
    assert_eq!(route(&mut world, SHOP).unwrap_err(), Code::Unavailable);
    assert!(route(&mut world, ALL).is_ok());
}

#[test]
fn who_leaves_is_called_nowhere_and_listeners_change_at_once() {
    let mut world = world();
    world.hub.set_listeners(&[Some("shop".into())]);
    let shop = world.proved_app("shop");
    world.hub.serve(shop.number, "a").unwrap();
    assert!(route(&mut world, SHOP).is_ok());
    world.hub.set_listeners(&[None]);
    assert!(route(&mut world, SHOP).is_err() && route(&mut world, ALL).is_ok());
    world.hub.remove(shop.number, NOW);
    assert_eq!(route(&mut world, ALL).unwrap_err(), Code::Unavailable);
}
