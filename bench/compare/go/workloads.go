// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"math/rand"
	"os"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// The names, rows and counts of bench/workload/all_workloads.h and of the headers it includes.
var workloads = []workload{
	{"spawn", "spawn", runSpawn, 5},
	{"spawn_ext", "spawn_ext", runSpawnExternal, 5},
	{"skynet", "skynet", func(r *round) { runSkynet(r, 100_000, "ms") }, 5},
	{"skynet_1m", "skynet", func(r *round) { runSkynet(r, 1_000_000, "ms_1m") }, 3},
	{"yield", "yield", runYield, 5},
	{"pingpong", "pingpong", runPingPong, 5},
	{"pingpong_cv", "pingpong", runPingPongCond, 5},
	{"mutex", "mutex", func(r *round) { runMutex(r, 64, r.scaled(20_000, 1), func() {}) }, 5},
	{"mutex_yield", "mutex_yield", func(r *round) { runMutex(r, 16, r.scaled(5_000, 1), runtime.Gosched) }, 5},
	{"wake", "wake", runWake, 3},
	{"wake_park", "wake_park", runWakeParked, 3},
	{"chan", "chan", runChan, 5},
	{"select", "select", runSelect, 5},
	{"task", "task", runTask, 5},
	{"scope", "scope", runScope, 5},
	{"cancel", "cancel", runCancel, 5},
	{"timers", "timers", runTimers, 5},
	{"timers_stall", "timers_stall", runTimersStall, 1},
	{"sleepers", "sleepers", runSleepers, 5},
	{"memory", "memory", func(r *round) { runMemory(r, 100_000, "") }, 1},
	{"memory_1m", "memory", func(r *round) { runMemory(r, 1_000_000, "_1m") }, 1},
	{"idle", "idle", runIdle, 1},
	{"trickle", "trickle", runTrickle, 1},
}

const spawnBatch = 1_000

func runSpawn(r *round) {
	fibers := r.scaled(1_000_000, spawnBatch)
	start := time.Now()
	for started := 0; started < fibers; started += spawnBatch {
		var batch sync.WaitGroup
		batch.Add(spawnBatch)
		for i := 0; i < spawnBatch; i++ {
			go batch.Done()
		}
		batch.Wait()
	}
	r.report("ns_per_fiber", nanosecondsPer(start, fibers), "ns")
}

// Go knows no threads outside of its scheduler: two goroutines start the others. Locking each to a thread of its own
// (runtime.LockOSThread) made no difference beyond the noise.
func runSpawnExternal(r *round) {
	fibers := r.scaled(250_000, spawnBatch)
	start := time.Now()
	var starters sync.WaitGroup
	starters.Add(2)
	for s := 0; s < 2; s++ {
		go func() {
			defer starters.Done()
			for started := 0; started < fibers; started += spawnBatch {
				var batch sync.WaitGroup
				batch.Add(spawnBatch)
				for i := 0; i < spawnBatch; i++ {
					go batch.Done()
				}
				batch.Wait()
			}
		}()
	}
	starters.Wait()
	r.report("ns_per_fiber", nanosecondsPer(start, 2*fibers), "ns")
}

const skynetChildren = 10

func skynetNode(first, leaves int64, sum *int64) {
	if leaves == 1 {
		*sum = first
		return
	}
	var sums [skynetChildren]int64
	var children sync.WaitGroup
	children.Add(skynetChildren)
	for i := int64(0); i < skynetChildren; i++ {
		i := i
		go func() {
			defer children.Done()
			skynetNode(first+i*leaves/skynetChildren, leaves/skynetChildren, &sums[i])
		}()
	}
	children.Wait()
	for _, one := range sums {
		*sum += one
	}
}

func runSkynet(r *round, fullLeaves int, figure string) {
	leaves := fullLeaves
	for leaves > r.scaled(fullLeaves, 1) && leaves > 100 {
		leaves /= skynetChildren
	}
	start := time.Now()
	var sum int64
	skynetNode(0, int64(leaves), &sum)
	r.report(figure, milliseconds(start), "ms")
	require(sum == int64(leaves)*int64(leaves-1)/2, "skynet's sum is right")
}

