use petasos_plugin_sdk::Value;
use petasos_plugin_sdk::testing::{Rig, TestItem};

use super::*;

const CONFIGURATION: &str = r#"{"field": "user.name", "text": "mallory"}"#;
const FIELDS: &[(&str, FieldKind)] = &[("user.name", FieldKind::Text)];

fn refused(number: u32) -> Result<(), Status> {
    Err(Status::new(Code::PermissionDenied, format!("no. {number} of `mallory`")))
}

fn request(method: MethodId, name: &'static str) -> TestItem {
    TestItem::request(method).with("user.name", Value::text(name))
}

#[test]
fn a_text_is_refused_and_the_count_outlives_an_upgrade() {
    let mut rig: Rig<Refuse> = Rig::new(CONFIGURATION).unwrap();
    let method = rig.method("shop.Shop/Buy", FIELDS).unwrap();
    assert_eq!(rig.decide(&mut request(method, "alice")), Ok(()));
    assert_eq!(rig.decide(&mut request(method, "mallory")), refused(1));
    let mut rig: Rig<Refuse> = rig.replace(CONFIGURATION).unwrap();
    let method = rig.method("shop.Shop/Buy", FIELDS).unwrap();
    assert_eq!(rig.decide(&mut request(method, "mallory")), refused(2));
    assert_eq!(rig.state().as_deref(), Some(r#"{"refused":2}"#));
}

#[test]
fn methods_without_the_field_pass() {
    let mut rig: Rig<Refuse> = Rig::new(CONFIGURATION).unwrap();
    let method = rig.method("shop.Shop/List", &[]).unwrap();
    assert_eq!(rig.decide(&mut request(method, "mallory")), Ok(()));
}

#[test]
fn what_is_wrong_is_refused() {
    let wrong = Rig::<Refuse>::new(r#"{"field": "user.name"}"#).err();
    assert!(matches!(wrong, Some(Refusal::Configuration(why)) if why.contains("`text`")));
    let wrong = Rig::<Refuse>::from_states(CONFIGURATION, None, Some("{}")).err();
    assert!(matches!(wrong, Some(Refusal::State(why)) if why.contains("`refused`")));
}
