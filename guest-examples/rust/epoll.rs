//! Two questions asked at the same time, answers shown in the order in which they arrive.

use spear_guest::{Chat, Epoll, Error, Events, Progress, Sending, info};

spear_guest::main!(run);

const QUESTIONS: [&str; 2] = ["Tell me a long story about the sea.", "Name one colour."];

struct Asked {
    number: usize,
    chat: Chat<'static>,
    sending: Sending,
}

fn run() -> Result<(), Error> {
    let epoll = Epoll::new()?;
    let mut open = Vec::new();
    for (number, question) in QUESTIONS.into_iter().enumerate() {
        let mut chat = Chat::new()?;
        chat.user(question)?;
        let sending = chat.start()?;
        epoll.add(&sending, Events::IN)?;
        open.push(Asked { number, chat, sending });
        info!("asked {number}: {question}");
    }
    while !open.is_empty() {
        let ready = epoll.wait(None)?;
        for mut asked in std::mem::take(&mut open) {
            if !ready.iter().any(|one| one.is(&asked.sending)) {
                open.push(asked);
                continue;
            }
            match asked.chat.resume(asked.sending)? {
                Progress::Done(response) => info!("answer {}: {}", asked.number, response.answer()?),
                Progress::Sending(sending) => {
                    epoll.add(&sending, Events::IN)?;
                    asked.sending = sending;
                    open.push(asked);
                }
            }
        }
    }
    Ok(())
}
