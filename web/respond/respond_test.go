package respond

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/testkit"
)

// reader is one that asks and reads no more than it is told to. Its buffers are small.
type reader struct {
	net.Conn
	r *bufio.Reader
}

func newReader(t testing.TB, addr, target string) *reader {
	c, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.(*net.TCPConn).SetReadBuffer(4<<10))
	_, err = fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", target)
	require.NoError(t, err)
	return &reader{c, bufio.NewReaderSize(c, 16)}
}

// smallBuffers makes the system hold little of what is written.
type smallBuffers struct{ net.Listener }

func (l smallBuffers) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		err = c.(*net.TCPConn).SetWriteBuffer(4 << 10)
	}
	return c, err
}

// served is a server whose only route answers with so many bytes as the query says.
func served(t testing.TB, limit int64, wait time.Duration) (r *Cache, addr string, made func() int) {
	r = NewCache(limit, time.Now, metrics.NewSet())
	r.wait = wait
	router := gin.New()
	calls := make(chan struct{}, 10_000)
	router.GET("/bytes", r.Bounded(false, ""), func(c *gin.Context) {
		calls <- struct{}{}
		if tag := c.Query("tag"); tag != "" && NotModified(c, `"`+tag+`"`) {
			return
		}
		n, _ := strconv.Atoi(c.Query("n"))
		c.Data(http.StatusOK, "text/plain", make([]byte, n))
	})
	s := httptest.NewUnstartedServer(router)
	s.Listener = smallBuffers{s.Listener}
	s.Start()
	t.Cleanup(s.CloseClientConnections)
	t.Cleanup(s.Close)
	return r, s.Listener.Addr().String(), func() int { return len(calls) }
}

func (r *Cache) inUse() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.used
}

// Readers who take nothing cost no more than the budget; the next one is told to come
// back, and finds room when they are cut off.
func TestReadersWhoTakeNothing(t *testing.T) {
	r, addr, _ := served(t, 8<<20, time.Second)
	for i := range 20 {
		newReader(t, addr, fmt.Sprintf("/bytes?n=%d&i=%d", 3<<20, i))
	}
	testkit.Eventually(t, "refusals", func() bool { return r.metrics.refused.Get() >= 18 })
	require.LessOrEqual(t, r.inUse(), int64(8<<20))
	res, err := http.Get("http://" + addr + fmt.Sprintf("/bytes?n=%d", 4<<20))
	require.NoError(t, err)
	res.Body.Close()
	require.Equal(t, http.StatusServiceUnavailable, res.StatusCode)
	require.NotEmpty(t, res.Header.Get("Retry-After"))
	testkit.Eventually(t, "they are cut off", func() bool { return r.metrics.cut.Get() == 2 })
	testkit.Eventually(t, "nothing is left", func() bool { return r.inUse() == 0 })
	res, err = http.Get("http://" + addr + fmt.Sprintf("/bytes?n=%d", 4<<20))
	require.NoError(t, err)
	body, err := io.ReadAll(res.Body)
	res.Body.Close()
	require.NoError(t, err)
	require.Len(t, body, 4<<20)
}

// A slow reader gets everything, though it takes many times as long as a pause may last;
// and the connection serves the next request after a pause.
func TestSlowReadersAreServed(t *testing.T) {
	r, addr, _ := served(t, 8<<20, 400*time.Millisecond)
	slow := newReader(t, addr, fmt.Sprintf("/bytes?n=%d", 1<<20))
	require.NoError(t, slow.Conn.(*net.TCPConn).SetReadBuffer(64<<10))
	began := time.Now()
	res, err := http.ReadResponse(slow.r, nil)
	require.NoError(t, err)
	got := 0
	for buf := make([]byte, 64<<10); ; {
		n, err := io.ReadFull(res.Body, buf)
		if got += n; err != nil {
			break
		}
		testkit.Pause(100 * time.Millisecond)
	}
	require.Equal(t, 1<<20, got)
	require.Greater(t, time.Since(began), 1500*time.Millisecond)
	require.Zero(t, r.metrics.cut.Get())
	testkit.Pause(500 * time.Millisecond)
	_, err = fmt.Fprint(slow, "GET /bytes?n=10 HTTP/1.1\r\nHost: a\r\n\r\n")
	require.NoError(t, err)
	res, err = http.ReadResponse(slow.r, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, res.StatusCode)
}

// All who ask the same of the same state share one response, and who asks with other
// credentials does not.
func TestReadersShareAResponse(t *testing.T) {
	r, addr, _ := served(t, 64<<20, time.Minute)
	size := 3 << 20
	for range 30 {
		newReader(t, addr, fmt.Sprintf("/bytes?n=%d&tag=a", size))
	}
	testkit.Eventually(t, "all are answered", func() bool { return r.metrics.made.Get()+r.metrics.shared.Get() == 30 })
	require.LessOrEqual(t, r.metrics.made.Get(), uint64(maxRenders), "those that began together")
	require.LessOrEqual(t, r.inUse(), int64(maxRenders*size))

	key := func(headers ...string) string {
		req := httptest.NewRequest(http.MethodGet, "/?a=b", nil)
		for i := 0; i < len(headers); i += 2 {
			req.Header.Set(headers[i], headers[i+1])
		}
		return requestKey(req)
	}
	require.Equal(t, key(), key("User-Agent", "x", "If-None-Match", `"y"`, "Sec-Fetch-Site", "none"))
	for _, h := range []string{"Authorization", "Cookie", "Accept", "Accept-Encoding", "X-Unknown"} {
		require.NotEqual(t, key(), key(h, "x"), h)
		require.NotEqual(t, key(h, "y"), key(h, "x"), h)
	}
	require.NotEqual(t, key("A", "b", "C", "d"), key("A", "b\x00C\x01d"))
}

