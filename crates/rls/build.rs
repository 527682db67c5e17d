//! Compiles the protocol's messages, their JSON and their description, without `protoc`.

use std::path::PathBuf;
use std::{env, error, fs};

use prost::Message;

const PROTOS: [&str; 2] = [
    "envoy/service/ratelimit/v3/rls.proto",
    "tollgate/v1/decisions.proto",
];
/// Strings of the protocol that are read as bytes. Envoy copies headers into them unchecked, and a
/// decoder of strings rejects a whole message for one byte that is not UTF-8. What reflection hands
/// out still says `string`.
const BYTES: [(&str, &str); 3] = [
    ("RateLimitDescriptor.Entry", "key"),
    ("RateLimitDescriptor.Entry", "value"),
    ("RateLimitRequest", "domain"),
];
/// `FieldDescriptorProto.Type.TYPE_BYTES`.
const TYPE_BYTES: i32 = 12;
/// Messages whose JSON is read by `src/json.rs`.
const BY_HAND: [&str; 2] = [
    ".envoy.extensions.common.ratelimit.v3.RateLimitDescriptor",
    ".envoy.service.ratelimit.v3.RateLimitRequest",
];

/// Compiles the protocol, with byte strings in place of those that need not be UTF-8.
fn main() -> Result<(), Box<dyn error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let mut descriptors = protox::compile(PROTOS, ["proto"])?;
    let encoded = descriptors.encode_to_vec();
    let out = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(out.join("descriptors.bin"), &encoded)?;
    for file in &mut descriptors.file {
        for message in &mut file.message_type {
            let name = message.name().to_owned();
            read_as_bytes(
                &name,
                message
                    .field
                    .iter_mut()
                    .map(|field| (field.name.clone(), &mut field.r#type)),
            );
            for inner in &mut message.nested_type {
                let name = format!("{name}.{}", inner.name());
                read_as_bytes(
                    &name,
                    inner
                        .field
                        .iter_mut()
                        .map(|field| (field.name.clone(), &mut field.r#type)),
                );
            }
        }
    }
    prost_build::Config::new()
        .compile_well_known_types()
        .extern_path(".google.protobuf", "::pbjson_types")
        // The texts of a request are parts of the buffer in which it arrives, not copies.
        .bytes([
            ".tollgate.v1",
            ".envoy.extensions.common.ratelimit.v3.RateLimitDescriptor.Entry",
            ".envoy.service.ratelimit.v3.RateLimitRequest",
        ])
        .compile_fds(descriptors)?;
    pbjson_build::Builder::new()
        .register_descriptors(&encoded)?
        .exclude(BY_HAND)
        .build(&[".envoy"])?;
    Ok(())
}

/// Makes the fields of [`BYTES`] bytes: the two types are the same on the wire.
fn read_as_bytes<'f>(
    message: &str,
    fields: impl Iterator<Item = (Option<String>, &'f mut Option<i32>)>,
) {
    for (name, kind) in fields {
        if BYTES.contains(&(message, name.as_deref().unwrap_or_default())) {
            *kind = Some(TYPE_BYTES);
        }
    }
}
