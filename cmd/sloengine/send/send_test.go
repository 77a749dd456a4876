package send

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/client/post"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/ingest/mapping"
	"github.com/sloengine/sloengine/internal/testkit"
)

func TestSendingTwiceCountsOnce(t *testing.T) {
	s := newServer(t)
	path := write(t, "events.ndjson", eventLines(105)...)
	o := s.options(path)
	o.BatchWait = time.Hour
	first := run(t, o)
	require.NoError(t, first.err)
	require.Equal(t, 105, first.Read)
	require.Equal(t, 105, first.Sent)
	require.Equal(t, 105, first.Accepted)
	require.Equal(t, 11, first.Requests)
	second := run(t, s.options(path))
	require.NoError(t, second.err)
	require.Equal(t, 105, second.Duplicates)
	require.Zero(t, second.Accepted)
	require.Equal(t, 105, s.total())
	require.Equal(t, "gzip", s.headers.Get("Content-Encoding"))
	require.Empty(t, s.query)
}

func TestOwnIDsAreKept(t *testing.T) {
	s := newServer(t)
	require.NoError(
		t, run(t, s.options(write(t, "e", `{"id":"mine","time":"2026-11-20T09:00:00Z","service":"s","type":"t"}`))).err)
	require.Contains(t, s.ids(), "mine")
}

func TestFormats(t *testing.T) {
	combined := `192.0.2.7 - - [20/Nov/2026:09:00:00 +0000] "GET /a?b HTTP/1.1" 503 12 "-" "curl"`
	common := `192.0.2.7 - - [20/Nov/2026:09:00:00 +0000] "GET /a?b HTTP/1.1" 503 12`
	nginx :=
		`{"time_iso8601":"2026-11-20T09:00:00+00:00","request":"GET /a?b HTTP/1.1","status":503,"body_bytes_sent":12,` +
			`"request_time":0.25}`
	object :=
		`{"time":"2026-11-20T09:00:00Z","service":"shop","type":"request","outcome":"failure","attributes":{"status":503,` +
			`"method":"GET"}}`
	tests := []struct{ name, text string }{
		{"combined", combined},
		{"common", common},
		{"nginx-json", nginx},
		{"ndjson", object},
		{"json", "[" + object + "]"},
		{"json", "{\n" + object[1:]},
	}
	for _, tt := range tests {
		for _, format := range []string{tt.name, "auto"} {
			t.Run(format+" "+tt.name, func(t *testing.T) {
				s := newServer(t)
				o := s.options(write(t, "input", tt.text))
				o.Format, o.Service = format, "shop"
				res := run(t, o)
				require.NoError(t, res.err, res.stdout)
				require.Equal(t, 1, s.total())
				for _, e := range s.ids() {
					require.Equal(t, "shop", e.Service)
					require.Equal(t, "request", e.Type)
					require.Equal(t, event.Failure, e.Outcome)
					require.Equal(t, "503", e.Attr("status"))
					require.Equal(t, testNow.Add(-30*time.Minute), e.Time.UTC())
				}
			})
		}
	}
}

func TestDefaultsForEventsThatNameNone(t *testing.T) {
	s := newServer(t)
	o := s.options(write(t, "e", `{"id":"a","time":"2026-11-20T09:00:00Z"}`,
		`{"id":"b","time":"2026-11-20T09:00:00Z","service":"own"}`, `{}`))
	o.Service, o.Type = "shop", "order"
	require.NoError(t, run(t, o).err)
	ids := s.ids()
	require.Equal(t, "shop", ids["a"].Service)
	require.Equal(t, "own", ids["b"].Service)
	require.Equal(t, "order", ids["b"].Type)
	require.Len(t, ids, 3)
}

