use proptest::prelude::*;

use super::*;

const REPLIES: [&[u8]; 15] = [
    b"+OK\r\n",
    b"-ERR no such thing\r\n",
    b":42\r\n",
    b"$-1\r\n",
    b"$0\r\n\r\n",
    b"$5\r\nhe\r\nl\r\n",
    b"*0\r\n",
    b"*-1\r\n",
    b"*2\r\n$3\r\nfoo\r\n*1\r\n:1\r\n",
    b"_\r\n",
    b"#t\r\n",
    b",1.5\r\n",
    b"%1\r\n+key\r\n*2\r\n:1\r\n:2\r\n",
    b"|1\r\n+ttl\r\n:3\r\n$3\r\nfoo\r\n",
    b">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$0\r\n\r\n",
];

proptest! {
    #[test]
    fn replies_end_where_they_do_however_they_are_cut(
        chosen in prop::collection::vec(0..REPLIES.len(), 0..12),
        cuts in prop::collection::vec(1_usize..9, 1..40),
    ) {
        let stream: Vec<u8> = chosen.iter().flat_map(|which| REPLIES[*which].to_vec()).collect();
        let (mut scanner, mut ends, mut at) = (Scanner::default(), Vec::new(), 0);
        let mut cuts = cuts.into_iter().cycle();
        while at < stream.len() {
            let end = (at + cuts.next().unwrap()).min(stream.len());
            let mut piece = &stream[at..end];
            while !piece.is_empty() {
                let scanned = scanner.scan(piece).unwrap();
                prop_assert!(scanned.used > 0);
                piece = &piece[scanned.used..];
                if scanned.is_whole {
                    ends.push(end - piece.len());
                }
            }
            at = end;
        }
        let mut expected = Vec::new();
        for which in &chosen {
            expected.push(expected.last().copied().unwrap_or(0) + REPLIES[*which].len());
        }
        prop_assert_eq!(ends, expected);
        prop_assert!(!scanner.is_within());
    }

    #[test]
    fn nothing_that_comes_makes_it_fail_otherwise_than_by_saying_so(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut scanner = Scanner::default();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let Ok(scanned) = scanner.scan(rest) else { break };
            rest = &rest[scanned.used..];
        }
        let _ = Value::read(&mut Bytes::from(bytes.clone()));
        let _ = beginning(&bytes, true);
    }
}

#[test]
fn replies_say_what_they_say() {
    let bytes = |text: &'static str| Value::Bytes(Bytes::from_static(text.as_bytes()));
    let expected = [
        bytes("OK"),
        Value::Error("ERR no such thing".to_owned()),
        Value::Integer(42),
        Value::Null,
        bytes(""),
        bytes("he\r\nl"),
        Value::List(Vec::new()),
        Value::Null,
        Value::List(vec![bytes("foo"), Value::List(vec![Value::Integer(1)])]),
        Value::Null,
        bytes("t"),
        bytes("1.5"),
        Value::List(vec![bytes("key"), Value::List(vec![Value::Integer(1), Value::Integer(2)])]),
        bytes("foo"),
        Value::List(vec![bytes("message"), bytes("c"), bytes("")]),
    ];
    let mut replies = Replies::new(1_000);
    for reply in REPLIES {
        replies.buffer().extend_from_slice(reply);
    }
    for value in expected {
        assert_eq!(replies.next_reply().unwrap(), Some(value));
    }
    assert_eq!(replies.next_reply().unwrap(), None);
}

#[test]
fn what_is_too_long_or_no_reply_is_refused() {
    for (bytes, malformed) in [
        (&b"?"[..], Malformed::Kind),
        (b"$x\r\n", Malformed::Length),
        (b"$-2\r\n", Malformed::Length),
        (b"$?\r\n", Malformed::Length),
        (b"*99999999999999999999999999", Malformed::Length),
    ] {
        assert_eq!(Scanner::default().scan(bytes), Err(malformed), "{}", String::from_utf8_lossy(bytes));
    }
    let deep = b"*1\r\n".repeat(1_000);
    assert!(Value::read(&mut Bytes::from(deep)).is_err());
}

#[test]
fn a_reply_is_told_by_its_beginning() {
    use Beginning::{Confirmation, Error, Plain, Unasked};
    for (bytes, subscribed, expected) in [
        (&b""[..], true, None),
        (b"+OK", true, Some(Plain)),
        (b"-ERR", false, Some(Error)),
        (b">3\r\n$9\r\nsubs", false, None),
        (b">3\r\n$9\r\nsubscribe\r\n", false, Some(Confirmation)),
        (b">3\r\n+punsubscribe\r\n", false, Some(Confirmation)),
        (b">2\r\n$10\r\ninvalidate\r\n", false, Some(Unasked)),
        (b"*3\r\n$7\r\nmessage\r\n", false, Some(Plain)),
        (b"*3\r\n$7\r\nmessage\r\n", true, Some(Unasked)),
        (b"*3\r\n$11\r\nunsubscribe\r\n", true, Some(Confirmation)),
        (b"*2\r\n$4\r\npong\r\n", true, Some(Plain)),
        (b"*2\r\n:1\r\n", true, Some(Plain)),
        (
            b"*2\r\n$100000\r\nxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
            true,
            Some(Plain),
        ),
    ] {
        assert_eq!(beginning(bytes, subscribed), expected, "{}", String::from_utf8_lossy(bytes));
    }
}

#[test]
fn a_reply_that_is_too_large_is_dropped_and_the_next_one_read() {
    let mut replies = Replies::new(64);
    let large = [&b"$100000\r\n"[..], &vec![b'x'; 100_000], b"\r\n:7\r\n"].concat();
    let mut seen = Vec::new();
    for part in large.chunks(1_000) {
        replies.buffer().extend_from_slice(part);
        loop {
            match replies.next_reply() {
                Ok(None) => break,
                other => seen.push(other),
            }
        }
        assert!(replies.buffer().len() <= 64, "{} are held", replies.buffer().len());
    }
    assert_eq!(seen, [Err(Malformed::Size), Ok(Some(Value::Integer(7)))]);
}
