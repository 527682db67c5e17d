//! Tollgate's shared store: Redis, Redis Cluster and Valkey.
