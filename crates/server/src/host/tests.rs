#![allow(clippy::unwrap_used)]

use std::fs::{create_dir_all, write};
use std::path::Path;

use tollgate_engine::Stores;
use tollgate_memory::{ManualClock, Memory};
use tollgate_rules::{Options, RuleSet, Source};
use tollgate_testbed::Folder;

use super::reading::read;
use super::*;

/// A directory with what Linux shows below `/proc` and `/sys`.
struct Linux(Folder);

impl Linux {
    fn new() -> Linux {
        let linux = Linux(Folder::new());
        linux.write("proc/self/cgroup", "0::/pod/box\n");
        linux.use_memory(50);
        linux.use_cpu(0, 0);
        linux
    }

    /// With control groups of version 2.
    fn with_groups() -> Linux {
        let linux = Linux::new();
        linux.write("sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
        linux.limit("pod", "max 100000", "max");
        linux.limit("pod/box", "max 100000", "max");
        linux
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.0.path().join(path);
        create_dir_all(path.parent().unwrap()).unwrap();
        write(path, text).unwrap();
    }

    fn use_memory(&self, percent: u64) {
        let available = (100 - percent) * 100;
        let text = format!("MemTotal: 10000 kB\nMemFree: 1 kB\nMemAvailable:  {available} kB\n");
        self.write("proc/meminfo", &text);
    }

    /// The ticks since the start: of any work, and of none.
    fn use_cpu(&self, busy: u64, idle: u64) {
        let text = format!("cpu  {busy} 0 0 {idle} 0 0 0 0 0 0\ncpu0 1 2 3\nintr 1 2\n");
        self.write("proc/stat", &text);
    }

    fn limit(&self, group: &str, cpu: &str, memory: &str) {
        self.write(&format!("sys/fs/cgroup/{group}/cpu.max"), cpu);
        self.write(&format!("sys/fs/cgroup/{group}/memory.max"), memory);
        self.use_in(group, 0, 0);
    }

    fn use_in(&self, group: &str, cpu_us: u64, memory: u64) {
        let text = format!("usage_usec {cpu_us}\nuser_usec 1\n");
        self.write(&format!("sys/fs/cgroup/{group}/cpu.stat"), &text);
        let text = format!("{memory}\n");
        self.write(&format!("sys/fs/cgroup/{group}/memory.current"), &text);
        let text = "anon 5\ninactive_file 100\n";
        self.write(&format!("sys/fs/cgroup/{group}/memory.stat"), text);
    }

    fn root(&self) -> &Path {
        self.0.path()
    }

    fn memory(&self) -> u32 {
        memory::read_use(self.root()).unwrap()
    }
}

fn at(seconds: u64) -> Moment {
    Moment::ZERO + Span::from_secs(seconds)
}

#[test]
fn cpu_is_what_was_not_idle_between_two_samples() {
    let (linux, mut meter) = (Linux::new(), CpuMeter::default());
    linux.use_cpu(1_000, 1_000);
    assert_eq!(meter.sample(linux.root(), at(1)).unwrap(), None);
    linux.use_cpu(1_030, 1_070);
    assert_eq!(meter.sample(linux.root(), at(2)).unwrap(), Some(300));
    // Nothing to compare: no tick, and no time.
    assert_eq!(meter.sample(linux.root(), at(3)).unwrap(), None);
    linux.use_cpu(1_130, 1_070);
    assert_eq!(meter.sample(linux.root(), at(3)).unwrap(), None);
    // Counters that go back are not an overflow.
    linux.use_cpu(5, 1_000);
    assert_eq!(meter.sample(linux.root(), at(4)).unwrap(), None);
}

#[test]
fn stolen_time_is_used_and_time_that_waits_for_a_disk_is_not() {
    let (linux, mut meter) = (Linux::new(), CpuMeter::default());
    linux.write("proc/stat", "cpu  0 0 0 0 0 0 0 0 0 0\n");
    meter.sample(linux.root(), at(1)).unwrap();
    linux.write("proc/stat", "cpu  10 10 10 20 20 10 10 10 999 999\n");
    assert_eq!(meter.sample(linux.root(), at(2)).unwrap(), Some(600));
}

#[test]
fn cpu_of_a_group_is_compared_with_its_limit() {
    let (linux, mut meter) = (Linux::with_groups(), CpuMeter::default());
    linux.limit("pod", "50000 100000\n", "max");
    linux.limit("pod/box", "200000 100000\n", "max");
    meter.sample(linux.root(), at(1)).unwrap();
    linux.use_cpu(10, 90);
    // In two seconds: 0.4 of 1 second that the outer group has, 0.4 of 4 that the inner one has.
    linux.use_in("pod", 400_000, 0);
    linux.use_in("pod/box", 400_000, 0);
    assert_eq!(meter.sample(linux.root(), at(3)).unwrap(), Some(400));
    linux.use_cpu(100, 100);
    assert_eq!(meter.sample(linux.root(), at(4)).unwrap(), Some(900));
}

#[test]
fn memory_is_what_is_not_available() {
    let linux = Linux::with_groups();
    assert_eq!(linux.memory(), 500);
    linux.use_in("pod/box", 0, 4_000_000);
    assert_eq!(linux.memory(), 500);
    linux.limit("pod/box", "max 100000", "1000");
    linux.use_in("pod/box", 0, 800);
    // The cache of files, 100, does not count.
    assert_eq!(linux.memory(), 700);
    linux.limit("pod", "max 100000", "1000");
    linux.use_in("pod", 0, 1_050);
    assert_eq!(linux.memory(), 950);
}

#[test]
fn what_linux_does_not_write_is_an_error() {
    let linux = Linux::with_groups();
    for text in [
        "",
        "cpu",
        "cpu  1 2 3\n",
        "cpu  1 2 3 x 5\n",
        "cpu  1 2 3 -4 5\n",
    ] {
        linux.write("proc/stat", text);
        let error = CpuMeter::default().sample(linux.root(), at(1)).unwrap_err();
        assert!(error.to_string().contains("proc/stat"), "{text:?}: {error}");
    }
    for text in [
        "",
        "MemTotal: 5 kB\n",
        "MemTotal: 0 kB\nMemAvailable: 0 kB\n",
        "MemTotal: 5\n",
    ] {
        linux.write("proc/meminfo", text);
        let error = memory::read_use(linux.root()).unwrap_err();
        assert!(error.to_string().contains("meminfo"), "{text:?}: {error}");
    }
    linux.use_memory(1);
    linux.write("sys/fs/cgroup/pod/memory.max", "lots");
    memory::read_use(linux.root()).unwrap_err();
    linux.use_cpu(1, 1);
    for text in ["0 100000", "100000 0", "100000", "x y"] {
        linux.write("sys/fs/cgroup/pod/cpu.max", text);
        let error = CpuMeter::default().sample(linux.root(), at(1)).unwrap_err();
        assert!(error.to_string().contains("cpu.max"), "{text:?}: {error}");
    }
}

#[test]
fn groups_are_those_of_version_2_around_the_process() {
    let linux = Linux::with_groups();
    let groups = |linux: &Linux| {
        let groups = control_groups::find_groups(linux.root());
        let top = linux.root().join("sys/fs/cgroup");
        let names = groups
            .iter()
            .map(|group| group.strip_prefix(&top).unwrap().to_owned());
        names
            .map(|name| name.to_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(groups(&linux), ["", "pod", "pod/box"]);
    for (own, expected) in [
        ("0::/\n", &[""][..]),
        ("1:cpu:/a\n0::/pod\n", &["", "pod"]),
        ("0::/../../etc\n", &[""]),
        ("1:cpu:/a\n", &[]),
        ("", &[]),
    ] {
        linux.write("proc/self/cgroup", own);
        assert_eq!(groups(&linux), expected, "{own:?}");
    }
    assert_eq!(groups(&Linux::new()), [""; 0]);
}

/// A sampler of a directory, its engine with a limit by the load of the host, and their clock.
fn sampler(linux: &Linux) -> (HostSampler, Arc<ManualClock>) {
    let clock = Arc::new(ManualClock::at(at(1_000)));
    let shared: Arc<dyn Clock> = Arc::<ManualClock>::clone(&clock);
    let memory = Memory::builder()
        .max_keys(1_000)
        .clock(Arc::clone(&shared))
        .build();
    let engine = Arc::new(Engine::new(Stores::new(memory)));
    let text = "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 2, \
                elastic: {share: 50%, while: [host]}}}]";
    let loaded = RuleSet::parse(&[Source::new("d.yaml", text)], &Options::default());
    assert!(!loaded.has_errors(), "{:?}", loaded.diagnostics);
    engine.replace_rules(loaded.rules);
    let config = HeadroomConfig {
        root: linux.root().to_owned(),
        ..HeadroomConfig::default()
    };
    let pressure = Arc::default();
    (HostSampler::new(&engine, shared, &config, &pressure), clock)
}

fn has_headroom(sampler: &HostSampler) -> bool {
    sampler.engine.elastic_rules()[0].has_headroom.unwrap()
}

/// Samples for so many seconds, of which this part of a hundred is work.
fn spend(sampler: &mut HostSampler, clock: &ManualClock, linux: &Linux, seconds: u64, cpu: u64) {
    let stat = read(&linux.root().join("proc/stat")).unwrap();
    let mut ticks = stat
        .split_whitespace()
        .skip(1)
        .map(|word| word.parse::<u64>().unwrap());
    let (mut busy, mut idle) = (ticks.next().unwrap(), ticks.nth(2).unwrap());
    for _ in 0..seconds {
        clock.advance(Span::SECOND);
        (busy, idle) = (busy + cpu, idle + 100 - cpu);
        linux.use_cpu(busy, idle);
        sampler.sample();
    }
}

#[test]
fn a_host_has_headroom_after_the_hold_time_and_until_a_resource_is_short() {
    let linux = Linux::new();
    let (mut sampler, clock) = sampler(&linux);
    // The first sample has nothing to compare with.
    spend(&mut sampler, &clock, &linux, 31, 60);
    assert!(!has_headroom(&sampler));
    spend(&mut sampler, &clock, &linux, 1, 60);
    assert!(has_headroom(&sampler));
    spend(&mut sampler, &clock, &linux, 60, 79);
    assert!(has_headroom(&sampler));
    spend(&mut sampler, &clock, &linux, 1, 80);
    assert!(!has_headroom(&sampler));
    spend(&mut sampler, &clock, &linux, 31, 10);
    assert!(has_headroom(&sampler));
    linux.use_memory(90);
    spend(&mut sampler, &clock, &linux, 1, 10);
    assert!(!has_headroom(&sampler));
    assert_eq!(sampler.pressure.pressure(Resource::Memory), Some(900));
    assert_eq!(sampler.pressure.pressure(Resource::Cpu), Some(100));
}

#[test]
fn headroom_ends_if_the_sampler_stops() {
    let linux = Linux::new();
    let (mut sampler, clock) = sampler(&linux);
    spend(&mut sampler, &clock, &linux, 40, 10);
    let expires_in = HeadroomConfig::default().pace().sample_age_max;
    clock.advance(expires_in - Span::NANOSECOND);
    assert!(has_headroom(&sampler));
    clock.advance(Span::NANOSECOND);
    assert!(!has_headroom(&sampler));
    // It begins again only after a hold time.
    spend(&mut sampler, &clock, &linux, 29, 10);
    assert!(!has_headroom(&sampler));
}

#[test]
fn what_cannot_be_read_ends_headroom_and_is_counted() {
    let linux = Linux::new();
    let (mut sampler, clock) = sampler(&linux);
    spend(&mut sampler, &clock, &linux, 40, 10);
    linux.write("proc/meminfo", "?");
    spend(&mut sampler, &clock, &linux, 3, 10);
    assert!(!has_headroom(&sampler));
    assert_eq!(sampler.pressure.failed_samples(Resource::Memory), 3);
    assert_eq!(sampler.pressure.failed_samples(Resource::Cpu), 0);
    assert_eq!(sampler.pressure.pressure(Resource::Memory), None);
    linux.use_memory(10);
    spend(&mut sampler, &clock, &linux, 31, 10);
    assert!(has_headroom(&sampler));
}

#[test]
fn nothing_is_kept_while_no_rule_asks() {
    let linux = Linux::new();
    let (mut sampler, clock) = sampler(&linux);
    spend(&mut sampler, &clock, &linux, 40, 10);
    sampler.rest();
    assert!(!has_headroom(&sampler));
    spend(&mut sampler, &clock, &linux, 30, 10);
    assert!(!has_headroom(&sampler));
}

#[test]
#[cfg(target_os = "linux")]
fn this_host_can_be_read() {
    let root = Path::new("/");
    CpuMeter::default().sample(root, at(1)).unwrap();
    let memory = memory::read_use(root).unwrap();
    assert!((1..=1000).contains(&memory), "{memory}");
}
