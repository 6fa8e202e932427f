//! Policies are asked in a process of their own, which may end as it likes: this one lives on.

use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use futures::future::BoxFuture;
use thane_workload::policy::{Answer, Judge, PATIENCE, Question};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::commands::judge::{BEGUN, MEMORY_BYTES};

/// How many decide at once; each may take its memory, of what this process may have, and a processor.
const AT_ONCE: usize = 2;
/// How long such a process may take to read its question, on a machine that has much to do.
const START: Duration = Duration::from_secs(30);
/// A policy that goes on for too long says so itself; one that cannot is killed so much later.
const GRACE: Duration = Duration::from_millis(250);
/// The longest answer that is read.
const ANSWER_BYTES: u64 = 16 << 20;

static TURNS: Semaphore = Semaphore::const_new(AT_ONCE);

/// This program again, for one question at a time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Apart;

impl Judge for Apart {
    fn judge(&self, question: Question) -> BoxFuture<'_, Answer> {
        Box::pin(async move {
            let asked = ask(&question).await;
            asked.unwrap_or_else(|why| Answer::Unusable(format!("the policies could not be asked: {why}")))
        })
    }
}

/// What came of it, or why it could not be asked, which is not the policy's fault.
async fn ask(question: &Question) -> Result<Answer, String> {
    let text = serde_json::to_vec(question).map_err(|error| error.to_string())?;
    let _turn = TURNS.acquire().await.map_err(|error| error.to_string())?;
    // The file of this program may have been replaced since it was started; this name is what runs.
    let mut child = Command::new("/proc/self/exe")
        .arg("judge")
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| format!("their process could not be started: {error}"))?;
    let (Some(mut stdin), Some(mut stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err("their process has no pipes".to_owned());
    };
    let begin = async {
        stdin.write_all(&text).await?;
        drop(stdin);
        stdout.read_u8().await
    };
    match timeout(START, begin).await {
        Ok(Ok(BEGUN)) => {}
        Ok(Ok(_)) => return Err("their process said something else than that it begins".to_owned()),
        Ok(Err(error)) => return Err(format!("their process did not begin: {error}")),
        Err(_) => return Err(format!("their process did not begin within {} s", START.as_secs())),
    }
    let end = async {
        let mut answer = Vec::new();
        stdout.take(ANSWER_BYTES).read_to_end(&mut answer).await?;
        Ok::<_, std::io::Error>((answer, child.wait().await?))
    };
    Ok(match timeout(PATIENCE + GRACE, end).await {
        Ok(Ok((answer, status))) if status.success() => serde_json::from_slice(&answer)
            .unwrap_or_else(|error| Answer::failed(&format!("its answer cannot be read: {error}"))),
        Ok(Ok((_, status))) => Answer::failed(&ended(status)),
        Ok(Err(error)) => Answer::failed(&format!("its answer did not come: {error}")),
        Err(_) => Answer::failed(&format!("it takes longer than {} s", PATIENCE.as_secs())),
    })
}

fn ended(status: ExitStatus) -> String {
    let how = match (status.signal(), status.code()) {
        (Some(signal), _) => format!("signal {signal}"),
        (None, code) => format!("exit code {}", code.unwrap_or_default()),
    };
    format!("its process ended without an answer ({how}): it may need more than {} MiB", MEMORY_BYTES >> 20)
}
