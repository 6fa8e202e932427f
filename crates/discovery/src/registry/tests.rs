//! Tests of the registry as a whole.
