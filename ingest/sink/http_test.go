package sink

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/deadline"
	"github.com/sloengine/sloengine/reliability/dispatch"
	"github.com/sloengine/sloengine/reliability/nettest"
	"github.com/sloengine/sloengine/reliability/remote"
	"github.com/sloengine/sloengine/reliability/retry"
)

func httpItems(n int) []dispatch.Item {
	batch := make([]dispatch.Item, n)
	for i := range batch {
		e := event.Event{ID: fmt.Sprintf("e%d", i), Service: "shop", Type: "order", Time: time.Unix(1795165200, 0)}
		e.Set("product", "A<>\"\n")
		batch[i] = dispatch.Item{ID: e.ID, Payload: event.AppendBinary(nil, &e)}
	}
	return batch
}

// received holds the requests that the server saw.
type received struct {
	header http.Header
	raw    []byte
	events []event.Event
}

func readRequest(t *testing.T, r *http.Request) received {
	t.Helper()
	raw, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	got := received{header: r.Header.Clone(), raw: raw}
	var plain io.Reader = strings.NewReader(string(raw))
	if r.Header.Get("Content-Encoding") == "gzip" {
		plain, err = gzip.NewReader(plain)
		require.NoError(t, err)
	}
	if r.Header.Get("Content-Type") == "application/json" {
		require.NoError(t, json.NewDecoder(plain).Decode(&got.events))
		return got
	}
	lines := bufio.NewScanner(plain)
	for lines.Scan() {
		var e event.Event
		require.NoError(t, json.Unmarshal(lines.Bytes(), &e))
		got.events = append(got.events, e)
	}
	return got
}

func serveHTTP(t *testing.T, h http.HandlerFunc) string {
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL
}

func newHTTP(t *testing.T, o HTTPOptions) *HTTP {
	t.Helper()
	s, err := NewHTTP(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func secretFile(t *testing.T, content string) string {
	name := filepath.Join(t.TempDir(), "secret")
	require.NoError(t, os.WriteFile(name, []byte(content), 0o600))
	return name
}

func TestHTTPRequest(t *testing.T) {
	key := "0123456789abcdef"
	for _, format := range []Format{JSON, NDJSON} {
		for _, packed := range []bool{false, true} {
			t.Run(fmt.Sprint(format, packed), func(t *testing.T) {
				var got received
				url := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) { got = readRequest(t, r) })
				s := newHTTP(t, HTTPOptions{
					URL: url + "/in?x=1", Format: format, Gzip: packed, SecretFile: secretFile(t, key+"\n"),
					Headers:     map[string]string{"X-Tenant": "acme"},
					HeaderFiles: map[string]string{"Authorization": secretFile(t, " Bearer abc\n")},
				})
				until := time.Now().Add(time.Minute)
				ctx, cancel := context.WithDeadline(t.Context(), until)
				defer cancel()
				require.Empty(t, s.Send(ctx, httpItems(3)))
				require.Len(t, got.events, 3)
				require.Equal(t, "e2", got.events[2].ID)
				require.Equal(t, "A<>\"\n", got.events[2].Attr("product"))
				require.Equal(t, "acme", got.header.Get("X-Tenant"))
				require.Equal(t, "Bearer abc", got.header.Get("Authorization"))
				at, err := deadline.Parse(got.header.Get(deadline.Header))
				require.NoError(t, err)
				require.WithinDuration(t, until, at, time.Second)

				sig := got.header.Get(remote.SignatureHeader)
				require.NoError(t, remote.Verify([]byte(key), got.raw, sig, time.Now(), time.Minute))
				require.Error(t, remote.Verify([]byte(key), append(got.raw, ' '), sig, time.Now(), time.Minute))
				require.Error(t, remote.Verify([]byte("another key, too"), got.raw, sig, time.Now(), time.Minute))
				require.Error(t, remote.Verify([]byte(key), got.raw, sig, time.Now().Add(time.Hour), time.Minute))
				require.Error(t, remote.Verify([]byte(key), got.raw, "t=1", time.Now(), time.Minute))
			})
		}
	}
}

func TestHTTPAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		status  int
		header  string // Retry-After
		kind    string
		body    string
		class   retry.Class // of the whole batch, if it failed
		whole   bool
		after   time.Duration
		perItem map[int]retry.Class
	}{
		"200":           {status: 200},
		"204":           {status: 204},
		"202, own form": {status: 202, kind: "application/json", body: `{"received":3,"accepted":3,"errors":[]}`},
		"other form":    {status: 200, kind: "application/json", body: `{"errors":true}`},
		"other errors":  {status: 200, kind: "application/json", body: `{"errors":[{"message":"x"}]}`},
		"not json":      {status: 200, kind: "text/html", body: `{"errors":[{"index":0,"code":"x"}]}`},
		"per item": {status: 202, kind: "application/json",
			body: `{"errors":[{"index":1,"code":"bad_type","detail":"d"},{"index":2,"code":"limited","retryable":true},` +
				`{"index":9,"code":"x"}]}`, perItem: map[int]retry.Class{1: retry.ClassPermanent, 2: retry.ClassOverload}},
		"truncated": {status: 202, kind: "application/json",
			body:    `{"errors":[{"index":1,"code":"x"}],"errors_truncated":true}`,
			perItem: map[int]retry.Class{0: retry.ClassUnknown, 1: retry.ClassPermanent, 2: retry.ClassUnknown}},
		"all rejected": {status: 422, kind: "application/problem+json",
			body:    `{"errors":[{"index":0,"code":"x"},{"index":1,"code":"y","retryable":true}]}`,
			perItem: map[int]retry.Class{0: retry.ClassPermanent, 1: retry.ClassOverload, 2: retry.ClassPermanent}},
		"422": {status: 422, whole: true, class: retry.ClassPermanent},
		"400": {status: 400, whole: true, class: retry.ClassPermanent},
		"401": {status: 401, whole: true, class: retry.ClassBlocked},
		"403": {status: 403, whole: true, class: retry.ClassBlocked},
		"404": {status: 404, whole: true, class: retry.ClassBlocked},
		"405": {status: 405, whole: true, class: retry.ClassBlocked},
		"413": {status: 413,
			perItem: map[int]retry.Class{0: retry.ClassPermanent, 1: retry.ClassPermanent, 2: retry.ClassPermanent}},
		"408":            {status: 408, whole: true, class: retry.ClassTimeout},
		"429":            {status: 429, whole: true, class: retry.ClassOverload, header: "7", after: 7 * time.Second},
		"429, bare":      {status: 429, whole: true, class: retry.ClassOverload},
		"500":            {status: 500, whole: true, class: retry.ClassTransient},
		"503":            {status: 503, whole: true, class: retry.ClassTransient, header: "2", after: 2 * time.Second},
		"503, bad after": {status: 503, whole: true, class: retry.ClassTransient, header: "soon"},
		"redirect":       {status: 302, whole: true, class: retry.ClassBlocked},
	} {
		t.Run(name, func(t *testing.T) {
			url := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
				if c.header != "" {
					w.Header().Set("Retry-After", c.header)
				}
				w.Header().Set("Content-Type", c.kind)
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			})
			r := newHTTP(t, HTTPOptions{URL: url}).Send(t.Context(), httpItems(3))
			if c.whole {
				require.Error(t, r.Err)
				require.Equal(t, c.class, retry.ClassOf(r.Err), r.Err)
				after, ok := retry.AfterOf(r.Err)
				require.Equal(t, c.after > 0, ok)
				require.Equal(t, c.after, after)
				return
			}
			require.NoError(t, r.Err)
			got := map[int]retry.Class{}
			for _, f := range r.Failed {
				got[f.Index] = retry.ClassOf(f.Err)
			}
			if c.perItem == nil {
				c.perItem = map[int]retry.Class{}
			}
			require.Equal(t, c.perItem, got)
		})
	}
}

func TestTooLargeBatchesAreHalved(t *testing.T) {
	var taken atomic.Int64
	url := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
		got := readRequest(t, r)
		switch {
		case len(got.events) > 3, len(got.events) == 1 && got.events[0].ID == "e9":
			w.WriteHeader(http.StatusRequestEntityTooLarge)
		case len(got.events) > 1 && got.events[len(got.events)-1].ID == "e9":
			w.WriteHeader(http.StatusRequestEntityTooLarge)
		default:
			taken.Add(int64(len(got.events)))
		}
	})
	r := newHTTP(t, HTTPOptions{URL: url}).Send(t.Context(), httpItems(10))
	require.NoError(t, r.Err)
	require.Len(t, r.Failed, 1)
	require.Equal(t, 9, r.Failed[0].Index)
	require.Equal(t, retry.ClassPermanent, retry.ClassOf(r.Failed[0].Err))
	require.EqualValues(t, 9, taken.Load())
}

