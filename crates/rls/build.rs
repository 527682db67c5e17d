//! Compiles the protocol's messages, their JSON and their description, without `protoc`.

use std::path::PathBuf;
use std::{env, error, fs};

use prost::Message;

const PROTO: &str = "envoy/service/ratelimit/v3/rls.proto";

fn main() -> Result<(), Box<dyn error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let descriptors = protox::compile([PROTO], ["proto"])?;
    let encoded = descriptors.encode_to_vec();
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("descriptors.bin"), &encoded)?;
    prost_build::Config::new()
        .compile_well_known_types()
        .extern_path(".google.protobuf", "::pbjson_types")
        .compile_fds(descriptors)?;
    pbjson_build::Builder::new()
        .register_descriptors(&encoded)?
        .build(&[".envoy"])?;
    Ok(())
}
