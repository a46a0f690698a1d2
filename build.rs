//! Has the programs hold the C++ library that libzmq needs, where the compiler has it as an archive.
//!
//! Loading the shared one costs each command half a millisecond, a quarter of what `saline --version` takes, also over
//! the transports that do not need it.

use std::path::Path;
use std::process::Command;
use std::{env, fs, io};

const ARCHIVE: &str = "libstdc++.a";

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=CXX");
    let compiler = env::var_os("CXX").unwrap_or_else(|| "c++".into());
    let asked = Command::new(compiler)
        .arg(format!("-print-file-name={ARCHIVE}"))
        .output();
    // Without a compiler that knows it the shared library is linked, as ever.
    let Some(found) = asked
        .ok()
        .and_then(|asked| String::from_utf8(asked.stdout).ok())
    else {
        return Ok(());
    };
    let (found, Some(out)) = (Path::new(found.trim()), env::var_os("OUT_DIR")) else {
        return Ok(());
    };
    // A compiler that has none prints the bare name.
    if !found.is_absolute() {
        return Ok(());
    }
    // The linker takes the first folder that has the library in either form: this one has the archive alone.
    let folder = Path::new(&out).join("archive");
    fs::create_dir_all(&folder)?;
    fs::copy(found, folder.join(ARCHIVE))?;
    println!("cargo::rustc-link-search=native={}", folder.display());
    Ok(())
}
