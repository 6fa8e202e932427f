//! Nouns of Thane: error codes with exit codes and next steps. No I/O.
