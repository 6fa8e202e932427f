//! A client of one Redis: a connection, and commands on it one after another.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::ClientConfig;
use thane_runtime::net::{BoxIo, SharedNetwork};
use thane_runtime::tls::ClientTls;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::reply::{Replies, Value};
use crate::{Malformed, write};

const READ: usize = 16 * 1024;

/// How a server proves who it is.
#[derive(Debug, Clone)]
pub enum Tls {
    /// By a certificate of an authority that is believed.
    Verified(ClientTls),
    /// Not at all.
    Unverified(Arc<ClientConfig>),
}

/// A server, and who one is there.
#[derive(Clone)]
pub struct Server {
    /// Its host name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// The user; empty for the default one.
    pub username: String,
    /// The password; empty for none.
    pub password: String,
    /// TLS, if it speaks it.
    pub tls: Option<Tls>,
    /// Time to connect, and for each answer.
    pub timeout: Duration,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// Why a command was not answered.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The connection failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// What came is no reply.
    #[error("it does not speak Redis: {0}")]
    Malformed(#[from] Malformed),
    /// The server refused it.
    #[error("{0}")]
    Refused(String),
    /// The reply has more bytes than are taken; it was read to its end.
    #[error("the reply is larger than {0} bytes")]
    Large(usize),
    /// Nothing came in time.
    #[error("no answer in time")]
    Late,
}

impl Server {
    /// Opens a connection and says nothing on it yet.
    pub async fn connect(&self, network: &SharedNetwork) -> Result<BoxIo, Error> {
        let connecting = async {
            let stream = network.connect(&self.host, self.port).await?;
            let config = match &self.tls {
                None => return Ok(stream),
                Some(Tls::Verified(tls)) => tls.config(),
                Some(Tls::Unverified(config)) => Arc::clone(config),
            };
            Ok(thane_runtime::dial::tls(stream, &self.host, &config, b"").await?)
        };
        tokio::time::timeout(self.timeout, connecting).await.unwrap_or(Err(Error::Late))
    }

    /// Opens a connection and says who one is. Replies of more bytes than that are not held, and are errors.
    pub async fn open(&self, network: &SharedNetwork, reply_max: usize) -> Result<Client, Error> {
        let stream = self.connect(network).await?;
        let mut client = Client { stream, replies: Replies::new(reply_max), timeout: self.timeout, reply_max };
        match (self.username.as_str(), self.password.as_str()) {
            ("", "") => {}
            ("", password) => drop(client.call(&["AUTH", password]).await?),
            (username, password) => drop(client.call(&["AUTH", username, password]).await?),
        }
        Ok(client)
    }
}

/// An open connection.
pub struct Client {
    stream: BoxIo,
    replies: Replies,
    timeout: Duration,
    reply_max: usize,
}

impl Client {
    /// Sends a command and waits for its answer. After a failure that is neither a refusal nor for the answer's size the
    /// connection is of no use.
    pub async fn call<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Result<Value, Error> {
        let timeout = self.timeout;
        let calling = async {
            self.stream.write_all(&write::command(words)).await?;
            self.stream.flush().await?;
            self.next().await
        };
        match tokio::time::timeout(timeout, calling).await {
            Ok(Ok(Value::Error(why))) => Err(Error::Refused(why)),
            Ok(answer) => answer,
            Err(_) => Err(Error::Late),
        }
    }

    /// Sends a command; what answers it comes with [`Client::next`].
    pub async fn send<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Result<(), Error> {
        let timeout = self.timeout;
        let sending = async {
            self.stream.write_all(&write::command(words)).await?;
            self.stream.flush().await
        };
        Ok(tokio::time::timeout(timeout, sending).await.map_err(|_| Error::Late)??)
    }

    /// The next thing the server says, whenever that is. Nothing is lost when it is not waited for any longer.
    pub async fn next(&mut self) -> Result<Value, Error> {
        loop {
            match self.replies.next_reply() {
                Ok(Some(reply)) => return Ok(reply),
                Ok(None) => {}
                Err(Malformed::Size) => return Err(Error::Large(self.reply_max)),
                Err(malformed) => return Err(malformed.into()),
            }
            let buffer = self.replies.buffer();
            buffer.reserve(READ);
            if self.stream.read_buf(buffer).await? == 0 {
                return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
            }
        }
    }
}
