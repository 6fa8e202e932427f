//! Workflows run to their end in a scripted world.

mod crashes;
mod trees;
mod world;
