//! What the macro itself refuses. No line is compiled, so the types need not exist.

use petasos_macros::message;

fn messages() {
    message!(); //~ `message!`: a message is written `Type { field: value, … }`
    message!(Note); //~ `Note`: a message is written `Type { field: value, … }`
    message!({ text: "a" }); //~ `{ text`: the message's type is missing
    message!(Note { ..first, text: "a" }); //~ `text`: `..message` stands at the end
    message!(Note { place: { ..first } }); //~ `{ ..first`: `..message` is for the outermost message
    message!(Note { .. }); //~ `.. }`: an expression is expected after `..`
    message!(Note { .first }); //~ `.first`: `..` is expected
}

fn fields() {
    message!(Note { "text": "a" }); //~ `"text"`: a field's name is expected
    message!(Note { text = "a" }); //~ `=`: `:` or `,` is expected after a field's name
    message!(Note { text: }); //~ `:`: a value is expected
    message!(Note { text: "a", text: "b" }); //~ `text: "b"`: the field is set twice
    message!(Note { r#type: 1, place: {}, type: 2 }); //~ `type: 2`: the field is set twice
    message!(Note { place: { x: 1, x } }); //~ `x }`: the field is set twice
}

fn lists_and_maps() {
    message!(Note { tags: ["a", ["b"]] }); //~ `["b"]`: lists hold values and messages
    message!(Note { tags: ["a", { 1 => 2 }] }); //~ `{ 1`: lists hold values and messages
    message!(Note { counters: { "a" => 1, "b" } }); //~ `"b"`: a map's entries are written
    message!(Note { counters: { "a" => 1, "b": 2 } }); //~ `"b"`: a map's entries are written
    message!(Note { counters: { => 1 } }); //~ `=`: a map's entries are written
    message!(Note { counters: { "a" => } }); //~ `=>`: a value is expected
    message!(Note { counters: { "a" => [1] } }); //~ `"a"`: maps hold values and messages
}
