//! What goes wrong between hosts and with them, and when it is well again.

use std::fmt;
use std::iter::Peekable;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

/// Something that goes wrong. Hosts are partitioned from, and held up on their way to, the hub.
#[derive(Debug)]
pub(crate) enum Fault {
    /// Nothing arrives, either way.
    Partition(String, Duration),
    /// Nothing arrives from the first at the second.
    OneWay(String, String, Duration),
    /// Everything arrives late, in one piece.
    Hold(String, Duration),
    /// The host ends, and starts again.
    Crash(String, Duration),
    /// The host ends, loses its disk (by what is called here), and starts again.
    Wipe(String, Duration, Loss),
    /// A disk writes nothing, until so many milliseconds of the simulation.
    Stall(Arc<AtomicU64>, Duration),
    /// A wall clock jumps so many seconds away from the truth.
    Skew(Arc<AtomicI64>, i64),
}

/// What takes a host's disk away.
pub(crate) struct Loss(pub(crate) Box<dyn Fn()>);

impl fmt::Debug for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Loss")
    }
}

/// Faults as they come, and heal.
pub(crate) struct Storm {
    pending: Peekable<std::vec::IntoIter<(Duration, Fault)>>,
    healing: Vec<(Duration, Fault)>,
    ends: Duration,
}

impl Storm {
    /// Faults in order of their times. Whatever there is at the end heals then.
    pub(crate) fn new(faults: Vec<(Duration, Fault)>, ends: Duration) -> Self {
        Self { pending: faults.into_iter().peekable(), healing: Vec::new(), ends }
    }

    /// Lets happen what is due; whether it is over.
    pub(crate) fn blow(&mut self, sim: &mut turmoil::Sim<'_>) -> bool {
        let (now, ends) = (sim.elapsed(), self.ends);
        while let Some((_, fault)) = self.pending.next_if(|(at, _)| *at <= now) {
            self.healing.extend(strike(sim, fault));
        }
        let due: Vec<_> = self.healing.extract_if(.., |(at, _)| *at <= now || now >= ends).collect();
        for (_, fault) in due {
            heal(sim, fault);
        }
        now >= ends
    }
}

/// Lets a fault happen; when it heals.
fn strike(sim: &mut turmoil::Sim<'_>, fault: Fault) -> Option<(Duration, Fault)> {
    let now = sim.elapsed();
    let lasts = match &fault {
        Fault::Partition(name, lasts) => {
            sim.partition("hub", name.as_str());
            *lasts
        }
        Fault::OneWay(from, to, lasts) => {
            sim.partition_oneway(from.as_str(), to.as_str());
            *lasts
        }
        Fault::Hold(name, lasts) => {
            sim.hold("hub", name.as_str());
            *lasts
        }
        Fault::Crash(name, lasts) => {
            if !sim.is_host_running(name.as_str()) {
                return None;
            }
            sim.crash(name.as_str());
            *lasts
        }
        Fault::Wipe(name, lasts, lose) => {
            if !sim.is_host_running(name.as_str()) {
                return None;
            }
            sim.crash(name.as_str());
            lose.0();
            *lasts
        }
        Fault::Stall(until, lasts) => {
            until.store(u64::try_from((now + *lasts).as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
            return None;
        }
        Fault::Skew(clock, seconds) => {
            clock.store(*seconds, Ordering::Relaxed);
            return None;
        }
    };
    Some((now + lasts, fault))
}

fn heal(sim: &mut turmoil::Sim<'_>, fault: Fault) {
    match fault {
        Fault::Partition(name, _) => sim.repair("hub", name.as_str()),
        Fault::OneWay(from, to, _) => sim.repair_oneway(from.as_str(), to.as_str()),
        Fault::Hold(name, _) => sim.release("hub", name.as_str()),
        Fault::Crash(name, _) | Fault::Wipe(name, ..) => sim.bounce(name.as_str()),
        Fault::Stall(..) | Fault::Skew(..) => {}
    }
}
