//! How a container can be made to meet a fate: by its image where images are simulated, by what it runs otherwise.

use scheduler_core::memory::Fate;
use scheduler_core::{BackendName, Role, Workload};
use scheduler_nomad::NomadExtension;
use serde_json::{Value, json};

/// Who plays the fates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Play {
    /// The image's name, as the fake reads it.
    Images,
    /// Programs on the node, and Nomad's own driver for tests for what no program can do.
    Programs,
}

impl Play {
    /// Makes the main container meet this fate.
    pub(crate) fn fate(self, mut workload: Workload, fate: Fate, tag: &str) -> Workload {
        let mut name = String::new();
        for container in workload.containers.iter_mut().filter(|container| container.role == Role::Main) {
            container.image = fate.image(tag);
            name.clone_from(&container.name);
            if self == Self::Programs {
                // A node holds many.
                *container = container.clone().cpu("10m", "10m").memory("16Mi", "16Mi");
                container.command = command(fate);
            }
        }
        if self == Self::Images {
            return workload;
        }
        let extension = match mock(fate, tag) {
            None => NomadExtension::default().driver("raw_exec"),
            Some(config) => NomadExtension::default().driver("mock_driver").task(name, json!({"Config": config})),
        };
        workload.extension(&BackendName::nomad(), serde_json::to_value(extension).unwrap())
    }

    /// Lets somebody set this image in a task, with what it means here.
    pub(crate) fn set_image(self, task: &mut Value, image: &str) {
        if self == Self::Images {
            task["Config"]["image"] = image.into();
            return;
        }
        let fate = Fate::of_image(image);
        task["Meta"]["scheduler/image"] = image.into();
        (task["Driver"], task["Config"]) = match mock(fate, image) {
            Some(config) => ("mock_driver".into(), config),
            None => {
                let words = command(fate);
                ("raw_exec".into(), json!({"command": words[0], "args": words[1..]}))
            }
        };
    }
}

/// What every program writes, as simulated images do: which start it is, and a line each half second.
const SPEAK: &str = r#"
n=$(cat "$NOMAD_TASK_DIR/starts" 2>/dev/null || echo 0)
echo "start $n"
echo $((n + 1)) >"$NOMAD_TASK_DIR/starts"
(k=0; while :; do echo "tick $k"; k=$((k + 1)); sleep 0.5; done) &
"#;

/// Answers every GET on the port, where there is one and something that can.
const LISTEN: &str = r#"
if test -n "$NOMAD_PORT_http" && command -v python3 >/dev/null; then
  exec python3 -c '
import http.server, os
class All(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
    def log_message(self, *_):
        pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["NOMAD_PORT_http"])), All).serve_forever()'
fi
exec sleep 100000"#;

/// What a program does; nothing for a fate that none can play. It listens on its port, if it has one and there is
/// anything on the node that can.
fn command(fate: Fate) -> Vec<String> {
    let script = match fate {
        Fate::Run => LISTEN.to_owned(),
        Fate::NeverReady => "exec sleep 100000".to_owned(),
        Fate::Stubborn => "trap '' TERM; while :; do sleep 0.1; done".to_owned(),
        Fate::Crash { after, exit_code } | Fate::Done { after, exit_code } => {
            format!("sleep {after}; kill $!; echo end; exit {exit_code}")
        }
        Fate::Killed { after, signal } => format!("sleep {after}; kill -{signal} $$; sleep 5"),
        _ => return Vec::new(),
    };
    ["/bin/sh".to_owned(), "-c".to_owned(), format!("{SPEAK}{script}")].into()
}

/// The settings of Nomad's driver for tests, for what no program can do. The text makes two of one fate differ.
fn mock(fate: Fate, text: &str) -> Option<Value> {
    let mut config = match fate {
        Fate::Slow { after } => json!({"run_for": "24h", "start_block_for": format!("{after}s")}),
        Fate::PullError => start_error("Failed to pull `sim/pull-error`: API error (404): pull access denied"),
        Fate::InvalidImage => {
            start_error("Failed to pull `sim/invalid-image`: API error (400): invalid reference format")
        }
        _ => return None,
    };
    config["stdout_string"] = text.into();
    Some(config)
}

fn start_error(sentence: &str) -> Value {
    json!({"run_for": "24h", "start_error": sentence, "start_error_recoverable": true})
}
