//! Who listens to which channel, and for how much longer.

use std::collections::BTreeMap;
use std::time::Duration;

/// A subscription nobody has asked after for so long is over.
pub(super) const SILENCE_MAX: Duration = Duration::from_mins(10);
/// Subscriptions at once.
const ALL_MAX: usize = 4_096;

/// One subscription.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Subscription {
    /// Who asked.
    pub(super) peer: String,
    /// With which request.
    pub(super) request: String,
    /// On which connection of its own.
    pub(super) connection: String,
    /// What the channel is called there.
    pub(super) channel: String,
}

/// All subscriptions.
#[derive(Debug, Default)]
pub(super) struct Subscriptions {
    /// By the channel's name here.
    channels: BTreeMap<String, Vec<Subscription>>,
    /// When each connection was last heard of.
    heard: BTreeMap<String, Duration>,
    count: usize,
}

/// There is no room for another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Full;

impl Subscriptions {
    /// Adds a subscription to a channel of that name here; whether it is the first.
    pub(super) fn add(&mut self, now: Duration, channel: &str, subscription: Subscription) -> Result<bool, Full> {
        let listening = self.channels.get(channel).map_or(&[][..], Vec::as_slice);
        let is_known = listening.iter().any(|known| {
            (&known.peer, &known.connection, &known.channel)
                == (&subscription.peer, &subscription.connection, &subscription.channel)
        });
        if !is_known && self.count >= ALL_MAX {
            return Err(Full);
        }
        let is_first = listening.is_empty();
        self.heard.insert(subscription.connection.clone(), now);
        if !is_known {
            self.count += 1;
            self.channels.entry(channel.to_owned()).or_default().push(subscription);
        }
        Ok(is_first)
    }

    /// A connection was heard of.
    pub(super) fn heard(&mut self, now: Duration, connection: &str) {
        if let Some(heard) = self.heard.get_mut(connection) {
            *heard = now;
        }
    }

    /// Who listens to a channel.
    pub(super) fn of(&self, channel: &str) -> &[Subscription] {
        self.channels.get(channel).map_or(&[], Vec::as_slice)
    }

    /// The channels' names here.
    pub(super) fn channels(&self) -> impl Iterator<Item = &str> {
        self.channels.keys().map(String::as_str)
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Ends what nobody has asked after; the channels to which nobody listens any more.
    pub(super) fn expire(&mut self, now: Duration) -> Vec<String> {
        self.heard.retain(|_, heard| now.saturating_sub(*heard) < SILENCE_MAX);
        for listening in self.channels.values_mut() {
            listening.retain(|subscription| self.heard.contains_key(&subscription.connection));
        }
        let over: Vec<String> =
            self.channels.iter().filter(|(_, listening)| listening.is_empty()).map(|(name, _)| name.clone()).collect();
        self.channels.retain(|_, listening| !listening.is_empty());
        self.count = self.channels.values().map(Vec::len).sum();
        over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subscription(connection: &str, channel: &str) -> Subscription {
        Subscription {
            peer: "hub".to_owned(),
            request: "r".to_owned(),
            connection: connection.to_owned(),
            channel: format!("one_{channel}"),
        }
    }

    const MINUTE: Duration = Duration::from_mins(1);

    #[test]
    fn they_end_when_nobody_asks_after_them() {
        let mut all = Subscriptions::default();
        for (connection, channel, is_first) in
            [("a", "x", true), ("b", "x", false), ("b", "x", false), ("b", "y", true)]
        {
            assert_eq!(all.add(Duration::ZERO, channel, subscription(connection, channel)), Ok(is_first));
        }
        assert_eq!((all.len(), all.of("x").len(), all.of("y").len(), all.of("z").len()), (3, 2, 1, 0));
        all.heard(5 * MINUTE, "a");
        all.heard(5 * MINUTE, "stranger");
        assert_eq!(all.expire(9 * MINUTE), Vec::<String>::new());
        assert_eq!(all.expire(10 * MINUTE), ["y"]);
        assert_eq!((all.len(), all.channels().collect::<Vec<_>>()), (1, vec!["x"]));
        assert_eq!(all.expire(15 * MINUTE), ["x"]);
        assert_eq!((all.len(), all.heard.len()), (0, 0));
    }

    #[test]
    fn there_is_a_bound() {
        let mut all = Subscriptions::default();
        for number in 0..ALL_MAX {
            assert!(all.add(Duration::ZERO, "x", subscription(&number.to_string(), "x")).is_ok());
        }
        assert_eq!(all.add(Duration::ZERO, "x", subscription("more", "x")), Err(Full));
        assert_eq!(all.add(Duration::ZERO, "x", subscription("7", "x")), Ok(false));
    }
}
