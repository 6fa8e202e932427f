use proptest::prelude::*;

use super::*;

/// Keys that begin with an `a` are an agent's.
struct Initial;

impl Owners for Initial {
    fn agent_of(&self, key: &str) -> Option<String> {
        key.starts_with('a').then(|| "cluster-1".to_owned())
    }
}

/// A session and what it did.
struct Bed {
    session: Session,
    client: Vec<u8>,
    upstream: Vec<u8>,
    asks: Vec<(u64, Question)>,
    left: Vec<String>,
    closed: Option<&'static str>,
}

impl Bed {
    fn new(bounds: Bounds) -> Self {
        let session = Session::new(bounds, Arc::new(Initial));
        Self { session, client: Vec::new(), upstream: Vec::new(), asks: Vec::new(), left: Vec::new(), closed: None }
    }

    fn default() -> Self {
        Self::new(Bounds::default())
    }

    fn with(&mut self, input: impl FnOnce(&mut Session)) -> &mut Self {
        input(&mut self.session);
        for effect in self.session.effects() {
            match effect {
                Effect::ToClient(bytes) => self.client.extend_from_slice(&bytes),
                Effect::ToUpstream(bytes) => self.upstream.extend_from_slice(&bytes),
                Effect::Ask(ticket, agent, question) => {
                    assert_eq!(agent, "cluster-1");
                    self.asks.push((ticket, question));
                }
                Effect::Left(channel) => self.left.push(channel),
                Effect::Close(why) => self.closed = Some(why),
            }
        }
        self
    }

    fn client(&mut self, text: &str) -> &mut Self {
        self.with(|session| session.client(text.as_bytes()))
    }

    fn redis(&mut self, text: &str) -> &mut Self {
        self.with(|session| session.upstream(text.as_bytes()))
    }

    fn agent(&mut self, ticket: u64, answer: Answer) -> &mut Self {
        self.with(|session| session.answered(ticket, answer))
    }

    /// What the client has read since it was last asked.
    fn reads(&mut self) -> String {
        String::from_utf8(std::mem::take(&mut self.client)).unwrap()
    }

    fn forwards(&mut self) -> String {
        String::from_utf8(std::mem::take(&mut self.upstream)).unwrap()
    }
}

/// What the hub's Redis says of a key that it has not.
const NIL: &str = "$-1\r\n";

/// What it says to whoever takes a channel for a moment.
fn taken(mark: char, channel: &str) -> String {
    let said = |what: &str, count: usize| {
        format!("{mark}3\r\n${}\r\n{what}\r\n${}\r\n{channel}\r\n:{count}\r\n", what.len(), channel.len())
    };
    said("subscribe", 1) + &said("unsubscribe", 0)
}

fn taking(channel: &str) -> String {
    let asked = |word: &str| String::from_utf8(write::command(&[word, channel]).to_vec()).unwrap();
    asked("SUBSCRIBE") + &asked("UNSUBSCRIBE")
}

fn hit(text: &'static str) -> Answer {
    Answer::Hit(Bytes::from_static(text.as_bytes()))
}

#[derive(Debug, Clone)]
enum Step {
    Agent,
    Hub,
}

