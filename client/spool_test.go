package client

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/fsys"
)

func down(w http.ResponseWriter, _ *http.Request, _ [][]byte) bool {
	w.WriteHeader(503)
	return true
}

func padded(id string, n int) Event {
	e := ev(id)
	for ; n > 0; n -= 1000 {
		e.Set(fmt.Sprint("x", n), strings.Repeat("y", min(n, 1000)))
	}
	return e
}

// Full means that new events are refused and counted; those that are safe stay so.
func TestSpoolFull(t *testing.T) {
	e := newEngine(t)
	e.set(down)
	url, dir := e.serve(), t.TempDir()
	c := start(t, url, func(o *Options) {
		o.Spool = SpoolOptions{Dir: dir, MaxBytes: minSpoolBytes}
		o.Retry.MaxRetries = -2
	})
	n := 0
	for ; c.lost(FromSend, SpoolFull) == 0; n++ {
		require.Less(t, n, 200)
		require.NoError(t, c.Send(t.Context(), padded(fmt.Sprint(n), 10_000)))
	}
	safe := n - 1
	require.Greater(t, safe, 80, "most of the megabyte can be used")
	require.Equal(t, fmt.Sprint(safe), c.failures()[0].ID)
	require.LessOrEqual(t, diskUse(t, dir), int64(minSpoolBytes+150), "besides the segments: cursor, format and lock")
	require.Greater(t, float64(c.m.spoolBytes.Load())/float64(c.m.spoolLimit.Load()), 0.8)

	require.NoError(t, c.Close(t.Context()))
	e.set(nil)
	again := start(t, url, func(o *Options) { o.Spool = SpoolOptions{Dir: dir, MaxBytes: minSpoolBytes} })
	testkit.Eventually(t, "all that was safe arrives", func() bool { return e.count() == safe })
	testkit.Eventually(t, "the spool is empty", func() bool { return again.spoolBytes() == 0 })
	require.False(t, e.has(fmt.Sprint(safe)))
	for i := range safe { // oldest first
		require.Equal(t, fmt.Sprint(i), e.events[i].ID)
	}
	testkit.Eventually(t, "what was sent is deleted", func() bool { return diskUse(t, dir) < 200<<10 })
	require.NoError(t, again.Close(t.Context()))
}

func diskUse(t *testing.T, dir string) (n int64) {
	require.NoError(t, filepath.Walk(dir, func(_ string, st os.FileInfo, err error) error {
		if err == nil && !st.IsDir() {
			n += st.Size()
		}
		if os.IsNotExist(err) { // deleted meanwhile
			return nil
		}
		return err
	}))
	return n
}

// What a hung server doesn't take goes to the disk before the memory is full.
func TestBurst(t *testing.T) {
	e := newEngine(t)
	hold := make(chan struct{})
	e.set(func(http.ResponseWriter, *http.Request, [][]byte) bool { <-hold; return false })
	c := start(t, e.serve(), func(o *Options) {
		o.Spool.Dir, o.Spool.EventsPerSecond = t.TempDir(), 100_000
		o.QueueEvents, o.BatchEvents = 2000, 100
		o.RequestTimeout = time.Minute
	})
	for i := range 6000 {
		testkit.Eventually(t, "the disk makes room", func() bool { return c.Status().QueueEvents < 1900 })
		require.True(t, c.SendAsync(ev(fmt.Sprint(i))))
	}
	require.Greater(t, int(c.m.spooled.Get()), 4000)
	close(hold)
	require.NoError(t, c.Flush(t.Context()))
	testkit.Eventually(t, "all arrive", func() bool { return e.count() == 6000 })
	require.Empty(t, c.failures())
}

func TestQueueFull(t *testing.T) {
	e := newEngine(t)
	hold := make(chan struct{})
	e.set(func(http.ResponseWriter, *http.Request, [][]byte) bool { <-hold; return false })
	c := start(t, e.serve(), func(o *Options) { o.QueueEvents = 100; o.BatchEvents = 10 })
	for i := range 150 {
		began := time.Now()
		require.Equal(t, i < 100, c.SendAsync(ev(fmt.Sprint(i))))
		require.Less(t, time.Since(began), time.Second) // it does not wait for the engine, which never answers
	}
	require.Equal(t, 50, c.lost(FromAsync, QueueFull))
	close(hold)
	require.NoError(t, c.Flush(t.Context()))
	require.Equal(t, 100, e.count())
	require.Zero(t, c.m.queueBytes.Load())
}

