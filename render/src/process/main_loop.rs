//! The main of `saline-render`: takes orders until the daemon that started it is gone.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use saline_data::{Packed, Value};

use super::frame::{self, Answer, Order, RenderOrder};
use super::sandbox;
use crate::{File, Files, RenderError, Renderer, Request, lint};

/// Takes orders over descriptor 0, and ends when the daemon has closed it.
pub fn main() -> ExitCode {
    let stdin = io::stdin();
    if rustix::net::sockopt::socket_domain(&stdin).is_err() {
        eprintln!(
            "saline-render renders templates for saline-master and saline-minion, and is not started by hand"
        );
        return ExitCode::FAILURE;
    }
    match stdin.as_fd().try_clone_to_owned() {
        Ok(socket) => match serve(&Arc::new(Daemon(Mutex::new(socket.into())))) {
            // The daemon is gone.
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        },
        Err(_) => ExitCode::FAILURE,
    }
}

/// The socket to the daemon.
struct Daemon(Mutex<fs::File>);

impl Daemon {
    fn tell(&self, answer: &Answer) -> io::Result<()> {
        let socket = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        frame::write(&*socket, answer)
    }

    fn hear(&self) -> io::Result<Order> {
        let socket = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        frame::read(&*socket)
    }
}

impl Files for Daemon {
    fn read(&self, name: &str) -> Result<Option<File>, String> {
        let asked = self.tell(&Answer::Read(name.to_owned()));
        match asked.and_then(|()| self.hear()) {
            Ok(Order::File(file)) => file,
            Ok(_) => Err("something else than a file was sent".to_owned()),
            Err(error) => Err(format!("nobody sends the file: {error}")),
        }
    }
}

fn serve(daemon: &Arc<Daemon>) -> io::Result<()> {
    // Its first numbers come before the door is shut.
    let mut renderer = Renderer::new();
    let shut = sandbox::enter();
    daemon.tell(&Answer::Ready(shut))?;
    let files: Arc<dyn Files> = Arc::<Daemon>::clone(daemon);
    loop {
        let answer = match daemon.hear() {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(()),
            Err(error) => return Err(error),
            Ok(Order::Render(order)) => {
                let request = begin(&mut renderer, order);
                let rendered = request.and_then(|request| renderer.render(&files, &request));
                Answer::Rendered(rendered.map(|value: Value| Packed::pack(&value)))
            }
            Ok(Order::Place(order, part)) => {
                let request = begin(&mut renderer, order).ok();
                Answer::Placed(
                    request.and_then(|request| renderer.place_of(&files, &request, &part)),
                )
            }
            Ok(Order::Lint { path, text }) => Answer::Linted(lint::lint(&path, &text)),
            Ok(Order::File(_)) => continue,
        };
        daemon.tell(&answer)?;
    }
}

/// Prepares the renderer for an order, and returns the request in it.
///
/// # Errors
/// When the variables are malformed.
fn begin(renderer: &mut Renderer, order: RenderOrder) -> Result<Request, RenderError> {
    if order.forget {
        renderer.forget_templates();
    }
    let variables = order.variables.unpack();
    let variables = variables
        .map_err(|error| RenderError::new(format!("the variables are malformed: {error}")))?;
    Ok(Request {
        name: order.name,
        document: order.document,
        variables,
    })
}