// While few bytes are in flight everybody gets the present figures; when they are many, a
// response may be a little old.
func TestResponsesAreSharedWhenItIsCrowded(t *testing.T) {
	now := time.Now()
	r := NewCache(16<<20, func() time.Time { return now }, metrics.NewSet())
	p := &response{body: make([]byte, 1<<20), made: now, refs: 1}
	require.True(t, r.reserve(1<<20, 0))
	r.keep(p, "k")
	require.Nil(t, r.findRecent("k"))
	require.True(t, r.reserve(8<<20, 0))
	require.Equal(t, p, r.findRecent("k"))
	now = now.Add(crowdedAge + 1)
	require.Nil(t, r.findRecent("k"))
	require.Equal(t, p, r.find("k"))

	// What is kept gives way, but not to those who read it.
	require.False(t, r.reserve(8<<20, 0))
	require.Nil(t, r.find("k"))
	for range 3 {
		r.release(p)
	}
	require.EqualValues(t, 8<<20, r.inUse())
	require.True(t, r.reserve(8<<20, 0))
	require.False(t, r.reserve(1, 0))
	r.give(16 << 20)
	require.True(t, r.reserve(100<<20, 0), "alone it may be larger than all")
	require.True(t, r.reserve(100<<20, 100<<20), "and go on")
	require.False(t, r.reserve(1, 0))
}

func TestKeptResponsesAreBounded(t *testing.T) {
	now := time.Now()
	r := NewCache(16<<20, func() time.Time { return now }, metrics.NewSet())
	put := func(key string, size int) {
		require.True(t, r.reserve(int64(size), 0))
		p := &response{body: make([]byte, size), made: now, refs: 1}
		r.keep(p, key)
		r.release(p)
	}
	for i := range 20 {
		put(strconv.Itoa(i), 1<<20)
		require.LessOrEqual(t, r.inUse(), int64(4<<20))
	}
	require.Nil(t, r.find("15"))
	require.NotNil(t, r.find("16"))
	put("large", 5<<20)
	require.Nil(t, r.find("large"))
	for i := range 2 * keptMost {
		put("small"+strconv.Itoa(i), 1)
	}
	require.LessOrEqual(t, len(r.kept), keptMost)
	require.Len(t, r.keys, len(r.kept))
	now = now.Add(keptAge + 1)
	put("last", 1)
	require.Len(t, r.kept, 1)
}

// A handler that panics releases what it held, and its place. A request beyond the budget is refused.
func TestNothingIsHeldAfterAPanic(t *testing.T) {
	r := NewCache(1<<20, time.Now, metrics.NewSet())
	router := gin.New()
	router.GET("/panic", r.Bounded(false, ""), func(*gin.Context) { panic("a bug") })
	router.GET("/metrics", r.Bounded(true, ""), func(c *gin.Context) { c.String(http.StatusOK, "text") })
	get := func(target string) *httptest.ResponseRecorder {
		rec := httptest.NewRecorder()
		router.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, target, nil))
		return rec
	}
	for range 2 * maxRenders {
		require.Panics(t, func() { get("/panic") })
	}
	require.Empty(t, r.renders)
	require.Zero(t, r.inUse())

	require.True(t, r.reserve(1<<20, 0))
	rec := get("/metrics")
	require.Equal(t, http.StatusServiceUnavailable, rec.Code)
	require.Equal(t, "application/problem+json", rec.Header().Get("Content-Type"))
	r.give(1 << 20)
	require.Equal(t, http.StatusOK, get("/metrics").Code)
}

// Handlers that build more than the budget do so one after the other. What is small goes on beside them.
func TestBuildingCountsAsWell(t *testing.T) {
	r := NewCache(MinBytes, time.Now, metrics.NewSet())
	var active, most atomic.Int32
	building, open := make(chan struct{}, 8), make(chan struct{})
	router := gin.New()
	router.GET("/large", r.Bounded(false, ""), func(c *gin.Context) {
		if !Building(c, 2*MinBytes) {
			return
		}
		most.Store(max(most.Load(), active.Add(1)))
		defer active.Add(-1)
		building <- struct{}{}
		<-open
		c.String(http.StatusOK, "large")
	})
	router.GET("/refused", r.Bounded(false, ""), func(c *gin.Context) {
		ctx, cancel := context.WithCancel(c.Request.Context())
		cancel()
		c.Request = c.Request.WithContext(ctx) // it does not wait
		require.False(t, Building(c, 1))
	})
	get := func(target string) int {
		rec := httptest.NewRecorder()
		router.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, target, nil))
		return rec.Code
	}
	codes := make(chan int, 3)
	for i := range 3 {
		go func() { codes <- get("/large?n=" + strconv.Itoa(i)) }()
	}
	<-building
	require.Equal(t, http.StatusServiceUnavailable, get("/refused"))
	close(open)
	for range 3 {
		require.Equal(t, http.StatusOK, <-codes)
	}
	require.EqualValues(t, 1, most.Load())
	require.LessOrEqual(t, r.inUse(), int64(len("large")*3), "what was built is released")
}
