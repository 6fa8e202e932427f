//! Reads values, one after another on a connection of its own.

use thane_api::redis::Said;
use thane_redis::client::{Client, Error, Server};
use thane_redis::reply::Value;
use thane_runtime::net::SharedNetwork;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Asked, Back};

pub(super) struct Reader {
    pub(super) server: Server,
    pub(super) network: SharedNetwork,
    pub(super) back: Back,
    pub(super) value_bytes_max: usize,
}

impl Reader {
    pub(super) async fn run(self, mut asked: mpsc::Receiver<Asked>, stop: CancellationToken) {
        let mut client = None;
        let answering = async {
            while let Some(Asked { peer, request, name }) = asked.recv().await {
                let said = self.read(&mut client, &name).await;
                self.back.say(&peer, &request.id, &request.connection, said).await;
            }
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = answering => {}
        }
    }

    async fn read(&self, client: &mut Option<Client>, key: &str) -> Said {
        let was_open = client.is_some();
        let mut read = self.attempt(client, key).await;
        if was_open && matches!(read, Err(Error::Io(_))) {
            // The server may have closed a connection that nobody used.
            read = self.attempt(client, key).await;
        }
        match read {
            Ok(value) => said(value, self.value_bytes_max),
            Err(error) => {
                tracing::debug!(redis = %self.server, %error, "a value could not be read");
                Said::Failed(format!("Redis at {}: {error}", self.server))
            }
        }
    }

    async fn attempt(&self, client: &mut Option<Client>, key: &str) -> Result<Value, Error> {
        let mut open = match client.take() {
            Some(open) => open,
            None => self.server.open(&self.network).await?,
        };
        let read = open.call(&["GET", key]).await;
        if matches!(read, Ok(_) | Err(Error::Refused(_))) {
            *client = Some(open);
        }
        read
    }
}

/// What a value of Redis is to the hub.
fn said(value: Value, bytes_max: usize) -> Said {
    match value {
        Value::Bytes(value) if value.len() > bytes_max => {
            let why = format!("the value has {} bytes, and at most {bytes_max} are sent to the hub", value.len());
            Said::Failed(why)
        }
        Value::Bytes(value) => Said::Hit(value),
        Value::Null => Said::Miss,
        _ => Said::Failed("the key holds no string".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn what_is_too_large_is_told_and_not_sent() {
        let value = |length: usize| Value::Bytes(Bytes::from(vec![0; length]));
        assert_eq!(said(value(8), 8), Said::Hit(Bytes::from(vec![0; 8])));
        let why = "the value has 9 bytes, and at most 8 are sent to the hub".to_owned();
        assert_eq!(said(value(9), 8), Said::Failed(why));
        assert_eq!(said(Value::Null, 0), Said::Miss);
        assert_eq!(said(Value::Integer(1), 8), Said::Failed("the key holds no string".to_owned()));
    }
}
