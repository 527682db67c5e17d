//! The protocol's messages, as compiled from `proto/`.
//!
//! They have only the fields that Tollgate reads or writes; an unknown field is skipped in the
//! binary form, and rejected in JSON.

#![allow(missing_docs, unreachable_pub, unused_qualifications)]
#![allow(clippy::all, clippy::as_conversions)]

/// One generated package: messages and their JSON.
macro_rules! package {
    ($name:literal) => {
        include!(concat!(env!("OUT_DIR"), "/", $name, ".rs"));
        include!(concat!(env!("OUT_DIR"), "/", $name, ".serde.rs"));
    };
}

pub mod envoy {
    pub mod config {
        pub mod core {
            pub mod v3 {
                package!("envoy.config.core.v3");
            }
        }
    }
    pub mod extensions {
        pub mod common {
            pub mod ratelimit {
                pub mod v3 {
                    // Its JSON is read by `crate::json`.
                    include!(concat!(
                        env!("OUT_DIR"),
                        "/envoy.extensions.common.ratelimit.v3.rs"
                    ));
                }
            }
        }
    }
    pub mod r#type {
        pub mod v3 {
            package!("envoy.r#type.v3");
        }
    }
    pub mod service {
        pub mod ratelimit {
            pub mod v3 {
                package!("envoy.service.ratelimit.v3");
            }
        }
    }
}

pub mod tollgate {
    pub mod v1 {
        // Nothing reads or writes it as JSON.
        include!(concat!(env!("OUT_DIR"), "/tollgate.v1.rs"));
    }
}
