//! Generates the services twice from the same files: with Petasos' generator, and with tonic's and
//! prost's. Neither needs `protoc`.

const FILES: [&str; 7] = [
    "protos/geo.proto",
    "protos/profile.proto",
    "protos/rate.proto",
    "protos/recommendation.proto",
    "protos/reservation.proto",
    "protos/search.proto",
    "protos/user.proto",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let out = std::path::PathBuf::from(std::env::var("OUT_DIR")?).join("tonic");
    std::fs::create_dir_all(&out)?;
    // Messages are what is kept in the cache, too, as JSON.
    tonic_prost_build::configure()
        .out_dir(out)
        .type_attribute(".", "#[derive(serde::Serialize, serde::Deserialize)]")
        .compile_fds(protox::compile(FILES, ["protos"])?)?;
    for file in FILES {
        petasos_codegen::configure().include("protos").compile(&[file])?;
    }
    Ok(())
}
