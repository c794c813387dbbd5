//! The service's answers, from a thread that waits for them.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TryRecvError, sync_channel};
use std::time::Duration;

use petasos::message::Message;
use petasos::{Code, Msg, Status, Streaming, block_on};
use petasos_cli::admin::Served;
use petasos_cli::failed::Failed;

/// An answer, or why there are no more.
type Answer<A> = Result<Msg<A>, Failed>;

/// What a watch has told since it was last asked.
pub enum Told<A: Message> {
    /// Nothing.
    Nothing,
    /// An answer.
    Answer(Msg<A>),
    /// The watch is over.
    Ended(Failed),
}

/// A call that the service answers again and again. Its thread ends when this is dropped.
pub struct Watch<A: Message> {
    answers: Receiver<Answer<A>>,
    patience: Duration,
}

impl<A: Message> Watch<A> {
    /// Begins to watch. An answer takes at most `patience`.
    pub fn begin<F>(
        served: &'static Served,
        patience: Duration,
        open: impl FnOnce() -> F + Send + 'static,
    ) -> Result<Watch<A>, Failed>
    where
        F: Future<Output = Result<Streaming<A>, Status>>,
    {
        // Answers that nobody takes hold up the service's task, and not the service.
        let (sender, answers) = sync_channel(1);
        let thread = std::thread::Builder::new().name("petasos-watch".to_owned());
        let begun = thread.spawn(move || {
            if let Err(failed) = block_on(watch(served, open(), &sender)) {
                // Nobody may wait for it any more.
                let _ = sender.send(Err(failed));
            }
        });
        begun.map_err(|error| Failed::new(format!("cannot begin to watch: {error}")))?;
        Ok(Watch { answers, patience })
    }

    /// Waits for the next answer.
    pub fn next(&self) -> Answer<A> {
        match self.answers.recv_timeout(self.patience) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) => {
                Err(Failed::new("the service does not answer").with_status(Code::DeadlineExceeded))
            }
            Err(RecvTimeoutError::Disconnected) => Err(over()),
        }
    }

    /// What there is now.
    pub fn poll(&self) -> Told<A> {
        match self.answers.try_recv() {
            Ok(Ok(answer)) => Told::Answer(answer),
            Ok(Err(failed)) => Told::Ended(failed),
            Err(TryRecvError::Empty) => Told::Nothing,
            Err(TryRecvError::Disconnected) => Told::Ended(over()),
        }
    }
}

fn over() -> Failed {
    Failed::new("the service tells no more").with_status(Code::Unavailable)
}

/// Hands answers on until nobody takes them.
async fn watch<A: Message>(
    served: &Served,
    opened: impl Future<Output = Result<Streaming<A>, Status>>,
    answers: &SyncSender<Answer<A>>,
) -> Result<(), Failed> {
    let mut stream = opened.await.map_err(|status| served.failed(&status))?;
    while let Some(answer) = stream.message().await.map_err(|status| served.failed(&status))? {
        if answers.send(Ok(answer)).is_err() {
            return Ok(());
        }
    }
    Err(over())
}