func TestCompressedInputAndStdin(t *testing.T) {
	s := newServer(t)
	text := []byte(strings.Join(accessLines(40), "\n"))
	var gz bytes.Buffer
	w := gzip.NewWriter(&gz)
	_, err := w.Write(text)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	enc, err := zstd.NewWriter(nil)
	require.NoError(t, err)
	zs := enc.EncodeAll(text, nil)
	require.NoError(t, enc.Close())

	dir := t.TempDir()
	for i, data := range [][]byte{gz.Bytes(), zs, text} {
		path := filepath.Join(dir, "access.log")
		require.NoError(t, os.WriteFile(path, data, 0o600))
		o := s.options(path)
		o.Service = "web"
		res := run(t, o)
		require.NoError(t, res.err)
		require.Equal(t, 40, res.Read)
		require.Equal(t, 40, s.total(), "input %d: the same lines, however packed", i)

		o = s.options()
		o.Service, o.Stdin = "web", bytes.NewReader(data)
		require.Equal(t, 40, run(t, o).Duplicates)
	}
	cut := filepath.Join(dir, "cut.gz")
	require.NoError(t, os.WriteFile(cut, gz.Bytes()[:gz.Len()/2], 0o600))
	o := s.options(cut)
	o.Service = "web"
	require.ErrorIs(t, run(t, o).err, io.ErrUnexpectedEOF)
}

func TestWireEncodings(t *testing.T) {
	path := write(t, "e", eventLines(30)...)
	for _, enc := range []post.Compression{post.Gzip, post.Zstd, post.None} {
		s := newServer(t)
		o := s.options(path)
		o.Encoding = enc
		require.NoError(t, run(t, o).err)
		require.Equal(t, 30, s.total())
		require.Equal(t, strings.TrimPrefix(string(enc), "none"), s.headers.Get("Content-Encoding"))
	}
}

func TestRetriesUntilTheServerIsBack(t *testing.T) {
	tests := []struct {
		name   string
		before func(n int, w http.ResponseWriter, _ []byte) bool
	}{
		{"unavailable", func(n int, w http.ResponseWriter, _ []byte) bool {
			if n <= 3 {
				w.Header().Set("Retry-After", "0")
				w.WriteHeader([]int{503, 429, 504}[n-1])
			}
			return n <= 3
		}},
		{"bad gateway without json", func(n int, w http.ResponseWriter, _ []byte) bool {
			if n <= 2 {
				http.Error(w, "<html>", 502)
			}
			return n <= 2
		}},
		{"connection closed", func(n int, w http.ResponseWriter, _ []byte) bool {
			if n <= 3 {
				panic(http.ErrAbortHandler)
			}
			return false
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newServer(t)
			s.before = tt.before
			res := run(t, s.options(write(t, "e", eventLines(35)...)))
			require.NoError(t, res.err)
			require.Equal(t, 35, res.Accepted)
			require.Equal(t, 35, s.total())
			require.Positive(t, res.Retries)
			require.Contains(t, res.log, "retrying request")
		})
	}
}

// The answer is lost after the events were stored: the retry finds them known.
func TestLostAnswersAreNotCountedTwice(t *testing.T) {
	s := newServer(t)
	s.after = func(n int, _ http.ResponseWriter) bool {
		if n%3 == 1 {
			panic(http.ErrAbortHandler)
		}
		return false
	}
	res := run(t, s.options(write(t, "e", eventLines(95)...)))
	require.NoError(t, res.err)
	require.Equal(t, 95, s.total())
	require.Equal(t, 95, res.Accepted+res.Duplicates)
	require.Positive(t, res.Duplicates)
}

func TestRetryAfterIsHonoured(t *testing.T) {
	s := newServer(t)
	var first time.Time
	var waited time.Duration
	s.before = func(n int, w http.ResponseWriter, _ []byte) bool {
		if n == 1 {
			first = time.Now()
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(503)
			return true
		}
		waited = time.Since(first)
		return false
	}
	require.NoError(t, run(t, s.options(write(t, "e", eventLines(1)...))).err)
	require.GreaterOrEqual(t, waited, time.Second)
}

