//! Who a client is: the default user, or the one who may reset limits.
//!
//! Authentication codes of the passwords are compared, under a key of this process: that takes the
//! same time whatever the passwords are.

use std::fmt;

use ring::error::Unspecified;
use ring::hmac::{HMAC_SHA256, Key, Tag, sign, verify};
use ring::rand::SystemRandom;

use crate::config::RedisProtocol;

/// The user that a client is without a name.
pub(super) const DEFAULT: &[u8] = b"default";
/// The user that may reset limits.
pub(super) const ADMIN: &[u8] = b"admin";

/// A user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum User {
    Default,
    Admin,
}

/// Why a client is not the user that it says it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rejected {
    /// The password is wrong, or there is no such user.
    Wrong,
    /// It gives a password for the default user, which has none.
    NoPassword,
}

/// The passwords of both users.
pub(super) struct Passwords {
    key: Key,
    default: Option<Tag>,
    admin: Option<Tag>,
}

// === impl Passwords ===

impl Passwords {
    /// # Errors
    ///
    /// The system has no random numbers.
    pub(super) fn new(settings: &RedisProtocol) -> Result<Passwords, Unspecified> {
        let key = Key::generate(HMAC_SHA256, &SystemRandom::new())?;
        let tag = |password: &Option<String>| {
            let password = password.as_ref()?;
            Some(sign(&key, password.as_bytes()))
        };
        Ok(Passwords {
            default: tag(&settings.password.0),
            admin: tag(&settings.admin_password.0),
            key,
        })
    }

    /// Who a client is that has said nothing; `None` if it needs a password.
    pub(super) const fn user_without_name(&self) -> Option<User> {
        match self.default {
            None => Some(User::Default),
            Some(_) => None,
        }
    }

    /// Whether the admin user exists.
    pub(super) const fn has_admin(&self) -> bool {
        self.admin.is_some()
    }

    /// The user with this name and password. Without a name, it is the default one.
    ///
    /// # Errors
    ///
    /// Why it is none.
    pub(super) fn user(&self, name: Option<&[u8]>, password: &[u8]) -> Result<User, Rejected> {
        let (user, tag) = match name {
            None if self.default.is_none() => return Err(Rejected::NoPassword),
            None | Some(DEFAULT) => (User::Default, &self.default),
            Some(ADMIN) => (User::Admin, &self.admin),
            Some(_) => return Err(Rejected::Wrong),
        };
        match tag {
            // As in Redis: a user without a password has any.
            None if user == User::Default => Ok(user),
            None => Err(Rejected::Wrong),
            Some(tag) => match verify(&self.key, password, tag.as_ref()) {
                Ok(()) => Ok(user),
                Err(_) => Err(Rejected::Wrong),
            },
        }
    }
}

impl fmt::Debug for Passwords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Passwords").finish_non_exhaustive()
    }
}