proptest! {
    /// Whoever answers first, and however bytes are cut: replies come in the order of the commands.
    #[test]
    fn replies_keep_the_order_of_commands(
        steps in prop::collection::vec(prop_oneof![Just(Step::Agent), Just(Step::Hub)], 1..60),
        chances in prop::collection::vec(any::<u16>(), 1..40),
        commands_max in 1_usize..8, asks_max in 1_usize..4,
    ) {
        let bounds = Bounds { commands_max, asks_max, ..Bounds::default() };
        let (mut bed, mut sent, mut expected) = (Bed::new(bounds), Vec::new(), Vec::new());
        for (number, step) in steps.iter().enumerate() {
            let (key, value) = match step {
                Step::Agent => (format!("a{number}"), format!("agent {number}")),
                Step::Hub => (format!("h{number}"), format!("hub\r\n{number}")),
            };
            sent.extend_from_slice(&write::command(&["GET", key.as_str()]));
            expected.extend_from_slice(&write::string(value.as_bytes()));
        }
        let mut chances = chances.into_iter().cycle().map(usize::from);
        let (mut to_client, mut from_hub) = (&sent[..], Vec::new());
        let mut asked = thane_redis::command::Commands::new(|_| true);
        // A round in which nothing can be done any more ends it; each one does something, whatever chance says.
        for round in 0.. {
            prop_assert!(round < 100_000, "it came to a standstill");
            let chance = chances.next().unwrap();
            if bed.session.reads_client() && !to_client.is_empty() {
                let (now, later) = to_client.split_at((1 + chance % 23).min(to_client.len()));
                bed.with(|session| session.client(now));
                to_client = later;
            }
            asked.push(&std::mem::take(&mut bed.upstream));
            while let Some(Piece::Whole(words, _)) = asked.next_piece().unwrap() {
                if words[1].starts_with(b"a") {
                    from_hub.extend_from_slice(NIL.as_bytes());
                    continue;
                }
                let number = String::from_utf8_lossy(&words[1][1..]).into_owned();
                from_hub.extend_from_slice(&write::string(format!("hub\r\n{number}").as_bytes()));
            }
            if bed.session.reads_upstream() && !from_hub.is_empty() {
                let now: Vec<u8> = from_hub.drain(..(1 + chance % 17).min(from_hub.len())).collect();
                bed.with(|session| session.upstream(&now));
            }
            if chance % 3 == 0 && !bed.asks.is_empty() {
                let (ticket, question) = bed.asks.swap_remove(chance % bed.asks.len());
                let Question::Get(key) = question else { panic!("{question:?}") };
                bed.agent(ticket, Answer::Hit(format!("agent {}", &key[1..]).into()));
            }
            prop_assert!(expected.starts_with(&bed.client), "{:?}", String::from_utf8_lossy(&bed.client));
            if bed.client.len() == expected.len() {
                break;
            }
            if round % 7 == 6 && !bed.asks.is_empty() {
                let (ticket, question) = bed.asks.remove(0);
                let Question::Get(key) = question else { panic!("{question:?}") };
                bed.agent(ticket, Answer::Hit(format!("agent {}", &key[1..]).into()));
            }
        }
        prop_assert_eq!(bed.closed, None);
    }
}

#[test]
fn a_pipeline_is_answered_in_order() {
    let mut bed = Bed::default();
    bed.client("get h\r\nget a1\r\nGeT a2\r\nget h2\r\nset a1 x\r\n");
    assert_eq!(bed.forwards(), "get h\r\nget a1\r\nGeT a2\r\nget h2\r\nset a1 x\r\n");
    assert_eq!(bed.asks, [], "the hub's Redis decides first");
    bed.redis("$1\r\nh\r\n$3\r\nown\r\n$").redis("-1\r\n");
    assert_eq!(bed.asks, [(0, Question::Get("a1".to_owned())), (1, Question::Get("a2".to_owned()))]);
    bed.agent(1, Answer::Miss);
    assert_eq!(bed.reads(), "$1\r\nh\r\n");
    bed.redis("$2\r\nh2\r\n+O");
    assert_eq!(bed.reads(), "");
    assert!(!bed.session.reads_upstream());
    bed.agent(0, hit("v"));
    assert_eq!(bed.reads(), "$1\r\nv\r\n$-1\r\n$2\r\nh2\r\n+O");
    bed.redis("K\r\n");
    assert_eq!(bed.reads(), "K\r\n");
}