func TestGivingUp(t *testing.T) {
	down := func(_ int, w http.ResponseWriter, _ []byte) bool { w.WriteHeader(503); return true }
	tests := []struct {
		name   string
		change func(*Options)
		before func(int, http.ResponseWriter, []byte) bool
		status int
	}{
		{"retries", func(o *Options) { o.MaxRetries = 1 }, down, 503},
		{"time", func(o *Options) { o.RetryFor = 10 * time.Millisecond }, down, 503},
		{"unauthorized", nil, func(_ int, w http.ResponseWriter, _ []byte) bool { w.WriteHeader(401); return true }, 401},
		{"forbidden", nil, func(_ int, w http.ResponseWriter, _ []byte) bool {
			w.WriteHeader(403)
			_, _ = io.WriteString(w, `{"detail":"the token may not"}`)
			return true
		}, 403},
		{"something else", nil, func(_ int, w http.ResponseWriter, _ []byte) bool {
			http.NotFound(w, nil)
			return true
		}, 404},
		{"a redirect", nil, func(_ int, w http.ResponseWriter, _ []byte) bool {
			w.Header().Set("Location", "/login")
			w.WriteHeader(302)
			return true
		}, 302},
		{"a web page", nil, func(_ int, w http.ResponseWriter, _ []byte) bool {
			_, _ = io.WriteString(w, "<html>")
			return true
		}, 200},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newServer(t)
			s.before = tt.before
			o := s.options(write(t, "e", eventLines(35)...))
			if tt.change != nil {
				tt.change(&o)
			}
			res := run(t, o)
			var unsent *UnsentError
			require.ErrorAs(t, res.err, &unsent)
			require.Positive(t, res.Unsent)
			require.Equal(t, res.Unsent, unsent.Unsent)
			require.Equal(t, res.Read, res.Unsent)
			var answered *post.StatusError
			require.ErrorAs(t, res.err, &answered)
			require.Equal(t, tt.status, answered.Status)
			require.Equal(t, tt.status == 401 || tt.status == 403, unsent.Denied())
		})
	}
}

func TestPartOfABatchIsSentAgain(t *testing.T) {
	s := newServer(t)
	var sizes []int
	s.edit = func(n int, b *event.Batch, a *post.Answer) {
		sizes = append(sizes, b.Received)
		if n > 2 {
			return
		}
		// The last two are to come back later.
		for i := len(b.Events) - 2; i < len(b.Events); i++ {
			a.Errors = append(
				a.Errors, event.ItemError{Index: b.Events[i].Index, Code: "limited", Detail: "later", Retryable: true})
			a.Rejected++
		}
		b.Events = b.Events[:len(b.Events)-2]
	}
	o := s.options(write(t, "e", eventLines(10)...))
	o.BatchWait = time.Hour
	res := run(t, o)
	require.NoError(t, res.err)
	require.Equal(t, []int{10, 2, 2}, sizes)
	require.Equal(t, 10, res.Accepted)
	require.Equal(t, 10, res.Sent)
	require.Zero(t, res.Rejected)
	require.Equal(t, 10, s.total())
}

func TestRejectedLinesAreFoundSavedAndListed(t *testing.T) {
	s := newServer(t)
	lines := eventLines(20)
	lines[3] = `{"time":"2020-01-01T00:00:00Z","service":"shop","type":"order","id":"old"}` // for the server to reject
	lines[7] = `{"service":"shop","type":`                                                  // not even JSON
	lines[8] = ``
	path := write(t, "events.ndjson", lines...)
	o := s.options(path)
	o.Rejects = filepath.Join(t.TempDir(), "rejects.ndjson")
	res := run(t, o)
	var rejected *RejectedError
	require.ErrorAs(t, res.err, &rejected)
	require.Equal(t, RejectedError{Rejected: 2, Read: 19}, *rejected)
	require.Equal(t, 17, res.Accepted)
	require.Equal(t, 18, res.Sent)
	require.Equal(t, 2, res.Rejected)
	require.Zero(t, res.Unsent)
	byLine := map[int]Rejection{}
	for _, e := range res.Errors {
		require.Equal(t, path, e.File)
		byLine[e.Line] = e
	}
	require.Equal(t, "time_too_old", byLine[4].Code)
	require.Equal(t, "old", byLine[4].ID)
	require.Equal(t, codeUnreadable, byLine[8].Code)

	saved, err := os.ReadFile(o.Rejects)
	require.NoError(t, err)
	require.Equal(t, 2, bytes.Count(saved, []byte("\n")))
	for line := range strings.Lines(string(saved)) {
		var r struct {
			Rejection
			Raw string `json:"raw"`
		}
		require.NoError(t, json.Unmarshal([]byte(line), &r))
		require.Equal(t, lines[r.Line-1], r.Raw)
	}

	o.Output, o.MaxErrors = "table", 1
	res = run(t, o)
	require.ErrorAs(t, res.err, &rejected)
	require.Contains(t, res.stdout, path+":")
	require.Contains(t, res.stdout, "and 1 more")
	require.Contains(t, res.stdout, "duplicates  17")
}

