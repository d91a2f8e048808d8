//! The hooks by name.

use std::fmt;

use serde::{Deserialize, Serialize};

macro_rules! hooks {
    ($($name:ident $text:literal,)*) => {
        /// The name of a hook: that of its method in [`LifecycleHooks`](super::LifecycleHooks), which documents it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(rename_all = "snake_case")]
        #[expect(missing_docs, reason = "each is the name of a method that is documented there")]
        #[non_exhaustive]
        pub enum HookName {
            $($name,)*
        }

        impl HookName {
            /// Every hook, in the order of the trait.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The name of the method.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }
        }
    };
}

hooks! {
    ValidateAppCreate "validate_app_create",
    PostAppCreate "post_app_create",
    PostAppTransfer "post_app_transfer",
    PostPolicyChange "post_policy_change",
    PostAppDestroy "post_app_destroy",
    OnAppGone "on_app_gone",
    ValidateReleaseCreate "validate_release_create",
    PostReleaseCreate "post_release_create",
    PostConfigChange "post_config_change",
    PostRegistryChange "post_registry_change",
    OnCutOver "on_cut_over",
    OnDeployEnd "on_deploy_end",
    ValidateFormationChange "validate_formation_change",
    PostFormationChange "post_formation_change",
    PostRestartRequest "post_restart_request",
    OnReplicasChange "on_replicas_change",
    OnInstancesFailing "on_instances_failing",
    PostRunRequest "post_run_request",
    OnRunEnd "on_run_end",
    ValidateDomainAdd "validate_domain_add",
    PostFrontChange "post_front_change",
    PostDomainAdd "post_domain_add",
    PostDomainRemove "post_domain_remove",
    ValidateCertificateAttach "validate_certificate_attach",
    PostCertificateAttach "post_certificate_attach",
    PostCertificateDetach "post_certificate_detach",
    ValidateVolumeCreate "validate_volume_create",
    PostVolumeCreate "post_volume_create",
    PostVolumeDelete "post_volume_delete",
    ReconcileApp "reconcile_app",
    OnDrift "on_drift",
    Other "other",
}

impl fmt::Display for HookName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
