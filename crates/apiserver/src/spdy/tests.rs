//! What is sent is received, and nothing that is received harms.

use proptest::prelude::*;

use super::*;

fn number() -> impl Strategy<Value = u32> {
    1..=0x7fff_ffff_u32
}

fn headers() -> impl Strategy<Value = Headers> {
    proptest::collection::btree_map("[a-z:-]{1,20}", "\\PC{0,40}", 0..6)
}

fn frame() -> impl Strategy<Value = Frame> {
    let data = proptest::collection::vec(any::<u8>(), 0..300);
    prop_oneof![
        (number(), any::<(u32, bool, bool)>(), 0..8_u8, headers()).prop_map(
            |(stream, (associated, fin, unidirectional), priority, headers)| Frame::SynStream {
                stream,
                associated: associated & 0x7fff_ffff,
                priority,
                fin,
                unidirectional,
                headers
            }
        ),
        (number(), any::<bool>(), headers()).prop_map(|(stream, fin, headers)| Frame::SynReply {
            stream,
            fin,
            headers
        }),
        (number(), any::<bool>(), headers()).prop_map(|(stream, fin, headers)| Frame::Headers { stream, fin, headers }),
        (number(), any::<u32>()).prop_map(|(stream, status)| Frame::Reset { stream, status }),
        (any::<bool>(), proptest::collection::vec((any::<u8>(), 0..0x00ff_ffff_u32, any::<u32>()), 0..9))
            .prop_map(|(clear, values)| Frame::Settings { clear, values }),
        any::<u32>().prop_map(Frame::Ping),
        (number(), any::<u32>()).prop_map(|(last, status)| Frame::GoAway { last, status }),
        (number(), number()).prop_map(|(stream, delta)| Frame::WindowUpdate { stream, delta }),
        (number(), any::<bool>(), data).prop_map(|(stream, fin, bytes)| Frame::Data {
            stream,
            fin,
            bytes: Bytes::from(bytes)
        }),
    ]
}

fn all(decoder: &mut Decoder) -> Result<Vec<Frame>, Broken> {
    std::iter::from_fn(|| decoder.next().transpose()).collect()
}

proptest! {
    #[test]
    fn frames_arrive_as_they_were_sent(
        frames in proptest::collection::vec(frame(), 0..20),
        cuts in proptest::collection::vec(1..500_usize, 1..20),
    ) {
        let mut encoder = Encoder::new().unwrap();
        let bytes: Vec<u8> = frames.iter().flat_map(|frame| encoder.encode(frame).unwrap()).collect();
        let (mut decoder, mut received, mut rest) = (Decoder::default(), Vec::new(), &bytes[..]);
        for cut in cuts.iter().cycle() {
            let (now, later) = rest.split_at((*cut).min(rest.len()));
            decoder.push(now);
            received.extend(all(&mut decoder).unwrap());
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(received, frames);
    }

    #[test]
    fn no_bytes_harm(
        frames in proptest::collection::vec(frame(), 0..4),
        noise in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..8),
    ) {
        let mut encoder = Encoder::new().unwrap();
        let mut bytes: Vec<u8> = frames.iter().flat_map(|frame| encoder.encode(frame).unwrap()).collect();
        if !bytes.is_empty() {
            for (at, byte) in noise {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
        }
        let mut decoder = Decoder::default();
        decoder.push(&bytes);
        // Whatever comes out, it ends.
        let _ = all(&mut decoder);
    }
}

/// Made by the library that kubectl uses: two streams, the first closed at once, with one history of headers.
const KUBECTL: &str = "\
    800300010000003e0000000100000000000078f9e3c6a7c202253a703a2b294a4dcc851625aca9a0808614cb45e01c60\
    616060c0c0c0c0590489c64c50f2663400000000ffff0000000101000000800300010000001800000003000000000000\
    c2aa19540e2512d60b000000ffff000000030000000568656c6c6f";

#[test]
fn what_kubectl_sends_is_understood() {
    let digits = |at: usize| u8::from_str_radix(&KUBECTL[at..at + 2], 16).unwrap();
    let sent: Vec<u8> = (0..KUBECTL.len()).step_by(2).map(digits).collect();
    let mut decoder = Decoder::default();
    decoder.push(&sent);
    let frames = all(&mut decoder).unwrap();
    let stream = |stream: u32, kind: &str| {
        let pairs = [("streamtype", kind), ("port", "8000"), ("requestid", "0")];
        let headers = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Frame::SynStream { stream, associated: 0, priority: 0, fin: false, unidirectional: false, headers }
    };
    let data = |stream, fin, bytes| Frame::Data { stream, fin, bytes: Bytes::from_static(bytes) };
    let expected = [stream(1, "error"), data(1, true, b""), stream(3, "data"), data(3, false, b"hello")];
    assert_eq!(frames, expected);
}

#[test]
fn what_is_too_large_is_refused() {
    let mut decoder = Decoder::default();
    decoder.push(&[0, 0, 0, 1, 0, 0xff, 0xff, 0xff]);
    assert_eq!(decoder.next(), Err(Broken::TooLarge(0x00ff_ffff)));
    // Zeros that pack well: a few hundred bytes become more than is taken.
    let mut packed = flate2::Compress::new(flate2::Compression::best(), true);
    packed.set_dictionary(&super::dictionary::DICTIONARY).unwrap();
    let mut block = Vec::with_capacity(4096);
    packed.compress_vec(&vec![0; HEADERS_MAX * 8], &mut block, flate2::FlushCompress::Sync).unwrap();
    let mut bytes = vec![0x80, 3, 0, 2, 0, 0];
    bytes.extend(u16::try_from(block.len() + 4).unwrap().to_be_bytes());
    bytes.extend([0, 0, 0, 1]);
    bytes.extend(block);
    let mut decoder = Decoder::default();
    decoder.push(&bytes);
    assert_eq!(decoder.next(), Err(Broken::HeadersTooLarge));
}

#[test]
fn broken_frames_are_told_apart() {
    type Case = (&'static [u8], Result<Option<Frame>, Broken>);
    let cases: [Case; 7] = [
        (&[0x80, 2, 0, 6, 0, 0, 0, 4, 0, 0, 0, 1], Err(Broken::Version(2))),
        (&[0x80, 3, 0, 6, 0, 0, 0, 4, 0, 0, 0, 1], Ok(Some(Frame::Ping(1)))),
        (&[0x80, 3, 0, 6, 0, 0, 0, 5, 0, 0, 0, 1, 0], Err(Broken::Malformed("of a length it cannot have"))),
        (&[0, 0, 0, 0, 0, 0, 0, 0], Err(Broken::Malformed("of stream zero"))),
        (&[0x80, 3, 0, 99, 0, 0, 0, 1, 7], Ok(None)),
        (&[0x80, 3, 0, 2, 0, 0, 0, 6, 0, 0, 0, 1, 9, 9], Err(Broken::Compression)),
        (&[0x80, 3], Ok(None)),
    ];
    for (bytes, expected) in cases {
        let mut decoder = Decoder::default();
        decoder.push(bytes);
        assert_eq!(decoder.next(), expected, "{bytes:?}");
    }
}