func TestAllRejectedIsKnownEvenWhenTheAnswerLeavesSomeOut(t *testing.T) {
	s := newServer(t)
	s.limits.MaxErrors = 100
	lines := eventLines(500)
	for i := 100; i < 400; i++ {
		lines[i] = strings.Replace(lines[i], "2026-11-20", "2020-01-01", 1)
	}
	o := s.options(write(t, "e", lines...))
	o.BatchEvents, o.MaxErrors, o.BatchWait = 1000, 1000, time.Hour
	res := run(t, o)
	var rejected *RejectedError
	require.ErrorAs(t, res.err, &rejected)
	require.Equal(t, 200, res.Accepted)
	require.Zero(t, res.Duplicates)
	require.Equal(t, 300, res.Rejected)
	require.Len(t, res.Errors, 300)
	require.Equal(t, 200, s.total())
	require.Equal(t, 1, s.requests, "nothing is sent a second time to learn why it was rejected")
	require.Len(t, res.RejectedBy, 1)
	require.Equal(t, []Lines{{o.Files[0], 101, 400}}, res.RejectedBy[0].Lines)
	require.Equal(t, "time_too_old", res.Errors[250].Code)
	require.Contains(t, res.Errors[250].Detail, res.RejectedBy[0].Detail)

	// A whole batch that is refused is explained once, too, each code with its lines.
	for i := range lines {
		lines[i] = fmt.Sprintf(`{"service":"shop","type":"order","id":"%d","time":"2020-01-01T00:00:00Z"}`, i)
		if i%10 == 0 && i < 100 || i >= 490 {
			lines[i] = fmt.Sprintf(`{"service":"no good","type":"order","id":"%d"}`, i)
		}
	}
	o.Files, o.Output, o.MaxErrors = []string{write(t, "all", lines...)}, "table", 3
	res = run(t, o)
	require.ErrorAs(t, res.err, &rejected)
	require.Equal(t, RejectedError{Rejected: 500, Read: 500}, *rejected)
	require.Equal(t, 2, s.requests)
	require.Regexp(t,
		`rejected, and not sent again:\n  time_too_old  480 at \S+/all:2-10, 12-20, 22-30, 32-40, 42-50, \.\.\n  `+
			`unreadable_line  20 at \S+/all:1, 11, 21, 31, 41, \.\.\n`, res.stdout)
}

func TestSaysThatALogHasNoDurations(t *testing.T) {
	const warning = "no event of the log has a duration, so latency SLOs will have no data from it"
	s := newServer(t)
	for name, tt := range map[string]struct {
		lines []string
		timed int
		warns bool
	}{
		"combined": {accessLines(3), 0, true},
		"nginx with durations": {[]string{
			`{"time_iso8601":"2026-11-20T09:00:00Z","request":"GET / HTTP/1.1","status":200,"request_time":0.1}`,
			`{"time_iso8601":"2026-11-20T09:00:01Z","request":"GET / HTTP/1.1","status":200}`}, 1, false},
		"nginx without": {
			[]string{`{"time_iso8601":"2026-11-20T09:00:00Z","request":"GET / HTTP/1.1","status":200}`}, 0, true},
		"events": {eventLines(3), 0, false}, // of orders, say
	} {
		o := s.options(write(t, "log", tt.lines...))
		o.Service = "web"
		res := run(t, o)
		require.NoError(t, res.err, name)
		require.Equal(t, tt.timed, res.WithDuration, name)
		require.Equal(t, tt.warns, strings.Contains(res.log, warning), "%s: %s", name, res.log)
	}
}