#[test]
fn nothing_is_null_in_the_form_that_was_agreed_on() {
    let mut bed = Bed::default();
    // In one pipeline, what comes after the agreement has the new form, and only if there is one.
    bed.client("get a0\r\nHELLO 3\r\nget a1\r\nhello 4\r\nget a2\r\nhello 2\r\nget a3\r\n");
    bed.redis("$-1\r\n%1\r\n+proto\r\n:3\r\n_\r\n-NOPROTO\r\n_\r\n*0\r\n$-1\r\n");
    for ticket in 0..4 {
        bed.agent(ticket, Answer::Miss);
    }
    assert_eq!(bed.reads(), "$-1\r\n%1\r\n+proto\r\n:3\r\n_\r\n-NOPROTO\r\n_\r\n*0\r\n$-1\r\n");
    bed.client("HELLO 3\r\nRESET\r\nget a\r\n").redis("%0\r\n+RESET\r\n$-1\r\n").agent(4, Answer::Miss);
    assert_eq!(bed.reads(), "%0\r\n+RESET\r\n$-1\r\n");
}

#[test]
fn failures_of_an_agent_leave_the_connection_usable() {
    let mut bed = Bed::default();
    bed.client("get a1\r\nget h\r\n").redis(NIL).redis(":1\r\n");
    bed.agent(0, Answer::Failed("ERR", "agent\r\n-gone".to_owned()));
    assert_eq!(bed.reads(), "-ERR agent  -gone\r\n:1\r\n");
    assert_eq!(bed.closed, None);
    // An answer to what nobody asked, or asked before.
    bed.agent(0, Answer::Miss).agent(77, Answer::Miss);
    assert_eq!(bed.reads(), "");
}

#[test]
fn channels_of_agents_are_taken_and_left() {
    for (hello, greeting, mark) in [("", "", '*'), ("HELLO 3\r\n", "%0\r\n", '>')] {
        let mut bed = Bed::default();
        bed.client(hello).redis(greeting).reads();
        bed.client("SUBSCRIBE a1\r\n");
        // A message may come before the word that it was taken; it is told after.
        assert_eq!(bed.asks, [], "the hub's Redis decides first");
        bed.redis(&taken(mark, "a1"));
        bed.with(|session| session.notified(b"a1")).with(|session| session.notified(b"a2"));
        assert_eq!(bed.reads(), "");
        bed.agent(0, Answer::Subscribed);
        let taken = format!("{mark}3\r\n$9\r\nsubscribe\r\n$2\r\na1\r\n:1\r\n");
        let message = format!("{mark}3\r\n$7\r\nmessage\r\n$2\r\na1\r\n$0\r\n\r\n");
        assert_eq!(bed.reads(), format!("{taken}{message}"));
        bed.with(|session| session.notified(b"a1"));
        assert_eq!(bed.reads(), message);
        // Never within a reply.
        bed.forwards();
        bed.client("get h\r\n").redis("$5\r\nab").with(|session| session.notified(b"a1")).redis("cde\r\n");
        assert_eq!(bed.reads(), format!("$5\r\nabcde\r\n{message}"));
        assert_eq!(bed.forwards(), "get h\r\n");
        bed.client("unsubscribe\r\n");
        assert_eq!(bed.reads(), format!("{mark}3\r\n$11\r\nunsubscribe\r\n$2\r\na1\r\n:0\r\n"));
        assert_eq!((bed.forwards().as_str(), &bed.left[..]), ("", &["a1".to_owned()][..]));
        bed.with(|session| session.notified(b"a1"));
        assert_eq!(bed.reads(), "");
    }
}

