//! Envoy's rate limit service protocol, version 3: its messages and their JSON.