func TestTooLargeRequestsAreSplit(t *testing.T) {
	s := newServer(t)
	s.before = func(_ int, w http.ResponseWriter, body []byte) bool {
		if bytes.Count(body, []byte("\n")) > 3 || bytes.Contains(body, []byte(`"n":"5"`)) {
			w.WriteHeader(413)
			return true
		}
		return false
	}
	res := run(t, s.options(write(t, "e", eventLines(10)...)))
	var rejected *RejectedError
	require.ErrorAs(t, res.err, &rejected)
	require.Equal(t, 9, res.Accepted)
	require.Equal(t, "body_too_large", res.Errors[0].Code)
	require.Equal(t, 6, res.Errors[0].Line)
}

func TestShiftMovesTimesAndKeepsIDs(t *testing.T) {
	s := newServer(t)
	lines := []string{
		`192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET /a HTTP/1.1" 200 1 "-" "x"`,
		`192.0.2.1 - - [20/May/2015:21:59:59 +0000] "GET /b HTTP/1.1" 200 1 "-" "x"`,
		`192.0.2.1 - - [20/May/2015:21:05:00 +0000] "GET /c HTTP/1.1" 200 1 "-" "x"`,
	}
	path := write(t, "access.log", lines...)
	o := s.options(path)
	o.Service, o.Shift, o.Backfill = "web", true, true
	res := run(t, o)
	require.NoError(t, res.err)
	require.Equal(t, 3, res.Accepted)
	query, err := url.ParseQuery(s.query)
	require.NoError(t, err)
	require.Equal(t, url.Values{"backfill": {"true"}, "covers": {"2026-11-16T21:05:03Z/2026-11-20T08:59:59Z"}}, query)
	newest := time.Time{}
	for _, e := range s.ids() {
		if e.Time.After(newest) {
			newest = e.Time
		}
		require.Zero(t, e.Time.Sub(time.Date(2015, 5, 17, 10, 5, 3, 0, time.UTC))%time.Second)
	}
	require.Equal(t, time.Date(2026, 11, 20, 8, 59, 59, 0, time.UTC), newest.UTC())

	// A day later the shift is another, the ids are not.
	o.Now = func() time.Time { return testNow.Add(-26 * time.Hour) }
	res = run(t, o)
	require.NoError(t, res.err)
	require.Equal(t, 3, res.Duplicates)
	o.Shift = false
	require.Equal(t, 3, run(t, o).Duplicates+run(t, o).Rejected, "nor are they without a shift")
}

func TestShiftFor(t *testing.T) {
	for _, tt := range []struct {
		newest time.Time
		want   time.Duration
	}{
		{testNow, 0},
		{testNow.Add(-59 * time.Minute), 0},
		{testNow.Add(-time.Hour), time.Hour},
		{testNow.Add(-25 * time.Hour), 25 * time.Hour},
		{testNow.Add(time.Minute), -time.Hour},
	} {
		got := shiftFor(tt.newest, testNow)
		require.Equal(t, tt.want, got)
		moved := tt.newest.Add(got)
		require.True(t, !moved.After(testNow) && moved.After(testNow.Add(-time.Hour)))
	}
}

func TestTokens(t *testing.T) {
	s := newServer(t)
	path := write(t, "e", eventLines(1)...)
	o := s.options(path)
	o.Token = "itself"
	require.NoError(t, run(t, o).err)
	require.Equal(t, "Bearer itself", s.headers.Get("Authorization"))

	o.TokenFile = write(t, "token", "from-a-file")
	require.NoError(t, run(t, o).err)
	require.Equal(t, "Bearer from-a-file", s.headers.Get("Authorization"))

	o.TokenFile = write(t, "token", "two words")
	require.ErrorContains(t, run(t, o).err, "invalid in an HTTP header")
	o.TokenFile = filepath.Join(t.TempDir(), "missing")
	require.ErrorIs(t, run(t, o).err, os.ErrNotExist)
}