func TestUnreadableItemsDoNotHoldUpTheOthers(t *testing.T) {
	for _, format := range []Format{JSON, NDJSON} {
		var got received
		url := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
			got = readRequest(t, r)
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"errors":[{"index":1,"code":"x"}]}`)
		})
		batch := httpItems(5)
		batch[0].Payload, batch[2].Payload = []byte("?"), nil
		s := newHTTP(t, HTTPOptions{URL: url, Format: format})
		r := s.Send(t.Context(), batch)
		require.NoError(t, r.Err)
		var index []int
		for _, f := range r.Failed {
			index = append(index, f.Index)
			require.Equal(t, retry.ClassPermanent, retry.ClassOf(f.Err))
		}
		require.Equal(t, []int{0, 2, 3}, index, "the second of the three that were sent is e3")
		require.Len(t, got.events, 3)
		require.Len(t, s.Send(t.Context(), []dispatch.Item{{Payload: []byte("?")}}).Failed, 1)
	}
}

func TestHTTPFaults(t *testing.T) {
	for name, c := range map[string]struct {
		url  string
		want retry.Class
	}{
		"hang": {serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body) // only then does the server see that the client left
			<-r.Context().Done()
		}), retry.ClassTimeout},
		"refuse": {"http://" + nettest.FreeAddress(t), retry.ClassTransient},
		"reset":  {resetting(t), retry.ClassTransient},
		"half an answer": {serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "half")
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}), retry.ClassTransient},
		"slow body": {serveHTTP(t, func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			w.WriteHeader(200)
			for range 100 {
				if _, err := io.WriteString(w, "x"); err != nil {
					return
				}
				_ = http.NewResponseController(w).Flush()
				select {
				case <-time.After(20 * time.Millisecond):
				case <-r.Context().Done():
					return
				}
			}
		}), retry.ClassTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			s := newHTTP(t, HTTPOptions{URL: c.url + "/secret-token"})
			timeout := time.Minute
			if c.want == retry.ClassTimeout {
				timeout = 150 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			r := s.Send(ctx, httpItems(2))
			require.Error(t, r.Err)
			require.Equal(t, c.want, retry.ClassOf(r.Err), r.Err)
			require.NotContains(t, r.Err.Error(), "secret-token")
		})
	}
}

// resetting is a server that resets every connection after the request.
func resetting(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 1))
			_ = c.(*net.TCPConn).SetLinger(0)
			_ = c.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return "http://" + l.Addr().String()
}

func TestHTTPCheck(t *testing.T) {
	status := http.StatusOK
	url := serveHTTP(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(status) })
	weak, strong := newHTTP(t, HTTPOptions{URL: url}), newHTTP(t, HTTPOptions{URL: url, HealthURL: url + "/healthy"})
	require.False(t, weak.HealthCloses())
	require.True(t, strong.HealthCloses())
	require.NoError(t, weak.Check(t.Context()))
	require.NoError(t, strong.Check(t.Context()))
	status = http.StatusServiceUnavailable
	require.NoError(t, weak.Check(t.Context()))
	require.ErrorContains(t, strong.Check(t.Context()), "503")
	require.Error(t, newHTTP(t, HTTPOptions{URL: "http://" + nettest.FreeAddress(t)}).Check(t.Context()))
}

func TestHTTPOptions(t *testing.T) {
	good := "http://example.com/in"
	for want, o := range map[string]HTTPOptions{
		"must begin with": {URL: "ftp://example.com"},
		"and have a host": {URL: "http:///x"},
		"must not contain credentials, set header_files": {URL: "http://a:b@example.com"},
		"fragment":            {URL: good + "#x"},
		"health url":          {URL: good, HealthURL: "x"},
		"want POST":           {URL: good, Method: "GET"},
		"want json":           {URL: good, Format: "xml"},
		"(1 to 1000)":         {URL: good, MaxConns: -1},
		"set by the sink":     {URL: good, Headers: map[string]string{"content-type": "x"}},
		"invalid header name": {URL: good, Headers: map[string]string{"a b": "x"}},
		"characters":          {URL: good, Headers: map[string]string{"X-A": "x\ny"}},
		"duplicate header": {URL: good, Headers: map[string]string{"X-A": "x"},
			HeaderFiles: map[string]string{"x-a": "f"}},
		"no file given":            {URL: good, HeaderFiles: map[string]string{"x-a": ""}},
		"no such file":             {URL: good, SecretFile: "/nonexistent/secret"},
		"too short":                {URL: good, SecretFile: secretFile(t, "short")},
		"not a valid header value": {URL: good, HeaderFiles: map[string]string{"X-A": secretFile(t, "a\nb")}},
	} {
		_, err := NewHTTP(o)
		require.ErrorContains(t, err, want)
	}
	_, err := NewHTTP(HTTPOptions{URL: "http://example.com/%zz?token=secret"})
	require.Error(t, err)
	require.NotContains(t, err.Error(), "secret")
}

func BenchmarkHTTP(b *testing.B) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
	}))
	defer srv.Close()
	for _, o := range []HTTPOptions{{Format: NDJSON}, {Format: NDJSON, Gzip: true}} {
		b.Run(fmt.Sprintf("gzip=%v", o.Gzip), func(b *testing.B) {
			o.URL = srv.URL
			s, err := NewHTTP(o)
			require.NoError(b, err)
			defer s.Close()
			batch := httpItems(500)
			b.ReportAllocs()
			for b.Loop() {
				if r := s.Send(b.Context(), batch); r.Err != nil {
					b.Fatal(r.Err)
				}
			}
			b.ReportMetric(float64(b.N)*500/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// A redirect is named, without the parts of its address that may hold secrets, and the text of a
// receiver stays out of the short form.
func TestARedirectIsNamed(t *testing.T) {
	var codes []int
	url := serveHTTP(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "https://login.example.org/sso?token=hush")
		w.WriteHeader(http.StatusFound)
	})
	r := newHTTP(t, HTTPOptions{URL: url, Answered: func(code int) {
		codes = append(codes, code)
	}}).Send(t.Context(), httpItems(2))
	require.EqualError(t, r.Err,
		"the receiver returned 302 Found: redirects are not followed (set url to the redirect target, on "+
			"https://login.example.org)")
	var brief interface{ Brief() string }
	require.ErrorAs(t, r.Err, &brief)
	require.Equal(t, "302 Found", brief.Brief())
	require.Equal(t, []int{302}, codes)
}