func runYield(r *round) {
	fibers, yields := r.scaled(1_000, 1), r.scaled(1_000, 1)
	var counted int64
	start := time.Now()
	var done sync.WaitGroup
	done.Add(fibers)
	for i := 0; i < fibers; i++ {
		go func() {
			defer done.Done()
			own := 0
			for ; own < yields; own++ {
				runtime.Gosched()
			}
			atomic.AddInt64(&counted, int64(own))
		}()
	}
	done.Wait()
	r.report("ns_per_yield", nanosecondsPer(start, fibers*yields), "ns")
	require(counted == int64(fibers*yields), "every yield returned once")
}

// Unbuffered channels: the cheapest primitive that blocks.
func runPingPong(r *round) {
	trips := r.scaled(500_000, 1)
	token := 0
	toPing, toPong := make(chan struct{}), make(chan struct{})
	start := time.Now()
	var done sync.WaitGroup
	done.Add(2)
	go func() {
		defer done.Done()
		for i := 0; i < trips; i++ {
			token++
			toPong <- struct{}{}
			<-toPing
		}
	}()
	go func() {
		defer done.Done()
		for i := 0; i < trips; i++ {
			<-toPong
			token++
			toPing <- struct{}{}
		}
	}()
	done.Wait()
	r.report("ns_per_roundtrip", nanosecondsPer(start, trips), "ns")
	require(token == 2*trips, "the token was handed over exactly as often as asked")
}

func runPingPongCond(r *round) {
	trips := r.scaled(500_000, 1)
	var mutex sync.Mutex
	changed := sync.NewCond(&mutex)
	token := 0
	start := time.Now()
	var done sync.WaitGroup
	done.Add(2)
	for parity := 0; parity < 2; parity++ {
		parity := parity
		go func() {
			defer done.Done()
			for i := 0; i < trips; i++ {
				mutex.Lock()
				for token%2 != parity {
					changed.Wait()
				}
				token++
				mutex.Unlock()
				changed.Signal()
			}
		}()
	}
	done.Wait()
	r.report("ns_per_roundtrip_cv", nanosecondsPer(start, trips), "ns")
	require(token == 2*trips, "the token was handed over exactly as often as asked")
}

func runMutex(r *round, fibers, locks int, insideLock func()) {
	var mutex sync.Mutex
	counter := 0
	start := time.Now()
	var done sync.WaitGroup
	done.Add(fibers)
	for i := 0; i < fibers; i++ {
		go func() {
			defer done.Done()
			for l := 0; l < locks; l++ {
				mutex.Lock()
				counter++
				insideLock()
				mutex.Unlock()
			}
		}()
	}
	done.Wait()
	r.report("ns_per_lock", nanosecondsPer(start, fibers*locks), "ns")
	require(counter == fibers*locks, "the mutex excluded")
}

const wakeGap = 50 * time.Microsecond

// Blocks the thread in the kernel, as a plain thread's sleep does. time.Sleep() would not be the same work: it parks
// the goroutine, and below a millisecond it is as late as the network poller, which counts in milliseconds.
func sleepThread(d time.Duration) {
	if d <= 0 {
		return
	}
	ts := syscall.NsecToTimespec(d.Nanoseconds())
	for syscall.Nanosleep(&ts, &ts) == syscall.EINTR {
	}
}

func awaitCount(count *int64, wanted int64) {
	for atomic.LoadInt64(count) < wanted {
		sleepThread(wakeGap)
	}
}

func runWake(r *round) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	latency := make([]float64, r.scaled(20_000, 1))
	var done int64
	for i := range latency {
		sleepThread(wakeGap)
		own := &latency[i]
		start := time.Now()
		go func() {
			*own = microseconds(time.Since(start))
			atomic.AddInt64(&done, 1)
		}()
	}
	awaitCount(&done, int64(len(latency)))
	reportPercentiles(r, "", latency)
}

func runWakeParked(r *round) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	wakes := r.scaled(20_000, 1)
	var latency []float64
	event := make(chan time.Time, 1)
	var done int64
	go func() {
		for i := 0; i < wakes; i++ {
			latency = append(latency, microseconds(time.Since(<-event)))
			atomic.AddInt64(&done, 1)
		}
	}()
	for i := 0; i < wakes; i++ {
		sleepThread(wakeGap)
		awaitCount(&done, int64(i))
		event <- time.Now()
	}
	awaitCount(&done, int64(wakes))
	reportPercentiles(r, "", latency)
}

const (
	channelSlots = 128
	channelPeers = 4
)

// The textbook bounded buffer.
type boundedBuffer struct {
	mutex             sync.Mutex
	notFull, notEmpty *sync.Cond
	slots             [channelSlots]int
	head, count       int
}