func TestOptionsThatCannotWork(t *testing.T) {
	path := write(t, "e", accessLines(1)...)
	for name, o := range map[string]Options{
		"encoding":         {Encoding: "br"},
		"output":           {Output: "xml"},
		"batch":            {BatchEvents: 10_001},
		"negative":         {MaxRetries: -1},
		"concurrency":      {Concurrency: 65},
		"shift and follow": {Shift: true, Follow: true, Files: []string{path}},
		"shift stdin":      {Shift: true},
		"file twice":       {Files: []string{path, path}},
		"format":           {Format: "syslog", Files: []string{path}},
		"no service":       {Files: []string{path}},
		"bad service":      {Files: []string{path}, ParserOptions: ParserOptions{Service: "a b"}},
		"unrecognised":     {Stdin: strings.NewReader("hello\nworld\n")},
	} {
		t.Run(name, func(t *testing.T) {
			o.Stdout, o.Stderr = io.Discard, io.Discard
			err := Run(t.Context(), o)
			var misused *UsageError
			require.ErrorAs(t, err, &misused)
		})
	}
	require.ErrorIs(t, Run(t.Context(), Options{Files: []string{"/no/such/file"}, Stdout: io.Discard}), os.ErrNotExist)
}

func TestInterruptBringsHomeWhatWasRead(t *testing.T) {
	s := newServer(t)
	in, out := io.Pipe()
	o := s.options()
	o.Stdin, o.BatchWait = in, time.Hour
	var printed testkit.Buffer
	o.Stdout = &printed
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Run(ctx, o) }()
	_, err := io.WriteString(out, strings.Join(eventLines(15), "\n")+"\n")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return s.total() == 10 }, testkit.Patience, time.Millisecond)
	cancel()
	err = <-done
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "interrupted")
	require.Equal(t, 15, s.total(), "also those whose batch was not full")
	require.NoError(t, out.Close())
}

func TestInterruptEndsEndlessRetries(t *testing.T) {
	s := newServer(t)
	s.before = func(_ int, w http.ResponseWriter, _ []byte) bool { w.WriteHeader(503); return true }
	o := s.options(write(t, "e", eventLines(5)...))
	o.Grace = 50 * time.Millisecond
	o.Stdout, o.Logger = io.Discard, slog.New(slog.DiscardHandler)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	var unsent *UnsentError
	require.ErrorAs(t, Run(ctx, o), &unsent)
	require.Equal(t, 5, unsent.Unsent)
}

func TestDetect(t *testing.T) {
	tests := []struct {
		text string
		want string
	}{
		{"", "ndjson"},
		{"\n\n", "ndjson"},
		{"{nope\n{\"service\":\"s\"}\n", "ndjson"},
		{"{\"service\":\"s\"}", "ndjson"},
		{"  [\n{}]", "json"},
		{"{\n  \"service\": \"s\"\n}\n", "json"},
		{"garbage\n" + accessLines(1)[0] + "\n", "combined"},
		{accessLines(1)[0], "combined"},
		{`{"msec":1763629200.123,"status":"200","request":"GET / HTTP/1.1","body_bytes_sent":"1"}`, "nginx-json"},
		{"garbage\n", ""},
		{"\xef\xbb\xbf{\"service\":\"s\"}\n", "ndjson"},
		{"\xef\xbb\xbf[{}]", "json"},
		{"\xef\xbb\xbf" + accessLines(1)[0], "combined"},
		{"[", "json"},
		{"[\n  {\"service\":\"s\"}]", "json"},
		{`{"specversion":"1.0","id":"1"}` + "\n", "ndjson"},
		{`{"id":"1"}` + "\n", "ndjson"},
		{`{"@timestamp":"2026-11-20T09:00:00Z","remote_ip":"192.0.2.1","status":200,"duration":0.2}` + "\n", ""},
		{`{"ts":1763629200.1,"request":{"method":"GET"},"status":200}` + "\n", "caddy"},
		{`{"ts":1763629200.1,"took":3,"status":200}` + "\n", ""},
		{"# a comment\n", ""},
		{`[2026-11-20T09:00:00.123Z] "GET / HTTP/1.1" 200 - 0 12 5 4 "-" "curl" "id" "host" "192.0.2.1:80"` + "\n", ""},
	}
	for _, tt := range tests {
		format, in, err := detect("x", iotestOneByte(tt.text), false)
		if tt.want == "" {
			require.Error(t, err)
			continue
		}
		require.NoError(t, err, tt.text)
		require.Equal(t, tt.want, string(format), tt.text)
		all, err := io.ReadAll(in)
		require.NoError(t, err)
		require.Equal(t, tt.text, string(all), "nothing is lost by looking")
	}
}

