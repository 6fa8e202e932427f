//! Alone in its process, whose limits it changes.

use rustix::process::{Resource, getrlimit, setrlimit};
use thane_runtime::open_files;

#[test]
fn the_soft_limit_is_lifted_and_what_it_was_is_known() {
    assert_eq!(open_files::inherited(), None, "nothing was lifted yet");
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = Some(256);
    let hard = limit.maximum;
    setrlimit(Resource::Nofile, limit).expect("lowering the soft limit is always allowed");
    assert_eq!(open_files::lift(), hard);
    assert_eq!(getrlimit(Resource::Nofile).current, hard);
    assert_eq!(open_files::lift(), hard);
    assert_eq!(open_files::inherited(), Some(256), "lifting again does not forget what it was");
}
