//! Access logs and traces through Tollgate's engine in virtual time.
