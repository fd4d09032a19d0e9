// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

use crate::{microseconds, milliseconds, nanoseconds_per, require, Round, Workload};
use std::fs;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex as ThreadMutex};
use std::thread;
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::{mpsc, Mutex, Notify, Semaphore};
use tokio::task::{yield_now, JoinSet};

fn workload(name: &'static str, row: &'static str, run: fn(&mut Round), rounds: usize) -> Workload {
    Workload { name, row, run, rounds }
}

/// The names, rows and counts of bench/workload/all_workloads.h and of the headers it includes.
pub fn all() -> Vec<Workload> {
    vec![
        workload("spawn", "spawn", spawn, 5),
        workload("spawn_ext", "spawn_ext", spawn_external, 5),
        workload("skynet", "skynet", |round| skynet(round, 100_000, "ms"), 5),
        workload("skynet_1m", "skynet", |round| skynet(round, 1_000_000, "ms_1m"), 3),
        workload("yield", "yield", yields, 5),
        workload("pingpong", "pingpong", ping_pong, 5),
        workload("mutex", "mutex", |round| mutex(round, 64, 20_000, false), 5),
        workload("mutex_yield", "mutex_yield", |round| mutex(round, 16, 5_000, true), 5),
        workload("wake", "wake", wake, 3),
        workload("wake_park", "wake_park", wake_parked, 3),
        workload("chan", "chan", channel, 5),
        workload("select", "select", select, 5),
        workload("task", "task", task, 5),
        workload("scope", "scope", scope, 5),
        workload("cancel", "cancel", cancel, 5),
        workload("timers", "timers", timers, 5),
        workload("sleepers", "sleepers", sleepers, 5),
        workload("memory", "memory", |round| memory(round, 100_000, ""), 1),
        workload("memory_1m", "memory", |round| memory(round, 1_000_000, "_1m"), 1),
        workload("idle", "idle", idle, 1),
        workload("trickle", "trickle", trickle, 1),
    ]
}

/// Runs `body` in a task, on a worker: the thread that calls block_on() is none.
fn run_inside<T: Send + 'static>(round: &Round, body: impl Future<Output = T> + Send + 'static) -> T {
    round
        .runtime
        .block_on(round.runtime.spawn(body))
        .expect("the task ends without a panic")
}

/// For one waiter.
struct Latch {
    left: AtomicUsize,
    zero: Notify,
}

impl Latch {
    fn new(count: usize) -> Arc<Latch> {
        Arc::new(Latch {
            left: AtomicUsize::new(count),
            zero: Notify::new(),
        })
    }

    fn count_down(&self) {
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.zero.notify_one();
        }
    }

    async fn wait(&self) {
        self.zero.notified().await;
    }
}

const SPAWN_BATCH: usize = 1_000;

fn spawn(round: &mut Round) {
    let tasks = round.scaled(1_000_000, SPAWN_BATCH);
    let each = run_inside(round, async move {
        let start = Instant::now();
        for _ in 0..tasks / SPAWN_BATCH {
            let batch = Latch::new(SPAWN_BATCH);
            for _ in 0..SPAWN_BATCH {
                let batch = batch.clone();
                tokio::spawn(async move { batch.count_down() });
            }
            batch.wait().await;
        }
        nanoseconds_per(start, tasks)
    });
    round.report("ns_per_fiber", each, "ns");
}

fn spawn_external(round: &mut Round) {
    let tasks = round.scaled(250_000, SPAWN_BATCH);
    let runtime: &Handle = round.runtime.handle();
    let start = Instant::now();
    thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..tasks / SPAWN_BATCH {
                    let starter = thread::current();
                    let left = Arc::new(AtomicUsize::new(SPAWN_BATCH));
                    for _ in 0..SPAWN_BATCH {
                        let (left, starter) = (left.clone(), starter.clone());
                        runtime.spawn(async move {
                            if left.fetch_sub(1, Ordering::AcqRel) == 1 {
                                starter.unpark();
                            }
                        });
                    }
                    while left.load(Ordering::Acquire) != 0 {
                        thread::park();
                    }
                }
            });
        }
    });
    round.report("ns_per_fiber", nanoseconds_per(start, 2 * tasks), "ns");
}

const SKYNET_CHILDREN: usize = 10;

