//! A running `thane up`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use kube::Client;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use serde_json::Value;

use crate::place::Place;

/// A process, killed when dropped.
pub(crate) struct Running {
    child: Child,
    data: PathBuf,
    stderr: Arc<Mutex<String>>,
}

impl Running {
    /// Starts it on free ports and waits until it says that it is up.
    pub(crate) fn start(place: &Place, arguments: &[&str]) -> Self {
        let mut all = vec!["--ephemeral-ports"];
        all.extend(arguments);
        Self::start_with(place, &[], &all)
    }

    /// Starts it with variables and waits until it says that it is up.
    pub(crate) fn start_with(place: &Place, variables: &[(&str, &str)], arguments: &[&str]) -> Self {
        let mut all = vec!["up"];
        all.extend(arguments);
        let mut child = place.command(variables, &all).stderr(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
        let stderr = Arc::new(Mutex::new(String::new()));
        let noted = Arc::clone(&stderr);
        let note = move |line: &str| {
            let mut noted = noted.lock().unwrap();
            noted.push_str(line);
            noted.push('\n');
        };
        let up = lines.by_ref().inspect(|line| note(line)).any(|line| line == "Ctrl-C stops it");
        // What follows must be read, or the process would wait for a reader.
        std::thread::spawn(move || lines.for_each(|line| note(&line)));
        let running = Self { child, data: place.path().join(".thane"), stderr };
        assert!(up, "it ended before it was up:\n{}", running.told());
        running
    }

    /// What it has told so far.
    pub(crate) fn told(&self) -> String {
        self.stderr.lock().unwrap().clone()
    }

    /// A client for a context of the kubeconfig it wrote.
    pub(crate) async fn client(&self, context: &str) -> Client {
        let kubeconfig = Kubeconfig::read_from(self.data.join("kubeconfig")).unwrap();
        let options = KubeConfigOptions { context: Some(context.to_owned()), ..KubeConfigOptions::default() };
        Client::try_from(Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap()).unwrap()
    }

    /// The endpoints it wrote.
    pub(crate) fn endpoints(&self) -> Value {
        serde_json::from_slice(&std::fs::read(self.data.join("endpoints.json")).unwrap()).unwrap()
    }

    /// What a path of the admin listener answers, head and body.
    pub(crate) fn ask_admin(&self, path: &str) -> String {
        let endpoints = self.endpoints();
        let address = endpoints["metrics"].as_str().unwrap().strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    /// Sends a signal and waits for the end: its exit code and what it told.
    pub(crate) fn stop(mut self, signal: &str) -> (Option<i32>, String) {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        let code = self.child.wait().unwrap().code();
        (code, self.told())
    }

    /// Ends it as a power failure would, as far as the process is concerned.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