func newBoundedBuffer() *boundedBuffer {
	b := &boundedBuffer{}
	b.notFull, b.notEmpty = sync.NewCond(&b.mutex), sync.NewCond(&b.mutex)
	return b
}

func (b *boundedBuffer) put(item int) {
	b.mutex.Lock()
	for b.count == channelSlots {
		b.notFull.Wait()
	}
	b.slots[(b.head+b.count)%channelSlots] = item
	b.count++
	b.mutex.Unlock()
	b.notEmpty.Signal()
}

func (b *boundedBuffer) take() int {
	b.mutex.Lock()
	for b.count == 0 {
		b.notEmpty.Wait()
	}
	item := b.slots[b.head]
	b.head = (b.head + 1) % channelSlots
	b.count--
	b.mutex.Unlock()
	b.notFull.Signal()
	return item
}

func runProducersAndConsumers(r *round, figure string, produce func(first, count int), consume func(count int) int64) {
	items := r.scaled(1_000_000, channelPeers)
	each := items / channelPeers
	var sum int64
	start := time.Now()
	var done sync.WaitGroup
	done.Add(2 * channelPeers)
	for peer := 0; peer < channelPeers; peer++ {
		first := peer * each
		go func() {
			defer done.Done()
			produce(first, each)
		}()
		go func() {
			defer done.Done()
			atomic.AddInt64(&sum, consume(each))
		}()
	}
	done.Wait()
	r.report(figure, nanosecondsPer(start, items), "ns")
	require(sum == int64(items)*int64(items-1)/2, "every item arrived once")
}

func runChan(r *round) {
	buffer := newBoundedBuffer()
	runProducersAndConsumers(r, "ns_per_item",
		func(first, count int) {
			for i := 0; i < count; i++ {
				buffer.put(first + i)
			}
		},
		func(count int) (own int64) {
			for i := 0; i < count; i++ {
				own += int64(buffer.take())
			}
			return
		})
	channel := make(chan int, channelSlots)
	runProducersAndConsumers(r, "ns_per_item_channel",
		func(first, count int) {
			for i := 0; i < count; i++ {
				channel <- first + i
			}
		},
		func(count int) (own int64) {
			for i := 0; i < count; i++ {
				own += int64(<-channel)
			}
			return
		})
}

func selectItems(r *round, slots, putters int, figure string) {
	items := r.scaled(1_000_000, 2)
	channels := [2]chan int{make(chan int, slots), make(chan int, slots)}
	var sum int64
	start := time.Now()
	for putter := 0; putter < putters; putter++ {
		putter := putter
		go func() {
			for i := putter; i < items; i += putters {
				channels[i%2] <- i
			}
		}()
	}
	for i := 0; i < items; i++ {
		select {
		case item := <-channels[0]:
			sum += int64(item)
		case item := <-channels[1]:
			sum += int64(item)
		}
	}
	r.report(figure, nanosecondsPer(start, items), "ns")
	require(sum == int64(items)*int64(items-1)/2, "every item arrived once")
}

func runSelect(r *round) {
	selectItems(r, 0, 1, "ns_per_item_rendezvous")
	selectItems(r, channelSlots, 2, "ns_per_item_selected")
}

// A result comes through a channel of one.
func startTask(number int) chan int {
	result := make(chan int, 1)
	go func() { result <- number }()
	return result
}

func runTask(r *round) {
	tasks, alone := r.scaled(1_000_000, spawnBatch), r.scaled(200_000, 1)
	var sum int64
	batch := make([]chan int, 0, spawnBatch)
	start := time.Now()
	for started := 0; started < tasks; started += spawnBatch {
		for i := 0; i < spawnBatch; i++ {
			batch = append(batch, startTask(started+i))
		}
		for _, result := range batch {
			sum += int64(<-result)
		}
		batch = batch[:0]
	}
	r.report("ns_per_task", nanosecondsPer(start, tasks), "ns")
	require(sum == int64(tasks)*int64(tasks-1)/2, "every task gave its result")
	sum = 0
	start = time.Now()
	for i := 0; i < alone; i++ {
		sum += int64(<-startTask(i))
	}
	r.report("ns_per_task_alone", nanosecondsPer(start, alone), "ns")
	require(sum == int64(alone)*int64(alone-1)/2, "every task gave its result")
}

