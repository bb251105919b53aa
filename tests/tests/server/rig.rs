//! A server with a scripted model on a socket of its own.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::sync::oneshot;
use varve::engine::{Engine, Options};
use varve::model::template::ChatTemplate;
use varve::server::{App, Chat, Config, Ended, ModelInfo, Served};

use super::script::{IM_END, Script, tokenizer};

/// ChatML, which refuses a conversation without a user.
const TEMPLATE: &str = "{%- if messages[-1].role != 'user' %}{{ raise_exception('the last message must be of a user') }}\
{%- endif %}{%- for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}\
{%- endfor %}{{ '<|im_start|>assistant\\n' }}";

pub struct Rig {
    pub address: SocketAddr,
    pub app: Arc<App>,
    pub engine: Engine,
    pub script: Script,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<Ended>>,
}

impl Rig {
    pub fn new(script: Script) -> Self {
        Self::with(script, Config::default(), Options::default())
    }

    pub fn with(script: Script, config: Config, options: Options) -> Self {
        let rig = Self::loading(script, config, options);
        rig.load();
        rig
    }

    /// A server whose model is still missing.
    pub fn loading(script: Script, config: Config, options: Options) -> Self {
        let engine = Engine::start(script.clone(), Arc::new(tokenizer()), options).unwrap();
        let (sender, started) = std::sync::mpsc::channel();
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
            let ended = runtime.block_on(async {
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
                let address = listener.local_addr().unwrap();
                let app = App::new(config, address);
                sender.send((address, Arc::clone(&app))).unwrap();
                varve::server::run(listener, app, async { drop(stopped.await) }).await
            });
            runtime.shutdown_timeout(Duration::from_secs(1));
            ended
        });
        let (address, app) = started.recv().unwrap();
        Self { address, app, engine, script, stop: Some(stop), thread: Some(thread) }
    }

    pub fn load(&self) {
        let tokenizer = Arc::new(tokenizer());
        let chat = Chat::new(ChatTemplate::new(TEMPLATE).unwrap(), &tokenizer, None, Some(IM_END));
        let info = ModelInfo { id: "script".into(), format: "test".into(), created: 1, parameters: 2 };
        let engine = self.engine.clone();
        self.app.ready(Served { engine, tokenizer, chat: Some(chat), stop_ids: vec![IM_END], info });
    }

    /// Asks for the end, without waiting.
    pub fn signal(&mut self) {
        drop(self.stop.take());
    }

    /// How the server ended.
    pub fn ended(&mut self) -> Ended {
        self.signal();
        self.thread.take().unwrap().join().unwrap()
    }

    /// Waits until `what` is so.
    pub fn until(&self, what: impl Fn(&Self) -> bool) {
        let start = Instant::now();
        while !what(self) {
            assert!(start.elapsed() < Duration::from_secs(10), "never");
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        self.signal();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A chat of one message, with further fields.
pub fn chat(text: &str, more: Value) -> Value {
    let mut body = json!({"messages": [{"role": "user", "content": text}]});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body
}
