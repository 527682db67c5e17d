//! Tollgate's in-process store: bounded, exact, one cache line per decision.