// What golang.org/x/sync/errgroup does: the first error cancels the others' context, and wait returns it.
type errorGroup struct {
	cancel context.CancelFunc
	ended  sync.WaitGroup
	once   sync.Once
	err    error
}

func newErrorGroup() (*errorGroup, context.Context) {
	ctx, cancel := context.WithCancel(context.Background())
	return &errorGroup{cancel: cancel}, ctx
}

func (g *errorGroup) spawn(f func() error) {
	g.ended.Add(1)
	go func() {
		defer g.ended.Done()
		if err := f(); err != nil {
			g.once.Do(func() {
				g.err = err
				g.cancel()
			})
		}
	}()
}

func (g *errorGroup) wait() error {
	g.ended.Wait()
	g.cancel()
	return g.err
}

func runScope(r *round) {
	fibers := r.scaled(1_000_000, spawnBatch)
	var inScope, detached time.Duration
	for started := 0; started < fibers; started += spawnBatch {
		start := time.Now()
		group, _ := newErrorGroup()
		for i := 0; i < spawnBatch; i++ {
			group.spawn(func() error { return nil })
		}
		err := group.wait()
		inScope += time.Since(start)
		require(err == nil, "no child fails")
		start = time.Now()
		var batch sync.WaitGroup
		batch.Add(spawnBatch)
		for i := 0; i < spawnBatch; i++ {
			go batch.Done()
		}
		batch.Wait()
		detached += time.Since(start)
	}
	r.report("ns_per_child", float64(inScope.Nanoseconds())/float64(fibers), "ns")
	r.report("ns_per_detached", float64(detached.Nanoseconds())/float64(fibers), "ns")
}

