//! Draws an SVG file as PNG, at twice its size: `petasos-png FROM.svg TO.png`.

#![forbid(unsafe_code)]

use std::error::Error;
use std::process::ExitCode;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree};

/// Pixels for each unit of the drawing.
const SCALE: f32 = 2.0;

fn draw(from: &str, to: &str) -> Result<(), Box<dyn Error>> {
    let mut options = Options::default();
    options.fontdb_mut().load_system_fonts();
    let tree = Tree::from_data(&std::fs::read(from)?, &options)?;
    let size = tree.size();
    let pixels = |length: f32| (length * SCALE).ceil() as u32;
    let canvas = Pixmap::new(pixels(size.width()), pixels(size.height()));
    let mut canvas = canvas.ok_or("the drawing has no size, or too much of it")?;
    resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut canvas.as_mut());
    Ok(canvas.save_png(to)?)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [from, to] = &arguments[..] else {
        eprintln!("usage: petasos-png FROM.svg TO.png");
        return ExitCode::from(2);
    };
    match draw(from, to) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{from}: {error}");
            ExitCode::FAILURE
        }
    }
}
