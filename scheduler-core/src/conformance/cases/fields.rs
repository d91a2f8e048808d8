//! All clauses together, one field of the model after the other: a change of it means the same as in memory.

use crate::conformance::Case;
use crate::conformance::fields::{compare, main, quick, second};
use crate::memory::Fate;
use crate::{
    ConfigEntry, EmptyVolume, EnvValue, NodeRule, Probe, Role, Rolling, RuntimeField, Seconds, Update, VolumeSource,
};

/// For each field its id, what a change of it needs of the backend `[…]` and of the harness `{…}`, and the change.
macro_rules! fields {
    ($($id:literal $([$($feature:ident),*])? $({$($hand:ident),*})? => |$ctx:ident, $w:ident| $change:expr;)*) => {
        pub(super) const CASES: &[Case] = &[$(
            Case {
                id: concat!("fields/", $id),
                clause: 0,
                about: concat!("A change of this field is launched, reported and judged as in memory: ", $id, "."),
                needs: &[$($(crate::Feature::$feature),*)?],
                hands: &[$($(crate::conformance::Hand::$hand),*)?],
                body: |ctx| Box::pin(compare(ctx, |$ctx, $w| $change)),
            },
        )*];
    };
}

fields! {
    "image" => |ctx, w| ctx.with_tag(w, "2");
    "image-that-cannot-be-pulled" => |ctx, w| ctx.with_fate(w, Fate::PullError, "2");
    "image-that-is-none" => |ctx, w| ctx.with_fate(w, Fate::InvalidImage, "2");
    "image-that-crashes" [TcpProbes] => |ctx, w| {
        // Without a probe it would be ready each time, for as long as it runs.
        let w = main(w, |c| c.readiness(quick(Probe::tcp("http")).initial_delay(5)));
        ctx.with_fate(w, Fate::Crash { after: 1, exit_code: 3 }, "2")
    };
    "command" {ImageFates} => |_ctx, w| main(w, |c| c.command(["/bin/sh", "-c", "$(HOME) $$ ${A}"]));
    "args" => |_ctx, w| main(w, |c| c.args(["--price", "5$", "$(NONE)"]));
    "env" => |_ctx, w| main(w, |c| c.env("PASSWORD", "pa$$word ${HOME} $(HOME)"));
    "env-field" [RuntimeFields] => |_ctx, w| main(w, |c| c.env_from("ME", EnvValue::Field(RuntimeField::InstanceName)));
    "env-config-that-is-missing" [ConfigReferences] => |_ctx, w| {
        main(w, |c| c.env_from("A", EnvValue::Config(ConfigEntry::new("settings", "v1", "a"))))
    };
    "port-number" => |ctx, w| ctx.with_other_port(w);
    "port-added" => |_ctx, w| main(w, |c| c.port("admin", 9090));
    "port-udp" [UdpPorts] => |_ctx, w| main(w, |c| c.udp_port("dns", 5353));
    "port-removed" => |_ctx, w| main(w, |mut c| {
        c.ports.clear();
        c
    });
    "cpu" => |_ctx, w| main(w, |c| c.cpu("50m", "200m"));
    "memory" => |_ctx, w| main(w, |c| c.memory("16Mi", "32Mi"));
    "memory-that-no-node-has" => |_ctx, w| main(w, |c| c.memory("900Ti", "900Ti"));
    "readiness-tcp" [TcpProbes] => |_ctx, w| main(w, |c| c.readiness(quick(Probe::tcp("http"))));
    "readiness-http" [HttpProbes] => |_ctx, w| main(w, |c| c.readiness(quick(Probe::http("http", "/ready"))));
    "readiness-exec" [ExecProbes] => |_ctx, w| main(w, |c| c.readiness(quick(Probe::exec(["true"]))));
    "readiness-grpc" [GrpcProbes] => |_ctx, w| main(w, |c| c.readiness(quick(Probe::grpc("http"))));
    "liveness" [TcpProbes] => |_ctx, w| main(w, |c| c.liveness(Probe::tcp("http")));
    "startup" [StartupProbes, TcpProbes] => |_ctx, w| main(w, |c| c.startup(quick(Probe::tcp("http"))));
    "sidecar" [Sidecars] {ImageFates} => |ctx, w| w.container(second(ctx, "side").role(Role::Sidecar));
    "init-container" [InitContainers] {ImageFates} => |ctx, w| w.container(second(ctx, "init").role(Role::Init));
    "volume-empty" [EmptyVolumes] => |_ctx, w| {
        main(w.volume("tmp", VolumeSource::Empty(EmptyVolume::default())), |c| c.mount("tmp", "/tmp"))
    };
    "volume-host" [HostVolumes] => |_ctx, w| {
        main(w.volume("tmp", VolumeSource::Host("/tmp".to_owned())), |c| c.mount_read_only("tmp", "/host"))
    };
    "replicas" => |_ctx, w| w.replicas(3);
    "replicas-none" => |_ctx, w| w.replicas(0);
    "update-bounds" => |_ctx, w| w.update(Update::Rolling(Rolling::new(2, 1)));
    "update-recreate" [Recreate] => |_ctx, w| w.update(Update::Recreate);
    "min-ready" => |_ctx, w| w.min_ready(1);
    "progress-deadline" => |_ctx, w| {
        let mut w = w;
        w.progress_deadline = Seconds::new(w.progress_deadline.get() + 1);
        w
    };
    "termination-grace" => |_ctx, w| w.termination_grace(3);
    "label" => |_ctx, w| w.label("tier", "back");
    "label-added" => |_ctx, w| w.label("team", "shop");
    "annotation" => |_ctx, w| {
        let mut w = w;
        w.annotations.insert("example.org/note".to_owned(), "any text, ${A}".to_owned());
        w
    };
    "mark-unit" => |_ctx, w| {
        let mut w = w;
        w.marks.unit = Some("dev/sandbox".to_owned());
        w
    };
    "mark-version" => |_ctx, w| {
        let mut w = w;
        w.marks.version = Some("1.2+build".to_owned());
        w
    };
    "identity" [Identity] => |_ctx, w| {
        let mut w = w;
        w.identity = Some("default".to_owned());
        w
    };
    "pull-secret" [PullSecrets] => |_ctx, w| {
        let mut w = w;
        w.pull_secrets = vec!["registry".to_owned()];
        w
    };
    "placement-that-no-node-fits" [NodeRules] => |_ctx, w| w.require(NodeRule::is_in("no-such-label", ["x"]));
    "spread" [Spread] => |_ctx, w| {
        let mut w = w;
        w.placement.spread = Some("zone".to_owned());
        w
    };
}