fn skynet_node(first: usize, leaves: usize) -> Pin<Box<dyn Future<Output = usize> + Send>> {
    Box::pin(async move {
        if leaves == 1 {
            return first;
        }
        let leaves_of_child = leaves / SKYNET_CHILDREN;
        let children: Vec<_> = (0..SKYNET_CHILDREN)
            .map(|i| tokio::spawn(skynet_node(first + i * leaves_of_child, leaves_of_child)))
            .collect();
        let mut sum = 0;
        for child in children {
            sum += child.await.expect("a child ends without a panic");
        }
        sum
    })
}

fn skynet(round: &mut Round, full_leaves: usize, figure: &str) {
    let mut leaves = full_leaves;
    while leaves > round.scaled(full_leaves, 1) && leaves > 100 {
        leaves /= SKYNET_CHILDREN;
    }
    let (ms, sum) = run_inside(round, async move {
        let start = Instant::now();
        let sum = skynet_node(0, leaves).await;
        (milliseconds(start), sum)
    });
    round.report(figure, ms, "ms");
    require(sum == leaves * (leaves - 1) / 2, "skynet's sum is right");
}

fn yields(round: &mut Round) {
    let (tasks, yields) = (round.scaled(1_000, 1), round.scaled(1_000, 1));
    let each = run_inside(round, async move {
        let start = Instant::now();
        let done = Latch::new(tasks);
        for _ in 0..tasks {
            let done = done.clone();
            tokio::spawn(async move {
                for _ in 0..yields {
                    yield_now().await;
                }
                done.count_down();
            });
        }
        done.wait().await;
        nanoseconds_per(start, tasks * yields)
    });
    round.report("ns_per_yield", each, "ns");
}

