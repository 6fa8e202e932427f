//! What every backend must do, as cases over the interface.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod closing;
mod compactions;
mod harness;
mod leases;
mod ranges;
mod transactions;
mod watches;

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
    ranges:
        a_prefix_finds_its_keys_in_order
        a_prefix_of_highest_bytes_has_an_end
        bounds_are_inclusive_and_exclusive
        a_limit_cuts_and_counts
        keys_only_leaves_values_out
        pages_at_one_revision_make_a_whole
        every_past_state_can_be_read
        a_past_entry_has_its_past_numbers
        limits_hold_in_the_past
        the_future_cannot_be_read
        a_page_tells_its_revision;
    watches:
        changes_arrive_with_both_sides
        the_past_is_replayed
        only_the_prefix_is_seen
        a_revision_arrives_whole
        a_slow_watcher_misses_nothing
        reading_while_writing_leaves_no_gap
        a_watch_may_not_start_in_the_future
        progress_is_told_without_events
        progress_follows_the_events
        a_cancelled_wait_loses_nothing
        many_watchers_see_the_same
        a_list_and_a_watch_meet
        closing_ends_watches_after_their_events;
    compactions:
        the_present_stays
        the_past_before_it_is_gone
        it_never_goes_back
        the_future_cannot_be_compacted
        a_watcher_that_kept_up_goes_on
        a_watcher_too_far_behind_is_told
        a_compacted_key_keeps_its_numbers;
    leases:
        expiry_deletes_all_keys_in_one_revision
        keeping_alive_postpones
        an_expired_lease_is_gone
        revoking_deletes_the_keys
        an_unused_lease_ends_without_a_revision
        a_write_without_a_lease_detaches
        a_key_moves_between_leases
        a_deleted_key_leaves_its_lease
        a_lease_without_time_is_refused;
    closing:
        a_closed_store_refuses_everything
        closing_twice_is_fine
        accepted_writes_are_finished;
}