#[test]
fn one_command_may_take_channels_of_both() {
    let mut bed = Bed::default();
    bed.client("subscribe h1 a1 h2\r\nping\r\n");
    let [h1, h2] = ["h1", "h2"].map(|name| format!("*2\r\n$9\r\nSUBSCRIBE\r\n$2\r\n{name}\r\n"));
    assert_eq!(bed.forwards(), format!("{h1}{}{h2}ping\r\n", taking("a1")));
    let confirmed = |what: &str, channel: &str, count: usize| {
        format!("*3\r\n${}\r\n{what}\r\n${}\r\n{channel}\r\n:{count}\r\n", what.len(), channel.len())
    };
    let message = "*3\r\n$7\r\nmessage\r\n$2\r\nh1\r\n$1\r\nx\r\n";
    let pong = "*2\r\n$4\r\npong\r\n$0\r\n\r\n";
    bed.redis(&confirmed("subscribe", "h1", 1)).redis(&taken('*', "a1")).redis(message);
    bed.redis(&confirmed("subscribe", "h2", 2)).redis(pong);
    bed.agent(0, Answer::Subscribed);
    let [h1, a1, h2] = [("h1", 1), ("a1", 3), ("h2", 2)].map(|(name, count)| confirmed("subscribe", name, count));
    assert_eq!(bed.reads(), format!("{h1}{a1}{message}{h2}{pong}"));
    // Leaving all leaves those of agents first; each of the others is confirmed.
    bed.client("unsubscribe\r\nget h\r\n");
    assert_eq!(bed.forwards(), "unsubscribe\r\nget h\r\n");
    bed.redis(&confirmed("unsubscribe", "h1", 1))
        .redis(message)
        .redis(&confirmed("unsubscribe", "h2", 0))
        .redis("*1\r\n$7\r\nmessage\r\n");
    let expected = [
        confirmed("unsubscribe", "a1", 0),
        confirmed("unsubscribe", "h1", 1),
        message.to_owned(),
        confirmed("unsubscribe", "h2", 0),
        "*1\r\n$7\r\nmessage\r\n".to_owned(),
    ];
    assert_eq!(bed.reads(), expected.concat());
    bed.client("get a9\r\n").redis(NIL).agent(1, Answer::Miss);
    assert_eq!(bed.reads(), "$-1\r\n");
}

#[test]
fn a_ping_of_whoever_listens_to_agents_alone_has_its_form() {
    let mut bed = Bed::default();
    bed.client("subscribe a1\r\nping\r\nping hi\r\n").redis(&taken('*', "a1")).agent(0, Answer::Subscribed);
    assert!(bed.reads().ends_with(":1\r\n*2\r\n$4\r\npong\r\n$0\r\n\r\n*2\r\n$4\r\npong\r\n$2\r\nhi\r\n"));
    assert_eq!(bed.forwards(), taking("a1"));
}

#[test]
fn transactions_are_the_hubs() {
    let mut bed = Bed::default();
    bed.client("MULTI\r\nget a1\r\ndiscard x\r\nget a1\r\nEXEC\r\nget a1\r\n");
    assert_eq!(bed.forwards(), "MULTI\r\nget a1\r\ndiscard x\r\nget a1\r\nEXEC\r\nget a1\r\n");
    bed.redis("+OK\r\n+QUEUED\r\n-ERR\r\n+QUEUED\r\n*2\r\n$-1\r\n:1\r\n").redis(NIL).agent(0, hit("v"));
    assert_eq!(bed.reads(), "+OK\r\n+QUEUED\r\n-ERR\r\n+QUEUED\r\n*2\r\n$-1\r\n:1\r\n$1\r\nv\r\n");
    // What would look otherwise within its answer leaves nothing to be looked into.
    for command in ["subscribe h1 h2", "hello 3", "client reply skip"] {
        let mut bed = Bed::default();
        bed.client(&format!("MULTI\r\n{command}\r\nEXEC\r\nget a1\r\n"));
        bed.redis("+OK\r\n+QUEUED\r\n*1\r\n*0\r\n*0\r\n-NOPERM no\r\n:1\r\n");
        assert_eq!((bed.asks.len(), bed.session.is_pipe), (0, true), "{command}");
    }
}

#[test]
fn what_has_not_one_reply_for_each_command_is_passed_as_it_is() {
    for command in ["MONITOR", "client reply off", "psync x -1"] {
        let mut bed = Bed::default();
        bed.client(&format!("get a1\r\n{command}\r\nget a2\r\n"));
        assert_eq!(bed.forwards(), format!("get a1\r\n{command}\r\nget a2\r\n"));
        bed.redis("$-1\r\n+any\r\nthing");
        assert_eq!(bed.asks.len(), 1);
        assert_eq!(bed.reads(), "");
        bed.agent(0, Answer::Miss);
        assert_eq!(bed.reads(), "$-1\r\n+any\r\nthing");
        bed.client("half a comm").redis(" at all");
        assert_eq!((bed.reads().as_str(), bed.forwards()), (" at all", "half a comm".to_owned()));
    }
}

