//! `image PROGRAM ARCHIVE TAG`: packs a static program as an OCI archive; see `make image`.

use anyhow::{Context, Result, bail};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [program, archive, tag] = arguments.as_slice() else { bail!("usage: image PROGRAM ARCHIVE TAG") };
    let content = std::fs::read(program).with_context(|| format!("reading {program}"))?;
    let bytes = thane_testkit::image::archive("thane", tag, &[], &content);
    std::fs::write(archive, bytes).with_context(|| format!("writing {archive}"))
}
