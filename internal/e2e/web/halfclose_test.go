package web

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
)

// halfClosed sends raw bytes on a connection of its own, closes its writing half and returns
// the status of the answer. An answer without a body is an error.
func halfClosed(addr, raw string) (status int, err error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return 0, err
	}
	if _, err := io.WriteString(conn, raw); err != nil {
		return 0, err
	}
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		return 0, err
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return 0, fmt.Errorf("no answer: %w", err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err == nil && len(body) == 0 {
		err = errors.New("no body")
	}
	return res.StatusCode, err
}

// TestSuccessMeansStored: a client that closes its writing half after a whole request has sent
// a legal request, and one that does so within the body has not. Whoever gets a 2xx has his
// event stored, and nobody else's is.
func TestSuccessMeansStored(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := e2etest.Serve(t, dir, e2etest.WriteFile(t, dir, "spec.yaml", e2etest.CrashSpec), e2etest.CrashSettings)
	addr := strings.TrimPrefix(p.Base, "http://")

	const head = "POST /api/v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
	kinds := []struct {
		name  string
		whole bool
		raw   func(body string) string
	}{
		{"whole", true, func(b string) string { return fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", head, len(b), b) }},
		{"whole, chunked", true, func(b string) string {
			return fmt.Sprintf("%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", head, len(b), b)
		}},
		{"truncated", false, func(b string) string {
			return fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", head, len(b)+1, b)
		}},
		{"truncated, chunked", false, func(b string) string {
			return fmt.Sprintf("%sTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", head, len(b), b)
		}},
		{"headers only", false, func(string) string { return head + "Content-Length: 10\r\n\r\n" }},
	}
	const each = 400
	type outcome struct {
		kind, status int
		err          string
	}
	counts := map[outcome]int{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	work := make(chan int)
	for range 32 {
		wg.Go(func() {
			for i := range work {
				kind := i % len(kinds)
				body := fmt.Sprintf(`{"id":"h%05d","service":"crash","type":"t","attributes":{"uid":"u"}}`, i)
				status, err := halfClosed(addr, kinds[kind].raw(body))
				mu.Lock()
				counts[outcome{kind, status, fmt.Sprint(err)}]++
				mu.Unlock()
			}
		})
	}
	for i := range each * len(kinds) {
		work <- i
	}
	close(work)
	wg.Wait()

	successes := 0
	for o, n := range counts {
		if o.status/100 == 2 {
			successes += n
		}
		want := outcome{o.kind, http.StatusBadRequest, "<nil>"}
		if kinds[o.kind].whole {
			want.status = http.StatusAccepted
		}
		if o != want {
			t.Errorf("%s: %d of %d answered %d, error %s", kinds[o.kind].name, n, each, o.status, o.err)
		}
	}
	require.Equal(t, successes, seriesValue(t, p.Base, "sloengine_ingest_stored_events_total"))
	require.Equal(t, 2*each, successes)
}

// Readers may close their half, too.
func TestHalfClosedReadersAreAnswered(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := e2etest.Serve(t, dir, e2etest.WriteFile(t, dir, "spec.yaml", apiSpec), "evaluator: {interval: 100ms}\n")
	require.Eventually(t, func() bool {
		return strings.Contains(string(e2etest.Get(t, p.Base+"/api/v1/slos")), "shop/latency")
	}, testkit.Patience, 20*time.Millisecond)
	addr := strings.TrimPrefix(p.Base, "http://")
	for _, path := range []string{
		"/", "/slas", "/slo?id=shop/latency", "/engine", "/public", "/report", "/metrics", "/metrics?name[]=slo_info",
		"/-/ready", "/-/healthy", "/openapi.json",
		"/api/v1/slos", "/api/v1/slos/shop/latency", "/api/v1/slos/shop/latency/history?step=1h", "/api/v1/slas",
		"/api/v1/alerts", "/api/v1/engine",
		"/api/v1/thresholds", "/api/v1/dlq", "/api/v1/dlq/stats", "/api/v1/generations",
	} {
		for range 20 {
			status, err := halfClosed(addr, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\n\r\n")
			require.NoError(t, err, path)
			require.Equal(t, http.StatusOK, status, path)
		}
	}
	require.NotContains(t, p.Log.String(), "level=ERROR")
}

// seriesValue reads one series without labels, or with them as they are written.
func seriesValue(t testing.TB, base, series string) int {
	t.Helper()
	for line := range strings.SplitSeq(string(e2etest.Get(t, base+"/metrics")), "\n") {
		if rest, ok := strings.CutPrefix(line, series+" "); ok {
			v, err := strconv.ParseFloat(rest, 64)
			require.NoError(t, err)
			return int(v)
		}
	}
	t.Fatalf("no series %s", series)
	return 0
}