#[test]
fn bounds_hold_the_client_back_and_not_the_connection() {
    let bounds = Bounds { commands_max: 3, asks_max: 2, channels_max: 1, held_bytes_max: 4 };
    let mut bed = Bed::new(bounds);
    bed.client("get a1\r\nget a2\r\nget a3\r\nget h\r\n");
    assert_eq!(bed.forwards(), "get a1\r\nget a2\r\n");
    bed.redis(NIL).redis(NIL);
    assert_eq!((bed.asks.len(), bed.forwards().as_str()), (2, ""));
    // Too much for one that has to wait; the one whose turn it is may have any size.
    bed.agent(1, hit("12345")).agent(0, hit("123456789"));
    assert_eq!(bed.reads(), "$9\r\n123456789\r\n-ERR too much waits to be read on this connection\r\n");
    assert_eq!((bed.asks.len(), bed.forwards().as_str()), (2, "get a3\r\nget h\r\n"));
    bed.redis(NIL).agent(2, Answer::Miss).redis(":1\r\n");
    bed.client("subscribe a1\r\nsubscribe a2\r\nsubscribe a1\r\n").redis(&taken('*', "a1"));
    bed.agent(3, Answer::Subscribed);
    let reads = bed.reads();
    assert_eq!(
        (reads.matches("$2\r\na1\r\n:1\r\n").count(), reads.matches("-ERR too many").count()),
        (2, 1),
        "{reads}"
    );
    assert!(bed.session.reads_client());
    let long = "x".repeat(UNREAD_MAX);
    bed.client(&format!("get a1\r\nget a2\r\n{long}"));
    assert!(!bed.session.reads_client());
}

#[test]
fn what_is_no_command_is_refused_in_its_turn() {
    let mut bed = Bed::default();
    bed.client("get a1\r\n*x\r\nget h\r\n").redis(NIL);
    assert_eq!(bed.closed, None);
    bed.agent(0, Answer::Miss);
    assert_eq!(bed.reads(), "$-1\r\n-ERR Protocol error: invalid multibulk length\r\n");
    assert_eq!((bed.closed, bed.forwards().as_str()), (Some("protocol"), "get a1\r\n"));
    let mut bed = Bed::default();
    bed.redis("what");
    assert_eq!(bed.closed, Some("upstream"));
}

#[test]
fn who_may_not_ask_the_hubs_redis_may_not_ask_an_agent() {
    for refusal in ["-NOAUTH Authentication required.\r\n", "-NOPERM this user has no permissions\r\n"] {
        let mut bed = Bed::default();
        bed.client("get a1\r\nget a2\r\nget h\r\nsubscribe a1\r\nauth x\r\nget a3\r\n");
        bed.redis(&refusal.repeat(5)).redis("+O").redis("K\r\n$").redis("-1\r\n");
        assert_eq!(bed.asks, [(3, Question::Get("a3".to_owned()))], "after it has said who it is");
        assert_eq!(bed.reads(), format!("{}+OK\r\n", refusal.repeat(4)));
        bed.agent(3, hit("v"));
        assert_eq!(bed.reads(), "$1\r\nv\r\n");
        assert!(bed.session.is_idle() && bed.session.channels.is_empty() && bed.session.asks == 0);
    }
}

#[test]
fn a_refusal_has_its_turn() {
    let mut bed = Bed::default();
    bed.client("get a1\r\nget a2\r\n").redis(NIL).redis("-NOPERM no\r\n").redis("");
    assert_eq!(bed.reads(), "");
    bed.agent(0, Answer::Miss);
    assert_eq!(bed.reads(), "$-1\r\n-NOPERM no\r\n");
}

