//! Workflows run to their end in a scripted world.

mod crashes;
mod limits;
mod trees;
mod world;
