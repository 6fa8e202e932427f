//! What every backend must do, as cases over the interface.

mod harness;
mod transactions;

use harness::{Memory, Redb, run, tight};
use thane_kv::WatchLimits;

macro_rules! suite {
    ($($module:ident: $($case:ident)*;)*) => {
        suite!(@backend memory, Memory::new(WatchLimits::default()), $($module: $($case)*;)*);
        suite!(@backend memory_tight, Memory::new(tight()), $($module: $($case)*;)*);
        suite!(@backend redb, Redb::new(WatchLimits::default()), $($module: $($case)*;)*);
        suite!(@backend redb_tight, Redb::new(tight()), $($module: $($case)*;)*);
    };
    (@backend $name:ident, $new:expr, $($module:ident: $($case:ident)*;)*) => {
        mod $name {
            use super::*;
            $($(
                #[test]
                fn $case() {
                    run(async { $module::$case(&$new).await });
                }
            )*)*
        }
    };
}

suite! {
    transactions:
        a_write_takes_the_next_revision
        an_entry_counts_its_writes
        a_recreated_key_starts_over
        an_absent_key_is_none
        deleting_nothing_takes_no_revision
        the_answer_holds_what_was_replaced
        compare_by_revision
        compare_absence
        compare_existence
        one_failed_compare_stops_all
        a_compare_alone_writes_nothing
        a_conflict_takes_no_revision
        a_key_written_twice_is_refused
        an_empty_key_is_refused
        oversized_requests_are_refused
        a_large_value_survives
        any_bytes_may_be_key_and_value
        an_empty_value_is_a_value
        concurrent_increments_lose_nothing
        a_write_is_read_back_at_once;
}
