//! A business key: at most one running instance has it.

use aos_sdk::prelude::*;

use crate::events::{Answer, Reason, Refusal, Released, Reserve, Reserved};
use crate::limits;

#[derive(Schema, Default)]
#[schema("aos/LinearBizKeyState@1")]
pub struct BizKey {
    /// The instance that has the key.
    pub instance: String,
}

#[derive(Event)]
#[schema("aos/LinearBizKeyEvent@1")]
pub enum BizKeyEvent {
    Reserve(Reserve),
    Released(Released),
}

impl BizKey {
    pub fn take(&mut self, event: BizKeyEvent, cx: &mut Context) -> Answer {
        match event {
            BizKeyEvent::Reserve(reserve) => self.reserve(reserve, cx).into(),
            BizKeyEvent::Released(released) => {
                if released.instance == self.instance {
                    cx.delete();
                }
                Answer::Done
            }
        }
    }

    fn reserve(&mut self, reserve: Reserve, cx: &mut Context) -> Result<Answer, Refusal> {
        if !cx.is_new() {
            return Err(Refusal::new(Reason::Taken, self.instance.clone()));
        }
        let Reserve { biz_key, start } = reserve;
        let checked = limits::name("biz_key", &biz_key).and_then(|()| limits::start(&start));
        if let Err(refusal) = checked {
            cx.delete();
            return Err(refusal);
        }
        self.instance = start.instance.clone();
        cx.emit(Reserved { biz_key, start });
        Ok(Answer::Done)
    }
}
