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
            Ok(Value::Bytes(value)) if value.len() > self.value_bytes_max => {
                Said::Failed(format!("the value has {} bytes, too many to be sent", value.len()))
            }
            Ok(Value::Bytes(value)) => Said::Hit(value),
            Ok(Value::Null) => Said::Miss,
            Ok(_) => Said::Failed("the key holds no string".to_owned()),
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