type oneByte struct{ r io.Reader }

func (o oneByte) Read(p []byte) (int, error) { return o.r.Read(p[:min(len(p), 1)]) }

func iotestOneByte(text string) io.Reader { return oneByte{strings.NewReader(text)} }

func TestRejectsFileThatCannotBeWritten(t *testing.T) {
	o := Options{Rejects: filepath.Join(t.TempDir(), "no", "folder"), Stdin: strings.NewReader("")}
	require.ErrorIs(t, Run(t.Context(), o), os.ErrNotExist)
	var e *UnsentError
	require.False(t, errors.As(Run(t.Context(), o), &e))
}

// TestBackfillSaysWhatItCovers: the times of each file up to the last event in the request, and none of files whose
// events have no time.
func TestBackfillSaysWhatItCovers(t *testing.T) {
	s := newServer(t)
	var queries []url.Values
	s.before = func(int, http.ResponseWriter, []byte) bool {
		query, err := url.ParseQuery(s.query)
		require.NoError(t, err)
		queries = append(queries, query)
		return false
	}
	line := func(at string) string { return fmt.Sprintf(`{"service":"web","type":"request"%s}`, at) }
	at := func(day int) string { return line(fmt.Sprintf(`,"time":"2026-11-%02dt00:00:00z"`, day)) }
	o := s.options(write(t, "a", at(3), at(1), at(5)), write(t, "b", at(12), line("")), write(t, "c", line("")))
	o.Backfill, o.Concurrency, o.BatchEvents = true, 1, 2
	require.NoError(t, run(t, o).err)
	a, b := "2026-11-01T00:00:00Z/2026-11-0", "2026-11-12T00:00:00Z/2026-11-12T00:00:00Z"
	require.Equal(t, []url.Values{
		{"backfill": {"true"}, "covers": {a + "3T00:00:00Z"}},
		{"backfill": {"true"}, "covers": {a + "5T00:00:00Z", b}},
		{"backfill": {"true"}},
	}, queries)
}

// JSON of another form becomes events by a map. Flags give the service and the type that it has not.
func TestMap(t *testing.T) {
	const line = `{"ts":"2026-11-20T09:00:00Z","took":12,"http":{"status":%d,"route":"/pay"}}`
	s := newServer(t)
	o := s.options(write(t, "log", fmt.Sprintf(line, 503), fmt.Sprintf(line, 200), "[]", "{", `{"ts":"soon"}`))
	o.Service, o.Type, o.Output = "shop", "payment", "table"
	var err error
	o.Map, err = mapping.New(&mapping.Settings{Time: ".ts", DurationMS: ".took", Attributes: map[string]string{
		"route": ".http.route"}, FailureIf: `number(text(".http.status"), 0) >= 500`}, true)
	require.NoError(t, err)
	res := run(t, o)
	var rejected *RejectedError
	require.ErrorAs(t, res.err, &rejected)
	require.Equal(t, RejectedError{Rejected: 3, Read: 5}, *rejected)
	for _, want := range []string{"log:3: unreadable_line: not a JSON object", "log:4: unreadable_line: invalid JSON",
		`log:5: unreadable_line: bad_time: Time "soon"`} {
		require.Contains(t, res.stdout, want)
	}
	require.Len(t, s.counted, 2)
	for _, e := range s.counted {
		require.Len(t, e.ID, 32)
		require.Equal(t, "shop payment 12ms /pay", fmt.Sprint(e.Service, " ", e.Type, " ", e.Duration, " ", e.Attr("route")))
	}
	o.Format = string(Caddy)
	require.ErrorContains(t, run(t, o).err, "a map reads JSON")
}
