use proptest::prelude::*;

use super::*;

fn stamp(second: u32) -> String {
    format!("2026-01-01T00:{:02}:{:02}.25Z", second / 60 % 60, second % 60)
}

fn all(lines: &mut Lines, text: &str) -> String {
    String::from_utf8(lines.take(text.as_bytes()).to_vec()).unwrap()
}

#[test]
fn times_go_unless_they_were_asked_for() {
    let log = format!("{} one\n{} \nno time here\n{}\nx\n", stamp(0), stamp(1), stamp(2));
    assert_eq!(all(&mut Lines::new(true), &log), log);
    let mut without = Lines::new(false);
    assert_eq!(all(&mut without, &log), "one\n\nno time here\n\nx\n");
    assert_eq!(all(&mut without, "tail"), "", "it might be a time");
    assert_eq!(without.rest(), "tail");
    assert_eq!(without.rest(), "");
}

#[test]
fn a_line_that_was_torn_is_finished() {
    let mut lines = Lines::new(false);
    let (first, second) = (format!("{} one\n", stamp(0)), format!("{} two and more\n", stamp(1)));
    assert_eq!(all(&mut lines, &first), "one\n");
    assert_eq!(all(&mut lines, &second[..second.len() - 6]), "two and");
    lines.again();
    assert_eq!(all(&mut lines, &format!("{first}{second}")), " more\n");
    lines.again();
    assert_eq!(all(&mut lines, &second), "", "everything of it was there");
    assert_eq!(all(&mut lines, &format!("{} three\n", stamp(1))), "three\n", "another of the same time");
}

/// Lines of times that do not go back, several of each.
fn log() -> impl Strategy<Value = Vec<String>> {
    proptest::collection::vec((0_u32..2, "[a-z ]{0,12}"), 1..30).prop_map(|steps| {
        let mut second = 0;
        let line = |(step, text): (u32, String)| {
            second += step;
            format!("{} {text}\n", stamp(second))
        };
        steps.into_iter().map(line).collect()
    })
}

proptest! {
    #[test]
    fn each_line_comes_once_wherever_streams_break(
        lines in log(),
        breaks in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>()), 0..4),
        chunk in 1_usize..50,
        keeps_times in any::<bool>(),
    ) {
        let whole = lines.concat();
        let mut filter = Lines::new(keeps_times);
        let mut passed = Vec::new();
        let mut take = |filter: &mut Lines, text: &str| {
            for piece in text.as_bytes().chunks(chunk) {
                passed.extend_from_slice(&filter.take(piece));
            }
        };
        let (mut start, mut reached) = (0, 0);
        for (end, back) in breaks {
            // It breaks anywhere, and goes on with the first line of some time that had been reached.
            let end = start + end.index(whole.len() - start + 1);
            reached = reached.max(end);
            take(&mut filter, &whole[start..end]);
            filter.again();
            let begun = whole[..reached].matches('\n').count();
            let line = back.index(begun.min(lines.len() - 1) + 1);
            let time = &lines[line][..20];
            let first = lines.iter().position(|other| &other[..20] == time).unwrap_or(0);
            start = lines[..first].concat().len();
        }
        take(&mut filter, &whole[start..]);
        passed.extend_from_slice(&filter.rest());
        let expected = if keeps_times { whole } else { lines.iter().map(|line| line.split_once(' ').unwrap().1).collect() };
        prop_assert_eq!(String::from_utf8(passed).unwrap(), expected);
    }

    #[test]
    fn any_bytes_pass_unchanged_with_their_times(bytes in proptest::collection::vec(any::<u8>(), 0..200), chunk in 1_usize..50) {
        let mut filter = Lines::new(true);
        let mut passed: Vec<u8> = bytes.chunks(chunk).flat_map(|piece| filter.take(piece).to_vec()).collect();
        passed.extend_from_slice(&filter.rest());
        prop_assert_eq!(passed, bytes);
    }
}
