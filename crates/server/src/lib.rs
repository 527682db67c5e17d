//! Tollgate's service: gRPC, HTTP, admin and metrics.
