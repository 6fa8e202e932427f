use proptest::prelude::*;

use super::*;
use crate::write;

fn is_get(name: &[u8]) -> bool {
    name == b"get"
}

fn pieces(commands: &mut Commands) -> Vec<Piece> {
    std::iter::from_fn(|| commands.next_piece().unwrap()).collect()
}

proptest! {
    #[test]
    fn commands_are_the_same_however_they_are_cut(
        asked in prop::collection::vec(("(GET|get|set|MGET)", prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..4)), 0..8),
        cuts in prop::collection::vec(1_usize..30, 1..40),
    ) {
        let words: Vec<Vec<Vec<u8>>> = asked
            .into_iter()
            .map(|(name, rest)| std::iter::once(name.into_bytes()).chain(rest).collect())
            .collect();
        let stream: Vec<u8> = words.iter().flat_map(|words| write::command(words).to_vec()).collect();
        let (mut commands, mut at, mut cuts) = (Commands::new(is_get), 0, cuts.into_iter().cycle());
        let mut seen = Vec::new();
        while at < stream.len() {
            let end = (at + cuts.next().unwrap()).min(stream.len());
            commands.push(&stream[at..end]);
            seen.extend(pieces(&mut commands));
            at = end;
        }
        let (mut whole, mut began, mut passed) = (Vec::new(), 0, Vec::new());
        for piece in seen {
            match piece {
                Piece::Whole(words, raw) => {
                    whole.push(words);
                    passed.extend_from_slice(&raw);
                }
                Piece::Begins(raw) => {
                    began += 1;
                    passed.extend_from_slice(&raw);
                }
                Piece::More(raw) | Piece::Nothing(raw) => passed.extend_from_slice(&raw),
            }
        }
        let expected: Vec<Vec<Bytes>> = words
            .iter()
            .filter(|words| words[0].eq_ignore_ascii_case(b"get"))
            .map(|words| words.iter().map(|word| Bytes::copy_from_slice(word)).collect())
            .collect();
        prop_assert_eq!(began, words.len() - expected.len());
        prop_assert_eq!(whole, expected);
        prop_assert_eq!(passed, stream);
        prop_assert_eq!(commands.waiting(), 0);
    }

    #[test]
    fn nothing_that_comes_makes_it_fail_otherwise_than_by_saying_so(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut commands = Commands::new(|_| true);
        commands.push(&bytes);
        while let Ok(Some(_)) = commands.next_piece() {}
    }
}

#[test]
fn commands_come_in_lines_too() {
    let mut commands = Commands::new(is_get);
    commands.push(b"\r\nPING\r\nget  key\r\nget \tkey\n*0\r\n*-1\r\n*1\r\n$4\r\nPING\r\nge");
    let seen: Vec<Piece> = pieces(&mut commands);
    let bytes = Bytes::from_static;
    assert_eq!(
        seen,
        [
            Piece::Nothing(bytes(b"\r\n")),
            Piece::Begins(bytes(b"PING\r\n")),
            Piece::Whole(vec![bytes(b"get"), bytes(b"key")], bytes(b"get  key\r\n")),
            Piece::Whole(vec![bytes(b"get"), bytes(b"key")], bytes(b"get \tkey\n")),
            Piece::Nothing(bytes(b"*0\r\n")),
            Piece::Nothing(bytes(b"*-1\r\n")),
            Piece::Begins(bytes(b"*1\r\n$4\r\nPING\r\n")),
        ]
    );
    assert_eq!(commands.waiting(), 2);
}

#[test]
fn what_nobody_looks_into_is_not_held() {
    let mut commands = Commands::new(is_get);
    commands.push(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1000000\r\nxxx");
    assert_eq!(pieces(&mut commands).len(), 2);
    assert_eq!(commands.waiting(), 0);
    commands.push(&vec![b'x'; 999_997]);
    commands.push(b"\r\nPING\r\n");
    assert_eq!(pieces(&mut commands).len(), 2);
    assert_eq!(commands.waiting(), 0);
}

#[test]
fn a_command_of_interest_asks_for_the_rest_of_it() {
    let mut commands = Commands::new(is_get);
    commands.push(b"*2\r\n$3\r\nget\r\n$100000\r\n");
    assert!(!commands.wants_more(), "nobody has looked yet");
    for _ in 0..10 {
        assert_eq!(pieces(&mut commands), []);
        assert!(commands.wants_more());
        commands.push(&[b'x'; 10_000]);
    }
    commands.push(b"\r\nPING\r\n");
    assert!(!commands.wants_more());
    assert_eq!(pieces(&mut commands).len(), 2);
}

#[test]
fn what_is_too_long_or_no_command_is_refused() {
    let long = [&b"*2\r\n$3\r\nget\r\n$2000000\r\n"[..], &vec![b'x'; WHOLE_MAX]].concat();
    let line = vec![b'x'; INLINE_MAX + 2];
    for (bytes, malformed) in [
        (&b"*2000000\r\n"[..], Malformed::Count),
        (b"*x\r\n", Malformed::Count),
        (b"*1\r\n:1\r\n", Malformed::Unexpected),
        (b"*1\r\n$-1\r\n", Malformed::Length),
        (b"*2\r\n$3\r\nset\r\n$600000000\r\n", Malformed::Length),
        // Redis takes the first two for blank, and the quoted ones for commands.
        (b"\x0b\r\n", Malformed::Inline),
        (b"\x0c\r\n", Malformed::Inline),
        (b"get\x0bkey\r\n", Malformed::Inline),
        (b"get\0key\r\n", Malformed::Inline),
        (b"\"MONITOR\"\r\n", Malformed::Inline),
        (b"'client' reply skip\r\n", Malformed::Inline),
        (b"*1\n$4\r\nPING\r\n", Malformed::Count),
        (&long, Malformed::Size),
        (&line, Malformed::Line),
    ] {
        let mut commands = Commands::new(is_get);
        commands.push(bytes);
        let refused = loop {
            match commands.next_piece() {
                Ok(Some(_)) => {}
                Ok(None) => panic!("{:?} was not refused", &bytes[..bytes.len().min(20)]),
                Err(refused) => break refused,
            }
        };
        assert_eq!(refused, malformed);
    }
}