fn ping_pong(round: &mut Round) {
    let trips = round.scaled(500_000, 1);
    let token = Arc::new(AtomicUsize::new(0));
    let counted = token.clone();
    let each = run_inside(round, async move {
        let to_ping = Arc::new(Notify::new());
        let to_pong = Arc::new(Notify::new());
        let start = Instant::now();
        let ping = {
            let (token, to_ping, to_pong) = (token.clone(), to_ping.clone(), to_pong.clone());
            tokio::spawn(async move {
                for _ in 0..trips {
                    token.store(token.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                    to_pong.notify_one();
                    to_ping.notified().await;
                }
            })
        };
        let pong = tokio::spawn(async move {
            for _ in 0..trips {
                to_pong.notified().await;
                token.store(token.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                to_ping.notify_one();
            }
        });
        ping.await.expect("ping ends without a panic");
        pong.await.expect("pong ends without a panic");
        nanoseconds_per(start, trips)
    });
    round.report("ns_per_roundtrip", each, "ns");
    require(
        counted.load(Ordering::Relaxed) == 2 * trips,
        "the token was handed over exactly as often as asked",
    );
}

fn mutex(round: &mut Round, tasks: usize, full_locks: usize, yielding: bool) {
    let locks = round.scaled(full_locks, 1);
    let (each, counter) = run_inside(round, async move {
        let counter = Arc::new(Mutex::new(0));
        let start = Instant::now();
        let done = Latch::new(tasks);
        for _ in 0..tasks {
            let (counter, done) = (counter.clone(), done.clone());
            tokio::spawn(async move {
                for _ in 0..locks {
                    let mut held = counter.lock().await;
                    *held += 1;
                    if yielding {
                        yield_now().await;
                    }
                }
                done.count_down();
            });
        }
        done.wait().await;
        let each = nanoseconds_per(start, tasks * locks);
        let counter = *counter.lock().await;
        (each, counter)
    });
    round.report("ns_per_lock", each, "ns");
    require(counter == tasks * locks, "the mutex excluded");
}

const WAKE_GAP: Duration = Duration::from_micros(50);

fn await_count(count: &AtomicUsize, wanted: usize) {
    while count.load(Ordering::Acquire) < wanted {
        thread::sleep(WAKE_GAP);
    }
}

fn wake(round: &mut Round) {
    let wakes = round.scaled(20_000, 1);
    let latency = Arc::new(ThreadMutex::new(Vec::with_capacity(wakes)));
    let done = Arc::new(AtomicUsize::new(0));
    for _ in 0..wakes {
        thread::sleep(WAKE_GAP);
        let (latency, done) = (latency.clone(), done.clone());
        let start = Instant::now();
        round.runtime.spawn(async move {
            let own = microseconds(start.elapsed());
            latency.lock().expect("no one panics in it").push(own);
            done.fetch_add(1, Ordering::Release);
        });
    }
    await_count(&done, wakes);
    round.report_percentiles("", &mut latency.lock().expect("no one panics in it"));
}

fn wake_parked(round: &mut Round) {
    let wakes = round.scaled(20_000, 1);
    let start = Arc::new(ThreadMutex::new(Instant::now()));
    let event = Arc::new(Notify::new());
    let done = Arc::new(AtomicUsize::new(0));
    let sleeper = {
        let (start, event, done) = (start.clone(), event.clone(), done.clone());
        round.runtime.spawn(async move {
            let mut latency = Vec::with_capacity(wakes);
            for _ in 0..wakes {
                event.notified().await;
                latency.push(microseconds(start.lock().expect("no one panics in it").elapsed()));
                done.fetch_add(1, Ordering::Release);
            }
            latency
        })
    };
    for i in 0..wakes {
        thread::sleep(WAKE_GAP);
        await_count(&done, i);
        *start.lock().expect("no one panics in it") = Instant::now();
        event.notify_one();
    }
    let mut latency = round
        .runtime
        .block_on(sleeper)
        .expect("the sleeper ends without a panic");
    round.report_percentiles("", &mut latency);
}

const CHANNEL_SLOTS: usize = 128;
const CHANNEL_PEERS: usize = 4;

/// tokio's channels have one consumer; several share it through an asynchronous mutex.
fn channel(round: &mut Round) {
    let items = round.scaled(1_000_000, CHANNEL_PEERS);
    let items_each = items / CHANNEL_PEERS;
    let (each, sum) = run_inside(round, async move {
        let start = Instant::now();
        let (sender, receiver) = mpsc::channel::<usize>(CHANNEL_SLOTS);
        let receiver = Arc::new(Mutex::new(receiver));
        let mut consumers = Vec::new();
        for peer in 0..CHANNEL_PEERS {
            let sender = sender.clone();
            tokio::spawn(async move {
                for i in 0..items_each {
                    sender
                        .send(peer * items_each + i)
                        .await
                        .expect("an open channel takes an item");
                }
            });
            let receiver = receiver.clone();
            consumers.push(tokio::spawn(async move {
                let mut own = 0;
                for _ in 0..items_each {
                    own += receiver
                        .lock()
                        .await
                        .recv()
                        .await
                        .expect("an open channel gives an item");
                }
                own
            }));
        }
        let mut sum = 0;
        for consumer in consumers {
            sum += consumer.await.expect("a consumer ends without a panic");
        }
        (nanoseconds_per(start, items), sum)
    });
    round.report("ns_per_item_channel", each, "ns");
    require(sum == items * (items - 1) / 2, "every item arrived once");
}

async fn select_items(items: usize, slots: usize, putters: usize) -> (f64, usize) {
    let (first_sender, mut first) = mpsc::channel::<usize>(slots);
    let (second_sender, mut second) = mpsc::channel::<usize>(slots);
    let start = Instant::now();
    for putter in 0..putters {
        let senders = [first_sender.clone(), second_sender.clone()];
        tokio::spawn(async move {
            for i in (putter..items).step_by(putters) {
                senders[i % 2].send(i).await.expect("an open channel takes an item");
            }
        });
    }
    let mut sum = 0;
    for _ in 0..items {
        sum += tokio::select! {
            item = first.recv() => item,
            item = second.recv() => item,
        }
        .expect("an open channel gives an item");
    }
    (nanoseconds_per(start, items), sum)
}

/// tokio's channels have at least one slot: there is no rendezvous.
fn select(round: &mut Round) {
    let items = round.scaled(1_000_000, 2);
    for (slots, putters, figure) in [
        (1, 1, "ns_per_item_rendezvous"),
        (CHANNEL_SLOTS, 2, "ns_per_item_selected"),
    ] {
        let (each, sum) = run_inside(round, select_items(items, slots, putters));
        round.report(figure, each, "ns");
        require(sum == items * (items - 1) / 2, "every item arrived once");
    }
}

fn task(round: &mut Round) {
    let (tasks, alone) = (round.scaled(1_000_000, SPAWN_BATCH), round.scaled(200_000, 1));
    let (each, sum, each_alone, sum_alone) = run_inside(round, async move {
        let mut sum = 0;
        let mut batch = Vec::with_capacity(SPAWN_BATCH);
        let start = Instant::now();
        for started in (0..tasks).step_by(SPAWN_BATCH) {
            for i in started..started + SPAWN_BATCH {
                batch.push(tokio::spawn(async move { i }));
            }
            for task in batch.drain(..) {
                sum += task.await.expect("a task ends without a panic");
            }
        }
        let each = nanoseconds_per(start, tasks);
        let mut sum_alone = 0;
        let start = Instant::now();
        for i in 0..alone {
            sum_alone += tokio::spawn(async move { i }).await.expect("a task ends without a panic");
        }
        (each, sum, nanoseconds_per(start, alone), sum_alone)
    });
    round.report("ns_per_task", each, "ns");
    require(sum == tasks * (tasks - 1) / 2, "every task gave its result");
    round.report("ns_per_task_alone", each_alone, "ns");
    require(sum_alone == alone * (alone - 1) / 2, "every task gave its result");
}

fn scope(round: &mut Round) {
    let tasks = round.scaled(1_000_000, SPAWN_BATCH);
    let (in_scope, detached) = run_inside(round, async move {
        let (mut in_scope, mut detached) = (Duration::ZERO, Duration::ZERO);
        for _ in 0..tasks / SPAWN_BATCH {
            let start = Instant::now();
            let mut set = JoinSet::new();
            for _ in 0..SPAWN_BATCH {
                set.spawn(async {});
            }
            while let Some(ended) = set.join_next().await {
                ended.expect("a task ends without a panic");
            }
            in_scope += start.elapsed();
            let start = Instant::now();
            let batch = Latch::new(SPAWN_BATCH);
            for _ in 0..SPAWN_BATCH {
                let batch = batch.clone();
                tokio::spawn(async move { batch.count_down() });
            }
            batch.wait().await;
            detached += start.elapsed();
        }
        let nanoseconds = |duration: Duration| duration.as_nanos() as f64 / tasks as f64;
        (nanoseconds(in_scope), nanoseconds(detached))
    });
    round.report("ns_per_child", in_scope, "ns");
    round.report("ns_per_detached", detached, "ns");
}

async fn time_to_cancel(tasks: usize) -> Duration {
    let never = Arc::new(Notify::new());
    let waiting = Arc::new(AtomicUsize::new(0));
    let mut set = JoinSet::new();
    for _ in 0..tasks {
        let (never, waiting) = (never.clone(), waiting.clone());
        set.spawn(async move {
            waiting.fetch_add(1, Ordering::Relaxed);
            never.notified().await;
        });
    }
    while waiting.load(Ordering::Relaxed) != tasks {
        yield_now().await;
    }
    yield_now().await; // The last of them may not wait yet.
    let start = Instant::now();
    set.abort_all();
    while let Some(ended) = set.join_next().await {
        require(ended.is_err(), "all were cancelled");
    }
    start.elapsed()
}

fn cancel(round: &mut Round) {
    for (tasks, times, figure) in [
        (1, round.scaled(50_000, 1), "ns_per_cancel"),
        (100, round.scaled(2_000, 1), "ns_per_cancel_of_100"),
    ] {
        let took = run_inside(round, async move {
            let mut took = Duration::ZERO;
            for _ in 0..times {
                took += time_to_cancel(tasks).await;
            }
            took
        });
        round.report(figure, took.as_nanos() as f64 / (tasks * times) as f64, "ns");
    }
}

fn timers(round: &mut Round) {
    let timers = round.scaled(1_000_000, 1);
    // Knuth's multiplicative generator: any spread over the 10 s will do.
    let mut state: u64 = 1;
    let ahead: Vec<Duration> = (0..timers)
        .map(|_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            Duration::from_nanos(10_000_000_000 + (state >> 16) % 10_000_000_000)
        })
        .collect();
    let fired = Arc::new(AtomicUsize::new(0));
    let counted = fired.clone();
    let (set, cancel) = run_inside(round, async move {
        let start = Instant::now();
        let mut tasks = Vec::with_capacity(timers);
        for one in ahead {
            let fired = fired.clone();
            tasks.push(tokio::spawn(async move {
                tokio::time::sleep(one).await;
                fired.fetch_add(1, Ordering::Relaxed);
            }));
        }
        let set = nanoseconds_per(start, timers);
        require(start.elapsed() < Duration::from_secs(9), "all timers are set before the first is due");
        let start = Instant::now();
        for task in &tasks {
            task.abort();
        }
        for task in tasks {
            let _ = task.await; // Err: it was cancelled.
        }
        (set, nanoseconds_per(start, timers))
    });
    round.report("ns_set", set, "ns");
    round.report("ns_cancel", cancel, "ns");
    require(counted.load(Ordering::Relaxed) == 0, "no cancelled timer fired");
}

const SLEEP: Duration = Duration::from_millis(100);

fn sleepers(round: &mut Round) {
    static MS_COLD: ThreadMutex<Option<f64>> = ThreadMutex::new(None);
    let tasks = round.scaled(100_000, 1);
    let (ms, mut late) = run_inside(round, async move {
        let start = Instant::now();
        let mut handles = Vec::with_capacity(tasks);
        for _ in 0..tasks {
            handles.push(tokio::spawn(async move {
                let deadline = Instant::now() + SLEEP;
                tokio::time::sleep(SLEEP).await;
                Instant::now().checked_duration_since(deadline).map(microseconds)
            }));
        }
        let mut late = Vec::with_capacity(tasks);
        for handle in handles {
            late.push(handle.await.expect("a sleeper ends without a panic"));
        }
        (milliseconds(start), late.into_iter().collect::<Option<Vec<f64>>>())
    });
    require(late.is_some(), "no task woke before its deadline");
    let ms_cold = *MS_COLD.lock().expect("no one panics in it").get_or_insert(ms);
    round.report("ms", ms, "ms");
    round.report("ms_cold", ms_cold, "ms");
    if let Some(late) = &mut late {
        round.report_percentiles("late_", late);
    }
}

/// The resident set and the page tables, in bytes.
fn process_memory() -> (f64, f64) {
    let number = |text: &str, at: usize| -> f64 {
        text.split_whitespace()
            .nth(at)
            .and_then(|word| word.parse().ok())
            .expect("/proc/self has the form it always had")
    };
    let statm = fs::read_to_string("/proc/self/statm").expect("/proc/self can be read");
    let status = fs::read_to_string("/proc/self/status").expect("/proc/self can be read");
    let page_tables = status
        .lines()
        .find(|line| line.starts_with("VmPTE:"))
        .expect("it tells the page tables");
    // SAFETY: no memory of ours is involved.
    let page_size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as f64;
    (number(&statm, 1) * page_size, number(page_tables, 1) * 1024.0)
}

fn memory(round: &mut Round, full: usize, suffix: &str) {
    // Of the process before its first round: what later rounds reuse counts as well.
    static BEFORE: ThreadMutex<Option<(f64, f64)>> = ThreadMutex::new(None);
    let before = *BEFORE
        .lock()
        .expect("no one panics in it")
        .get_or_insert_with(process_memory);
    let tasks = round.scaled(full, 1);
    let parked = Arc::new(AtomicUsize::new(0));
    let gate = Arc::new(Semaphore::new(0));
    let finished = Latch::new(tasks);
    for _ in 0..tasks {
        let (parked, gate, finished) = (parked.clone(), gate.clone(), finished.clone());
        round.runtime.spawn(async move {
            parked.fetch_add(1, Ordering::Release);
            let _ = gate.acquire().await; // Err: it was closed, which lets all go on.
            finished.count_down();
        });
    }
    await_count(&parked, tasks);
    let now = process_memory();
    gate.close();
    round.runtime.block_on(finished.wait());
    let resident = (now.0 - before.0) / tasks as f64;
    let page_tables = (now.1 - before.1) / tasks as f64;
    round.report(format!("bytes_per_fiber{suffix}"), resident, "bytes");
    round.report(format!("page_table_bytes_per_fiber{suffix}"), page_tables, "bytes");
    round.report(
        format!("bytes_per_fiber_with_page_tables{suffix}"),
        resident + page_tables,
        "bytes",
    );
}

fn process_cpu_milliseconds() -> f64 {
    let mut used = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `used` is ours and outlives the call.
    let status = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &mut used) };
    require(status == 0, "the process's CPU time can be read");
    used.tv_sec as f64 * 1e3 + used.tv_nsec as f64 / 1e6
}

fn idle(round: &mut Round) {
    let length = Duration::from_millis(round.scaled(3_000, 1) as u64);
    thread::sleep(length / 3);
    let start = Instant::now();
    let before = process_cpu_milliseconds();
    thread::sleep(length);
    round.report(
        "cpu_ms_per_s",
        (process_cpu_milliseconds() - before) / start.elapsed().as_secs_f64(),
        "ms/s",
    );
}

fn trickle(round: &mut Round) {
    let starts = round.scaled(30_000, 1);
    let done = Arc::new(AtomicUsize::new(0));
    let start = Instant::now();
    let before = process_cpu_milliseconds();
    let mut next = start;
    for _ in 0..starts {
        next += Duration::from_micros(100);
        thread::sleep(next.saturating_duration_since(Instant::now()));
        let done = done.clone();
        round.runtime.spawn(async move {
            done.fetch_add(1, Ordering::Relaxed);
        });
    }
    let used = process_cpu_milliseconds() - before;
    round.report("cpu_ms_per_s", used / start.elapsed().as_secs_f64(), "ms/s");
    await_count(&done, starts);
}
