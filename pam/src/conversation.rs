//! One check of a name and a password.
#![allow(
    unsafe_code,
    reason = "the modules of PAM ask for the password through a function of C"
)]

use std::ffi::{CString, c_int, c_void};
use std::path::Path;
use std::ptr;

use crate::SERVICE;
use crate::library::{
    BUF_ERR, CONV_ERR, Conversation, DISALLOW_NULL_AUTHTOK, ERROR_MSG, Handle, Library, Message,
    PROMPT_ECHO_OFF, Response, SILENT, SUCCESS, TEXT_INFO,
};
use crate::question::{Kind, Question, Verdict};

/// The largest number of messages that a module may put into one call, by `PAM_MAX_NUM_MSG`.
const MAX_MESSAGES: c_int = 32;

/// The numbers by which PAM says that somebody is not who he says, or may not come in: `PAM_PERM_DENIED`, `PAM_AUTH_ERR`,
/// `PAM_USER_UNKNOWN`, `PAM_MAXTRIES`, `PAM_NEW_AUTHTOK_REQD`, `PAM_ACCT_EXPIRED`, `PAM_CRED_EXPIRED`,
/// `PAM_AUTHTOK_EXPIRED`.
const WRONG: [c_int; 8] = [6, 7, 10, 11, 12, 13, 16, 27];

/// Asks PAM. `folder` has the file of the service; none for the system's.
///
/// # Errors
/// When PAM cannot be asked, in words.
pub(crate) fn check(question: &Question, folder: Option<&Path>) -> Result<Verdict, String> {
    let library = Library::load()?;
    let text = |text: &str| CString::new(text).map_err(|_| "a text has a zero byte".to_owned());
    let (service, user) = (text(SERVICE)?, text(&question.user)?);
    let password = text(&question.password)?;
    let folder = folder.map(|folder| text(&folder.to_string_lossy()));
    let folder = folder.transpose()?;
    let conversation = Conversation {
        converse: answer,
        data: ptr::from_ref(&password).cast_mut().cast::<c_void>(),
    };
    let mut handle: *mut Handle = ptr::null_mut();
    // SAFETY: the texts end with zero bytes, and they and the conversation live until `end` below.
    let started = unsafe {
        (library.start)(
            service.as_ptr(),
            user.as_ptr(),
            &raw const conversation,
            folder
                .as_ref()
                .map_or(ptr::null(), |folder| folder.as_ptr()),
            &raw mut handle,
        )
    };
    if started != SUCCESS {
        return Err(library.meaning(handle, started));
    }
    let flags = SILENT | DISALLOW_NULL_AUTHTOK;
    let mut said = SUCCESS;
    if question.kind == Kind::Login {
        // SAFETY: the handle was started and has not ended.
        said = unsafe { (library.authenticate)(handle, flags) };
    }
    if said == SUCCESS {
        // SAFETY: as above.
        said = unsafe { (library.check_account)(handle, flags) };
    }
    let verdict = match said {
        SUCCESS => Ok(Verdict::Right),
        number if WRONG.contains(&number) => Ok(Verdict::Wrong),
        number => Err(library.meaning(handle, number)),
    };
    // SAFETY: the handle was started, and nothing uses it after this.
    unsafe { (library.end)(handle, said) };
    verdict
}

/// Answers a module: the password where it asks for something that is not shown, nothing where it tells something. Whatever else
/// it asks, nobody is there to answer.
///
/// # Safety
/// The arguments are those that libpam gives to such a function: `count` messages, each behind a pointer of its own, a place for
/// the responses, and the password as a `CString`.
unsafe extern "C" fn answer(
    count: c_int,
    messages: *mut *const Message,
    responses: *mut *mut Response,
    password: *mut c_void,
) -> c_int {
    if messages.is_null() || responses.is_null() || !(1..=MAX_MESSAGES).contains(&count) {
        return CONV_ERR;
    }
    let count = count.unsigned_abs() as usize;
    // SAFETY: the library frees the memory with `free`, which fits `calloc`.
    let made = unsafe { libc::calloc(count, size_of::<Response>()) }.cast::<Response>();
    if made.is_null() {
        return BUF_ERR;
    }
    // SAFETY: `check` gives the password, which outlives the conversation.
    let password = unsafe { &*password.cast::<CString>() };
    for at in 0..count {
        // SAFETY: there are so many messages and responses.
        let (message, response) = unsafe { (&**messages.add(at), &mut *made.add(at)) };
        match message.style {
            PROMPT_ECHO_OFF => {
                // SAFETY: a string of C; the copy is the library's, which frees it.
                response.text = unsafe { libc::strdup(password.as_ptr()) };
            }
            ERROR_MSG | TEXT_INFO => {}
            _ => {
                for answered in 0..at {
                    // SAFETY: each is none or a copy that nobody else knows.
                    unsafe { libc::free((*made.add(answered)).text.cast()) };
                }
                // SAFETY: nobody else knows it.
                unsafe { libc::free(made.cast()) };
                return CONV_ERR;
            }
        }
    }
    // SAFETY: it is not null.
    unsafe { *responses = made };
    SUCCESS
}