func timeToCancel(fibers int) time.Duration {
	never := make(chan struct{})
	var waiting int64
	group, ctx := newErrorGroup()
	for i := 0; i < fibers; i++ {
		group.spawn(func() error {
			atomic.AddInt64(&waiting, 1)
			select {
			case <-never:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}
	for atomic.LoadInt64(&waiting) != int64(fibers) {
		runtime.Gosched()
	}
	runtime.Gosched() // The last of them may not wait yet.
	start := time.Now()
	group.cancel()
	err := group.wait()
	took := time.Since(start)
	require(err == context.Canceled, "all were cancelled")
	return took
}

func runCancel(r *round) {
	measure := func(fibers, times int, figure string) {
		var took time.Duration
		for i := 0; i < times; i++ {
			took += timeToCancel(fibers)
		}
		r.report(figure, float64(took.Nanoseconds())/float64(fibers*times), "ns")
	}
	measure(1, r.scaled(50_000, 1), "ns_per_cancel")
	measure(100, r.scaled(2_000, 1), "ns_per_cancel_of_100")
}

func runTimers(r *round) {
	timers := r.scaled(1_000_000, 1)
	random := rand.New(rand.NewSource(1))
	ahead := make([]time.Duration, timers)
	for i := range ahead {
		ahead[i] = 10*time.Second + time.Duration(random.Int63n(int64(10*time.Second)))
	}
	set := make([]*time.Timer, timers)
	var fired int64
	start := time.Now()
	for i, d := range ahead {
		set[i] = time.AfterFunc(d, func() { atomic.AddInt64(&fired, 1) })
	}
	r.report("ns_set", nanosecondsPer(start, timers), "ns")
	require(time.Since(start) < 9*time.Second, "all timers are set before the first is due")
	start = time.Now()
	for _, timer := range set {
		timer.Stop()
	}
	r.report("ns_cancel", nanosecondsPer(start, timers), "ns")
	require(atomic.LoadInt64(&fired) == 0, "no cancelled timer fired")
}

func runTimersStall(r *round) {
	timers := r.scaled(1_000_000, 1)
	set := make([]*time.Timer, timers)
	took := make([]float64, timers)
	for i := range took {
		took[i] = 1
	}
	var fired int64
	before := time.Now()
	for i := range set {
		set[i] = time.AfterFunc(20*time.Second, func() { atomic.AddInt64(&fired, 1) })
		now := time.Now()
		took[i] = microseconds(now.Sub(before))
		before = now
	}
	for _, timer := range set {
		timer.Stop()
	}
	require(atomic.LoadInt64(&fired) == 0, "no cancelled timer fired")
	sort.Float64s(took)
	r.report("stall_us", took[timers-1], "us")
	r.report("stall_p9999_us", took[timers-1-timers/10_000], "us")
}

const sleepTime = 100 * time.Millisecond

var coldSleepers float64

func runSleepers(r *round) {
	late := make([]float64, r.scaled(100_000, 1))
	start := time.Now()
	var done sync.WaitGroup
	done.Add(len(late))
	for i := range late {
		own := &late[i]
		go func() {
			defer done.Done()
			deadline := time.Now().Add(sleepTime)
			time.Sleep(sleepTime)
			*own = microseconds(time.Since(deadline))
		}()
	}
	done.Wait()
	ms := milliseconds(start)
	if coldSleepers == 0 {
		coldSleepers = ms
	}
	r.report("ms", ms, "ms")
	r.report("ms_cold", coldSleepers, "ms")
	for _, one := range late {
		require(one >= 0, "no goroutine woke before its deadline")
	}
	reportPercentiles(r, "late_", late)
}

//go:noinline
func touchStack(seed byte) byte {
	var frame [1024]byte
	for i := range frame {
		frame[i] = byte(i) + seed
	}
	return frame[int(seed)*4]
}

// The resident set and the page tables, in bytes.
func processMemory() (resident, pageTables float64) {
	statm, err := os.ReadFile("/proc/self/statm")
	require(err == nil, "/proc/self can be read")
	pages, err := strconv.Atoi(strings.Fields(string(statm))[1])
	require(err == nil, "/proc/self/statm has the resident set")
	status, err := os.ReadFile("/proc/self/status")
	require(err == nil, "/proc/self can be read")
	for _, line := range strings.Split(string(status), "\n") {
		if strings.HasPrefix(line, "VmPTE:") {
			kib, err := strconv.Atoi(strings.Fields(line)[1])
			require(err == nil, "/proc/self/status has the page tables")
			pageTables = float64(kib) * 1024
		}
	}
	return float64(pages * os.Getpagesize()), pageTables
}

var (
	// Of the process before its first round: what later rounds reuse counts as well.
	residentBefore, pageTablesBefore float64
	// So that touchStack() cannot be left out.
	touched int64
)

func runMemory(r *round, full int, suffix string) {
	fibers := r.scaled(full, 1)
	if residentBefore == 0 {
		residentBefore, pageTablesBefore = processMemory()
	}
	var parked int64
	gate := make(chan struct{})
	var finished sync.WaitGroup
	finished.Add(fibers)
	for i := 0; i < fibers; i++ {
		go func() {
			defer finished.Done()
			atomic.AddInt64(&touched, int64(touchStack(1)))
			atomic.AddInt64(&parked, 1)
			<-gate
		}()
	}
	awaitCount(&parked, int64(fibers))
	resident, pageTables := processMemory()
	close(gate)
	finished.Wait()
	resident = (resident - residentBefore) / float64(fibers)
	pageTables = (pageTables - pageTablesBefore) / float64(fibers)
	r.report("bytes_per_fiber"+suffix, resident, "bytes")
	r.report("page_table_bytes_per_fiber"+suffix, pageTables, "bytes")
	r.report("bytes_per_fiber_with_page_tables"+suffix, resident+pageTables, "bytes")
}

func processCPUMilliseconds() float64 {
	const clockProcessCPUTimeID = 2
	var used syscall.Timespec
	_, _, failed := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, clockProcessCPUTimeID, uintptr(unsafe.Pointer(&used)), 0)
	require(failed == 0, "the process's CPU time can be read")
	return float64(used.Nano()) / 1e6
}

func runIdle(r *round) {
	length := time.Duration(r.scaled(3_000, 1)) * time.Millisecond
	time.Sleep(length / 3)
	start := time.Now()
	before := processCPUMilliseconds()
	time.Sleep(length)
	r.report("cpu_ms_per_s", (processCPUMilliseconds()-before)/time.Since(start).Seconds(), "ms/s")
}

func runTrickle(r *round) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	starts := r.scaled(30_000, 1)
	var done int64
	start := time.Now()
	before := processCPUMilliseconds()
	next := start
	for i := 0; i < starts; i++ {
		next = next.Add(100 * time.Microsecond)
		sleepThread(time.Until(next))
		go atomic.AddInt64(&done, 1)
	}
	used := processCPUMilliseconds() - before
	r.report("cpu_ms_per_s", used/time.Since(start).Seconds(), "ms/s")
	awaitCount(&done, int64(starts))
}
