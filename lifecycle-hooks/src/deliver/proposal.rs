//! Changes that hooks are asked about before they are committed.

use scheduler_core::hooks::{App, Domain, HookError, HookName, LifecycleHooks, Validation};

/// A change of a model that is about to be committed. The app is as it would be after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Proposal<'a> {
    /// A new app.
    AppCreate(&'a App),
    /// A new release.
    ReleaseCreate(&'a App),
    /// Other numbers of instances.
    FormationChange(&'a App),
    /// A new domain.
    DomainAdd(&'a App, &'a Domain),
    /// A certificate for a domain.
    CertificateAttach {
        /// The app.
        app: &'a App,
        /// The domain.
        host: &'a str,
        /// The certificate's name.
        certificate: &'a str,
    },
    /// A new volume.
    VolumeCreate {
        /// The app.
        app: &'a App,
        /// The volume's name.
        name: &'a str,
    },
}

impl<'a> Proposal<'a> {
    /// The hook that is asked.
    #[must_use]
    pub fn hook(&self) -> HookName {
        match self {
            Self::AppCreate(_) => HookName::ValidateAppCreate,
            Self::ReleaseCreate(_) => HookName::ValidateReleaseCreate,
            Self::FormationChange(_) => HookName::ValidateFormationChange,
            Self::DomainAdd(..) => HookName::ValidateDomainAdd,
            Self::CertificateAttach { .. } => HookName::ValidateCertificateAttach,
            Self::VolumeCreate { .. } => HookName::ValidateVolumeCreate,
        }
    }

    /// The app as it would be.
    #[must_use]
    pub fn app(&self) -> &'a App {
        match self {
            Self::AppCreate(app) | Self::ReleaseCreate(app) | Self::FormationChange(app) | Self::DomainAdd(app, _) => {
                app
            }
            Self::CertificateAttach { app, .. } | Self::VolumeCreate { app, .. } => app,
        }
    }

    /// Asks one set of hooks.
    ///
    /// # Errors
    /// Those of the hook.
    pub async fn ask(&self, hooks: &dyn LifecycleHooks) -> Result<Validation, HookError> {
        match self {
            Self::AppCreate(app) => hooks.validate_app_create(app).await,
            Self::ReleaseCreate(app) => hooks.validate_release_create(app).await,
            Self::FormationChange(app) => hooks.validate_formation_change(app).await,
            Self::DomainAdd(app, domain) => hooks.validate_domain_add(app, domain).await,
            Self::CertificateAttach { app, host, certificate } => {
                hooks.validate_certificate_attach(app, host, certificate).await
            }
            Self::VolumeCreate { app, name } => hooks.validate_volume_create(app, name).await,
        }
    }
}