#[test]
fn whatever_error_the_hubs_redis_gives_it_is_the_answer() {
    for error in ["-WRONGTYPE Operation against a key\r\n", "-ERR max number of clients reached\r\n", "!3\r\nNO!\r\n"] {
        let mut bed = Bed::default();
        bed.client("get a1\r\n").redis(error);
        assert_eq!((bed.reads().as_str(), bed.asks.len(), bed.session.asks), (error, 0, 0));
    }
    let mut bed = Bed::default();
    bed.client("get a1\r\n").redis(&format!("-NOAUTH {}\r\n", "x".repeat(8 * 1024)));
    assert_eq!((bed.closed, bed.asks.len()), (Some("upstream"), 0));
}

#[test]
fn what_redis_takes_for_nothing_or_for_a_command_is_no_bypass() {
    for trick in ["\x0b", "\x0c \x0b", "\"CLIENT\" REPLY SKIP", "'MONITOR'", "\"get\" a1", "client\0reply skip"] {
        let mut bed = Bed::default();
        bed.client(&format!("{trick}\r\nget a1\r\nget a1\r\n")).redis("");
        assert!(bed.reads().starts_with("-ERR Protocol error: "), "{trick:?}");
        assert_eq!((bed.closed, bed.forwards().as_str(), bed.asks.len()), (Some("protocol"), "", 0), "{trick:?}");
    }
    // A shorter one, which only a replica is meant to use, is not answered either.
    let mut bed = Bed::default();
    bed.client("replconf ack 1\r\nget a1\r\nget a1\r\n").redis("-NOPERM no\r\n+OK\r\n");
    assert_eq!(bed.asks.len(), 0);
}

#[test]
fn channels_that_were_refused_are_not_listened_to() {
    let (list, confirmed) = ("*1\r\n$7\r\nmessage\r\n", "*3\r\n$9\r\nsubscribe\r\n$2\r\nh3\r\n:1\r\n");
    // Neither before the answer nor after it is a list a message.
    let mut bed = Bed::default();
    bed.client("lrange l 0 -1\r\nsubscribe h1 h2\r\nlrange l 0 -1\r\nget a1\r\necho x\r\n");
    bed.redis(&format!("{list}-NOPERM no\r\n{list}-NOPERM no\r\n+x\r\n"));
    assert_eq!(bed.reads(), format!("{list}-NOPERM no\r\n{list}-NOPERM no\r\n+x\r\n"));
    assert!(bed.asks.is_empty() && bed.session.is_idle());
    // Only what was taken is confirmed when all is left, and a refusal to leave leaves it taken.
    bed.client("subscribe h3\r\nsubscribe h4 h5\r\nunsubscribe h3\r\nunsubscribe\r\nget a1\r\necho x\r\n");
    bed.redis(confirmed).redis("-NOPERM no\r\n-NOPERM no\r\n").redis(&confirmed.replace("$9\r\n", "$11\r\nun"));
    bed.redis("-NOPERM no\r\n+x\r\n");
    assert!(bed.reads().ends_with(":1\r\n-NOPERM no\r\n+x\r\n"));
    assert!(bed.asks.is_empty() && bed.session.is_idle());
}

#[test]
fn a_long_command_of_interest_is_read_to_its_end() {
    let mut bed = Bed::default();
    let channels: Vec<String> = (0..30_000).map(|number| format!("h{number}")).collect();
    let words: Vec<&str> = std::iter::once("SUBSCRIBE").chain(channels.iter().map(String::as_str)).collect();
    let sent = write::command(&words);
    for part in sent.chunks(16 * 1024) {
        assert!(bed.session.reads_client());
        bed.with(|session| session.client(part));
    }
    assert_eq!(bed.upstream, sent);
}

#[test]
fn a_channel_that_is_left_before_it_was_decided_is_not_asked_for() {
    let mut bed = Bed::default();
    bed.client("subscribe a1\r\nunsubscribe a1\r\nsubscribe a1\r\n");
    bed.redis(&taken('*', "a1")).redis(&taken('*', "a1"));
    assert_eq!(bed.asks, [(1, Question::Subscribe("a1".to_owned()))]);
    // It is the second that fails.
    bed.agent(1, Answer::Failed("ERR", "no".to_owned()));
    assert!(bed.reads().ends_with("-ERR no\r\n"));
    assert!(bed.session.channels.is_empty());
}
