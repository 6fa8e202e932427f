//! Which system calls processes may make.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};

use super::{Doing, Failure, Result};

/// The last call this list was made with knowledge of: later ones do not exist here.
const KNOWN_MAX: i64 = 469;
/// Numbers between the old calls and those that all machines share.
#[cfg(target_arch = "x86_64")]
const OLD_MAX: i64 = 334;
#[cfg(not(target_arch = "x86_64"))]
const OLD_MAX: i64 = 294;
const SHARED_MIN: i64 = 424;
/// Its flags are in memory, where no filter can look: programs fall back to the old call.
const CLONE3: i64 = 435;

/// Every flag that makes a namespace.
const NAMESPACES: u64 = 0x7e02_0080;
const VSOCK: u64 = 40;
const CRYPTO: u64 = 38;

/// Calls that change the machine, or that have been the way out of containers before.
const DENIED: &[i64] = &[
    libc::SYS_acct,
    libc::SYS_add_key,
    libc::SYS_adjtimex,
    libc::SYS_bpf,
    libc::SYS_chroot,
    libc::SYS_clock_adjtime,
    libc::SYS_clock_settime,
    libc::SYS_delete_module,
    libc::SYS_fanotify_init,
    libc::SYS_finit_module,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fsopen,
    libc::SYS_fspick,
    libc::SYS_init_module,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_uring_setup,
    libc::SYS_kcmp,
    libc::SYS_kexec_file_load,
    libc::SYS_kexec_load,
    libc::SYS_keyctl,
    libc::SYS_mount,
    libc::SYS_mount_setattr,
    libc::SYS_move_mount,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_open_tree,
    libc::SYS_perf_event_open,
    libc::SYS_pivot_root,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_reboot,
    libc::SYS_request_key,
    libc::SYS_setdomainname,
    libc::SYS_sethostname,
    libc::SYS_setns,
    libc::SYS_settimeofday,
    libc::SYS_swapoff,
    libc::SYS_swapon,
    libc::SYS_syslog,
    libc::SYS_umount2,
    libc::SYS_unshare,
    libc::SYS_userfaultfd,
    libc::SYS_vhangup,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_uselib,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ustat,
];

/// The filters, in the order they are put in force.
///
/// The first lets pass what is known, so that neither calls of the future nor those of another word size exist; the
/// second refuses what is known and not wanted.
pub(super) fn filters() -> Result<Vec<BpfProgram>> {
    let errno = |number: i32| SeccompAction::Errno(u32::try_from(number).unwrap_or_default());
    let known = (0..=OLD_MAX).chain(SHARED_MIN..=KNOWN_MAX).filter(|call| *call != CLONE3);
    let known = known.map(|call| (call, Vec::new())).collect();
    let mut denied: BTreeMap<i64, Vec<SeccompRule>> = DENIED.iter().map(|call| (*call, Vec::new())).collect();
    let masked = |bit: u64| argument(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(bit), bit);
    let flags = (0..64).map(|bit| 1_u64 << bit).filter(|bit| NAMESPACES & bit != 0);
    denied.insert(libc::SYS_clone, flags.map(masked).collect::<Result<_>>()?);
    let family = |number| argument(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, number);
    denied.insert(libc::SYS_socket, vec![family(VSOCK)?, family(CRYPTO)?]);
    Ok(vec![
        compiled(known, errno(libc::ENOSYS), SeccompAction::Allow)?,
        compiled(denied, SeccompAction::Allow, errno(libc::EPERM))?,
    ])
}

fn argument(index: u8, length: SeccompCmpArgLen, how: SeccompCmpOp, value: u64) -> Result<SeccompRule> {
    let condition =
        SeccompCondition::new(index, length, how, value).doing(|| "a condition of the filter".to_owned())?;
    SeccompRule::new(vec![condition]).doing(|| "a rule of the filter".to_owned())
}

fn compiled(
    rules: BTreeMap<i64, Vec<SeccompRule>>,
    otherwise: SeccompAction,
    matched: SeccompAction,
) -> Result<BpfProgram> {
    let machine = TargetArch::try_from(std::env::consts::ARCH)
        .map_err(|_| Failure(format!("no system call filter for {}", std::env::consts::ARCH)))?;
    let filter = SeccompFilter::new(rules, otherwise, matched, machine).doing(|| "the filter".to_owned())?;
    BpfProgram::try_from(filter).doing(|| "compile the filter".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filters_compile_and_fit() {
        for program in filters().unwrap() {
            assert!(!program.is_empty() && program.len() < 4096, "{}", program.len());
        }
    }
}
