//! The hub: whom it lets in, what it sends them, what it takes from them.
