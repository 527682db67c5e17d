//! Tollgate's rules: YAML text in, charges out. The only crate that knows YAML.