func TestCloseSpoolsTheRest(t *testing.T) {
	e := newEngine(t)
	e.set(faults[3].fault) // hangs
	url, dir := e.serve(), t.TempDir()
	c := start(t, url, func(o *Options) { o.Spool.Dir = dir; o.BatchWait = time.Hour; o.BatchEvents = 10 })
	for i := range 95 {
		c.SendAsync(ev(fmt.Sprint(i)))
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	require.NoError(t, c.Close(ctx))
	require.Less(t, time.Since(began), 400*time.Millisecond)
	require.NoError(t, c.Close(ctx), "twice does no harm")
	require.False(t, c.SendAsync(ev("late")))
	require.NoError(t, c.Send(t.Context(), ev("late")))
	require.ErrorIs(t, c.SendStrict(t.Context(), ev("late")), ErrClosed)
	require.Equal(t, 1, c.lost(FromAsync, Stopped))
	require.Equal(t, 1, c.lost(FromSend, Stopped))

	e.set(nil)
	start(t, url, func(o *Options) { o.Spool.Dir = dir })
	testkit.Eventually(t, "the next client sends them", func() bool { return e.count() == 95 })
}

// A second process on the same folder starts all the same, and gets the spool when the
// first has gone.
func TestSpoolIsTaken(t *testing.T) {
	e := newEngine(t)
	url, dir := e.serve(), t.TempDir()
	first := start(t, url, func(o *Options) { o.Spool.Dir = dir })
	second := start(t, url, func(o *Options) { o.Spool.Dir = dir })
	require.ErrorIs(t, second.Status().SpoolError, fsys.ErrLocked)
	require.NoError(t, second.Send(t.Context(), ev("a")))
	e.set(down)
	require.NoError(t, second.Send(t.Context(), ev("b")))
	require.Equal(t, 1, second.lost(FromSend, SpoolFailed))
	require.NoError(t, first.Close(t.Context()))
	second.spool.reopen()
	require.NoError(t, second.Status().SpoolError)
	require.NoError(t, second.Send(t.Context(), ev("c")))
	require.Len(t, second.failures(), 1)
}

// brokenFS fails or delays the syncs of files when told to.
type brokenFS struct {
	fsys.FS
	fail  atomic.Bool
	delay atomic.Int64
}

type brokenFile struct {
	fsys.File
	fs *brokenFS
}

func (b *brokenFS) wrap(f fsys.File, err error) (fsys.File, error) {
	if err != nil {
		return nil, err
	}
	return &brokenFile{f, b}, nil
}
func (b *brokenFS) Create(name string) (fsys.File, error) { return b.wrap(b.FS.Create(name)) }
func (b *brokenFS) OpenReadWrite(name string) (fsys.File, error) {
	return b.wrap(b.FS.OpenReadWrite(name))
}
func (f *brokenFile) Sync() error {
	if f.fs.fail.Load() {
		return errors.New("input/output error")
	}
	testkit.Pause(time.Duration(f.fs.delay.Load()))
	return f.File.Sync()
}

func TestBrokenDisk(t *testing.T) {
	e := newEngine(t)
	e.set(down)
	disk := &brokenFS{FS: fsys.OS()}
	c := start(t, e.serve(), func(o *Options) {
		o.Spool.Dir, o.Spool.fs = t.TempDir(), disk
		o.Retry.MaxRetries = -2
	})
	require.NoError(t, c.Send(t.Context(), ev("a")))
	require.Empty(t, c.failures())

	disk.fail.Store(true)
	require.NoError(t, c.Send(t.Context(), ev("b")))
	require.NoError(t, c.Send(t.Context(), ev("c")))
	require.Equal(t, 2, c.lost(FromSend, SpoolFailed))
	require.ErrorContains(t, c.Status().SpoolError, "input/output")

	disk.fail.Store(false)
	c.spool.reopen()
	require.NoError(t, c.Send(t.Context(), ev("d")))

	disk.delay.Store(int64(300 * time.Millisecond))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	began := time.Now()
	require.NoError(t, c.Send(ctx, ev("slow")))
	require.Less(t, time.Since(began), 250*time.Millisecond)
	require.Equal(t, 1, c.lost(FromSend, SpoolTimeout))
	disk.delay.Store(0)

	e.set(nil)
	testkit.Eventually(t, "what was safe arrives", func() bool { return e.has("a") && e.has("d") && c.spoolBytes() == 0 })
	testkit.Eventually(t, "late, but not lost", func() bool { return e.has("slow") })
	require.Len(t, c.failures(), 3)
}

// A damaged log is moved aside; what lies before the damage is sent.
func TestDamagedSpool(t *testing.T) {
	e := newEngine(t)
	e.set(down)
	url, dir := e.serve(), t.TempDir()
	c := start(t, url, func(o *Options) { o.Spool.Dir = dir; o.Retry.MaxRetries = -2 })
	for i := range 10 {
		require.NoError(t, c.Send(t.Context(), padded(fmt.Sprint(i), 1000)))
	}
	require.NoError(t, c.Close(t.Context()))
	segments, err := filepath.Glob(filepath.Join(dir, "log", "*.wal"))
	require.NoError(t, err)
	require.Len(t, segments, 1)
	f, err := os.OpenFile(segments[0], os.O_RDWR, 0)
	require.NoError(t, err)
	_, err = f.WriteAt([]byte("damage"), 5000)
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.NoError(t, os.WriteFile(filepath.Join(dir, cursorFile), []byte("not a number"), 0o600))

	e.set(nil)
	again := start(t, url, func(o *Options) { o.Spool.Dir = dir })
	require.EqualValues(t, 1, again.m.spoolLoss.Get())
	testkit.Eventually(t, "what can be read arrives", func() bool { return e.has("3") && again.spoolBytes() == 0 })
	require.NoError(t, again.Send(t.Context(), ev("new")))
}

// Events that the server keeps throttling do not delay the others.
func TestThrottledEventsGoToTheEnd(t *testing.T) {
	e := newEngine(t)
	e.set(down)
	var open atomic.Bool
	e.item = func(v *event.Event) *event.ItemError {
		if v.ID == "limited" && !open.Load() {
			return &event.ItemError{Code: "limited", Detail: "over quota", Retryable: true}
		}
		return nil
	}
	c := start(t, e.serve(), func(o *Options) {
		o.Spool.Dir = t.TempDir()
		o.Retry.MaxRetries = 1
		o.BatchEvents = 2
		o.Breaker.Consecutive.Open = 10 * time.Millisecond
		o.Breaker.Rate.Off = true
	})
	require.NoError(t, c.Send(t.Context(), ev("limited"), ev("a")))
	require.NoError(t, c.Send(t.Context(), ev("b"), ev("c")))
	e.set(nil)
	testkit.Eventually(t, "the others arrive", func() bool { return e.has("a") && e.has("c") })
	require.False(t, e.has("limited"))
	open.Store(true)
	testkit.Eventually(t, "it arrives in the end", func() bool { return e.has("limited") && c.spoolBytes() == 0 })
}

// The application is killed over and over while the server comes and goes. Whatever
// Send returned nil for must arrive, once it is up again.
func TestKill(t *testing.T) {
	e := newEngine(t)
	url, dir := e.serve(), t.TempDir()
	stop := make(chan struct{})
	flapped := make(chan struct{})
	go func() {
		defer close(flapped)
		takesAndDies := func(w http.ResponseWriter, r *http.Request, lines [][]byte) bool {
			e.take(httptest.NewRecorder(), r, lines)
			return faults[7].fault(w, r, lines)
		}
		modes := []fault{nil, down, takesAndDies, faults[7].fault, nil, faults[3].fault}
		for i := 0; ; i++ {
			e.set(modes[i%len(modes)])
			select {
			case <-time.After(40 * time.Millisecond):
			case <-stop:
				return
			}
		}
	}()
	var safe []string
	for round := range 6 {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), "CLIENT_TEST_CHILD="+dir, "CLIENT_TEST_URL="+url,
			fmt.Sprint("CLIENT_TEST_ROUND=", round))
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		time.AfterFunc(time.Duration(300+70*round)*time.Millisecond, func() { _ = cmd.Process.Kill() })
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			safe = append(safe, lines.Text())
		}
		require.ErrorContains(t, cmd.Wait(), "killed")
	}
	close(stop)
	<-flapped
	e.set(nil)
	require.Greater(t, len(safe), 10) // hundreds, and 18 under the race detector on a busy machine
	last := start(t, url, func(o *Options) { o.Spool.Dir = dir })
	testkit.Eventually(t, "the spool is empty", func() bool { return last.spoolBytes() == 0 })
	twice := 0
	for _, id := range safe {
		require.True(t, e.has(id), "%s is missing", id)
	}
	for _, n := range e.seen {
		if n > 1 {
			twice++
		}
	}
	t.Logf("%d events were safe, %d arrived, %d of them more than once, 0 missing", len(safe), e.count(), twice)
}

// child is the application that is killed. It names the events that are safe.
func child(dir string) {
	o := Options{URL: os.Getenv("CLIENT_TEST_URL"), Service: "shop", Timeout: 150 * time.Millisecond}
	o.Spool = SpoolOptions{Dir: dir, EventsPerSecond: 300}
	o.Breaker.Consecutive.Open = 30 * time.Millisecond
	o.Breaker.Rate.Off = true
	var unsafe sync.Map
	o.OnError = func(f Failure) {
		if f.Reason == SpoolTimeout { // a busy disk
			unsafe.Store(f.ID, true)
			return
		}
		fmt.Fprintln(os.Stderr, "lost:", f.ID, f.Reason, f.Err)
		os.Exit(3)
	}
	c, err := New(o)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	for w := range 4 {
		go func() {
			for i := 0; ; i++ {
				id := fmt.Sprintf("r%s-w%d-%d", os.Getenv("CLIENT_TEST_ROUND"), w, i)
				if err := c.Send(context.Background(), ev(id)); err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(4)
				}
				if _, ok := unsafe.Load(id); !ok {
					fmt.Println(id)
				}
				testkit.Pause(time.Millisecond)
			}
		}()
	}
	select {}
}
