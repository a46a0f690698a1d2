//! The functions of libpam. The library is loaded by its name when it is needed, so that a master without PAM needs no
//! package, and a build needs no header.
#![allow(
    unsafe_code,
    reason = "libpam is a library of C, and no crate that is kept up offers it without its headers"
)]

use std::ffi::{CStr, c_char, c_int, c_void};

/// The library, by the name that Linux-PAM has everywhere.
const NAME: &CStr = c"libpam.so.0";

/// The verdict that all is well. The numbers are those of `_pam_types.h`.
pub(crate) const SUCCESS: c_int = 0;

/// The module asks for something that is not to be shown while it is typed: a password.
pub(crate) const PROMPT_ECHO_OFF: c_int = 1;

/// The module tells of an error.
pub(crate) const ERROR_MSG: c_int = 3;

/// The module tells something.
pub(crate) const TEXT_INFO: c_int = 4;

/// The library itself has no memory.
pub(crate) const BUF_ERR: c_int = 5;

/// The conversation failed.
pub(crate) const CONV_ERR: c_int = 19;

/// No word is to be said to the user.
pub(crate) const SILENT: c_int = 0x8000;

/// An account without a password is refused.
pub(crate) const DISALLOW_NULL_AUTHTOK: c_int = 0x1;

/// `struct pam_message`.
#[repr(C)]
pub(crate) struct Message {
    pub(crate) style: c_int,
    pub(crate) text: *const c_char,
}

/// `struct pam_response`. The library frees the text, and the array of them.
#[repr(C)]
pub(crate) struct Response {
    pub(crate) text: *mut c_char,
    /// Not used, and zero.
    pub(crate) code: c_int,
}

/// The function that answers the modules.
pub(crate) type Converse =
    unsafe extern "C" fn(c_int, *mut *const Message, *mut *mut Response, *mut c_void) -> c_int;

/// `struct pam_conv`.
#[repr(C)]
pub(crate) struct Conversation {
    pub(crate) converse: Converse,
    pub(crate) data: *mut c_void,
}

/// `pam_handle_t`, which only the library looks into.
#[repr(C)]
pub(crate) struct Handle {
    _private: [u8; 0],
}

type Start = unsafe extern "C" fn(
    *const c_char,
    *const c_char,
    *const Conversation,
    *const c_char,
    *mut *mut Handle,
) -> c_int;
type Act = unsafe extern "C" fn(*mut Handle, c_int) -> c_int;
type ErrorText = unsafe extern "C" fn(*mut Handle, c_int) -> *const c_char;

/// The library, which stays loaded until the process ends.
pub(crate) struct Library {
    /// `pam_start_confdir` of Linux-PAM 1.4 and later.
    pub(crate) start: Start,
    pub(crate) authenticate: Act,
    pub(crate) check_account: Act,
    pub(crate) end: Act,
    error_text: ErrorText,
}

impl Library {
    /// Loads the library.
    ///
    /// # Errors
    /// When it is not installed, or is older than 1.4; in words.
    pub(crate) fn load() -> Result<Self, String> {
        // SAFETY: the name is a string of C, and what the library does when it is loaded is what every program that is linked
        // with it has it do.
        let library = unsafe { libc::dlopen(NAME.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
        if library.is_null() {
            return Err(format!(
                "{} cannot be loaded: is PAM installed?",
                NAME.to_string_lossy()
            ));
        }
        let symbol = |name: &CStr| {
            // SAFETY: the library is loaded and stays so, and the name is a string of C.
            let found = unsafe { libc::dlsym(library, name.as_ptr()) };
            match found.is_null() {
                false => Ok(found),
                true => Err(format!(
                    "{} has no {}: it is older than Linux-PAM 1.4",
                    NAME.to_string_lossy(),
                    name.to_string_lossy()
                )),
            }
        };
        // SAFETY: the functions of these names have these types, by `pam_appl.h` of Linux-PAM 1.4.
        unsafe {
            Ok(Self {
                start: std::mem::transmute::<*mut c_void, Start>(symbol(c"pam_start_confdir")?),
                authenticate: std::mem::transmute::<*mut c_void, Act>(symbol(c"pam_authenticate")?),
                check_account: std::mem::transmute::<*mut c_void, Act>(symbol(c"pam_acct_mgmt")?),
                end: std::mem::transmute::<*mut c_void, Act>(symbol(c"pam_end")?),
                error_text: std::mem::transmute::<*mut c_void, ErrorText>(symbol(c"pam_strerror")?),
            })
        }
    }

    /// Returns what a number of the library means.
    pub(crate) fn meaning(&self, handle: *mut Handle, number: c_int) -> String {
        // SAFETY: the library returns a string of its own, which stays, or none.
        let text = unsafe { (self.error_text)(handle, number) };
        match text.is_null() {
            true => format!("error {number}"),
            // SAFETY: it is not null, and ends with a zero byte.
            false => unsafe { CStr::from_ptr(text) }
                .to_string_lossy()
                .into_owned(),
        }
    }
}
