//! What the compiler refuses: its errors point at the wrong field or value, not at the macro.

use petasos_macros::message;

/// In the place of generated code: as much of it as the lines below call.
mod generated {
    #[derive(Default)]
    pub struct Note(Place, Tags, Counters);
    #[derive(Default)]
    pub struct Place;
    #[derive(Default)]
    pub struct Tags;
    #[derive(Default)]
    pub struct Counters;

    impl Note {
        pub fn new() -> Note {
            Note::default()
        }
        pub fn edit(&mut self) -> &mut Note {
            self
        }
        pub fn set_text(&mut self, _: &str) {}
        pub fn place_mut(&mut self) -> &mut Place {
            &mut self.0
        }
        pub fn tags_mut(&mut self) -> &mut Tags {
            &mut self.1
        }
        pub fn counters_mut(&mut self) -> &mut Counters {
            &mut self.2
        }
    }
    impl Place {
        pub fn set_latitude(&mut self, _: f64) {}
    }
    impl Tags {
        pub fn push(&mut self, _: &str) {}
    }
    impl Counters {
        pub fn insert(&mut self, _: &str, _: i32) {}
    }
}
use generated::Note;

fn fields() {
    message!(Note { text: "a", place: { latitude: 51.5 }, tags: ["b"], counters: { "c" => 1 } });
    message!(Note { text: 7 }); //~ `7`: mismatched types
    message!(Note { txet: "a" }); //~ `txet`: no method named `set_txet`
    message!(Note { plaec: {} }); //~ `plaec`: no method named `plaec_mut`
    message!(Note { place: { latitude: "a" } }); //~ `"a"`: mismatched types
    message!(Note { place: { latitud: 51.5 } }); //~ `latitud`: no method named `set_latitud`
}

fn lists_and_maps() {
    message!(Note { tags: ["a", 2] }); //~ `2`: mismatched types
    message!(Note { counters: { 1 => 2 } }); //~ `1`: mismatched types
    message!(Note { counters: { "a" => "b" } }); //~ `"b"`: mismatched types
}
