//! Reads values, one after another on a connection of its own.

use thane_api::redis::Said;
use thane_redis::client::{Client, Error, Server};
use thane_redis::reply::Value;
use thane_runtime::net::SharedNetwork;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{Asked, Back};

/// Bytes of a reply beside those of its value.
const REPLY_HEAD: usize = 64;

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
            Err(Error::Large(_)) => Said::Failed(too_large(self.value_bytes_max)),
            Err(error) => {
                tracing::debug!(redis = %self.server, %error, "a value could not be read");
                Said::Failed(format!("Redis at {}: {error}", self.server))
            }
        }
    }

    async fn attempt(&self, client: &mut Option<Client>, key: &str) -> Result<Value, Error> {
        let mut open = match client.take() {
            Some(open) => open,
            None => self.server.open(&self.network, self.value_bytes_max + REPLY_HEAD).await?,
        };
        let read = open.call(&["GET", key]).await;
        if matches!(read, Ok(_) | Err(Error::Refused(_) | Error::Large(_))) {
            *client = Some(open);
        }
        read
    }
}

fn too_large(bytes_max: usize) -> String {
    format!("the value has more than {bytes_max} bytes, which is the most that is sent to the hub")
}

/// What a value of Redis is to the hub.
fn said(value: Value, bytes_max: usize) -> Said {
    match value {
        Value::Bytes(value) if value.len() > bytes_max => Said::Failed(too_large(bytes_max)),
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
        assert_eq!(said(value(9), 8), Said::Failed(too_large(8)));
        assert_eq!(said(Value::Null, 0), Said::Miss);
        assert_eq!(said(Value::Integer(1), 8), Said::Failed("the key holds no string".to_owned()));
    }
}
