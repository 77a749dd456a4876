package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/stretchr/testify/require"
	"golang.org/x/net/html"

	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/dlq"
	"github.com/sloengine/sloengine/web/deadletters"
	"github.com/sloengine/sloengine/web/format"
	"github.com/sloengine/sloengine/web/site"
	"github.com/sloengine/sloengine/web/status"
)

func TestEnginePagesGolden(t *testing.T) {
	for _, c := range []struct {
		name, target string
		prepare      func(*bench)
	}{
		{"engine-dead-letters", site.DeadLetterListPath + "?sink=warehouse", func(*bench) {}},
		{"engine-dead-letter", site.DeadLetterPath + "?id=sink-warehouse-900-0", func(*bench) {}},
		{"engine-confirm", site.DeadLetterConfirmPath + "?action=discard&origin=sink", func(*bench) {}},
		{"engine-bare", "/engine", bare},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			c.prepare(b)
			golden(t, b, c.target, c.name+".html")
		})
	}
}

// bare takes everything off the engine that it can do without.
func bare(b *bench) {
	b.eng.Limits, b.eng.Offenders, b.eng.Redis, b.eng.Breakers, b.eng.Bulkheads, b.eng.Sinks, b.eng.Alertmanagers,
		b.eng.Reports, b.eng.DeadLetters = nil, nil, nil, nil, nil, nil, nil, nil, nil
	b.web.Opt.DLQ = newDeadLetterStore(b.t)
}

func TestEngineSaysWhatToDo(t *testing.T) {
	b := newBench(t)
	bare(b)
	page := b.get("/engine").Body.String()
	check(t, page)
	for _, want := range []string{"sinks: [{name: archive", "notifications: {alertmanagers: [{url:", "limits: {global:",
		"Every accepted event was counted and delivered", "counters were read twice"} {
		require.Contains(t, page, want)
	}
	for _, no := range []string{"Breakers", "Bulkheads", "Redis"} {
		require.NotContains(t, page, no)
	}
}

func TestEngineStates(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*bench)
		want   []string
	}{
		"starting": {func(b *bench) {
			b.rep, b.eng = nil, status.Engine{State: status.Starting}
		}, []string{"The engine is starting", "none yet"}},
		"recovering": {func(b *bench) {
			b.eng.State, b.eng.Progress = status.Recovering, 0.42
		}, []string{"42% of the log replayed", `width="42"`, `class="recovery"`}},
		"poisoned": {func(b *bench) {
			b.eng.State, b.eng.Reason = status.Poisoned, "fsync: I/O error"
		}, []string{"failed to make data durable", "fsync: I/O error"}},
		"stale": {func(b *bench) { b.now = noon.Add(10 * time.Minute) }, []string{"These numbers are stale"}},
		"disk low": {func(b *bench) { b.eng.State, b.eng.Disk.FreeBytes = status.DiskLow, 900<<20 }, []string{
			"Free space is below the low-water mark of 1.0 GiB", `<rect class="bad" width="21.97"`,
			`<path class="low" d="M25 0v6"/>`}},
		"disk getting low": {func(b *bench) {
			b.eng.Disk.FreeBytes, b.eng.Disk.TotalBytes = 3<<29, 10<<30
		}, []string{`<rect class="risk" width="15"`, "1.5 GiB of 10.0 GiB", "move the data directory"}},
		"not guarded": {func(b *bench) { b.eng.Disk.LowBytes = 0 }, []string{"No low-water mark is set"}},
		"no disk":     {func(b *bench) { b.eng.Disk = status.DiskStatus{} }, []string{"0 B free"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			c.change(b)
			rec := b.get("/engine")
			require.Equal(t, http.StatusOK, rec.Code)
			check(t, rec.Body.String())
			for _, w := range c.want {
				require.Contains(t, rec.Body.String(), w)
			}
		})
	}
}

func TestEngineParts(t *testing.T) {
	b := newBench(t)
	b.eng.Breakers = []status.BreakerStatus{{Name: "a", State: status.BreakerOpen, Since: noon.Add(-time.Minute),
		Reason: "5 failures in a row", RetryAfterSeconds: 42}, {Name: "b", State: status.BreakerHalfOpen},
		{Name: "c", State: "?"}}
	b.eng.Bulkheads = append(
		b.eng.Bulkheads, status.BulkheadStatus{Name: "full", Active: 4, Concurrency: 4, Queued: 17, Queue: 20})
	b.eng.Redis = &status.RedisStatus{Since: noon.Add(-time.Minute), LastError: "dial tcp: refused"}
	b.eng.Ingest.Limited, b.eng.Ingest.Sampled, b.eng.Ingest.DeadLettered = 11, 22, 33
	b.eng.Offenders = []status.OffenderStatus{{Context: "user", Value: "(redacted) 0a1b2c3d", Hits: 7}}
	page := strings.Join(strings.Fields(b.get("/engine").Body.String()), " ")
	check(t, page)
	for _, want := range []string{
		`</svg>open</span><span class="note under">tried again in 42s`, `title="11:59:07 UTC">1m 3s</time>`,
		"5 failures in a row", "</svg>half open<", "</svg>unknown<",
		"4 of 4 active", `<rect class="bad" width="100" height="6"/>`, "17 of 20 waiting",
		`<rect class="risk" width="85" height="6"/>`,
		"</svg>not reachable<", "limits.shared.fallback", "dial tcp: refused", "Limited", "Sampled", "Dead-lettered",
		"Values are redacted",
		`<rect class="bad" width="100" height="6"/></svg><span class="note">1,204/s of 1,000/s`,
	} {
		require.Contains(t, page, want)
	}
	for want, s := range map[string]status.SinkStatus{
		"breaker open": {Breaker: status.BreakerOpen, HeldSeconds: 1},
		"lagging":      {MaxLagBytes: 10, LagBytes: 6, HeldSeconds: 1}, "paused": {HeldSeconds: 1},
		"probing": {Breaker: status.BreakerHalfOpen}, "recovering": {Recovering: true},
		"no delivery yet": {}, "delivering": {Delivered: 1},
	} {
		require.Equal(t, want, sinkMark(&s).Word)
	}
}

func TestRates(t *testing.T) {
	b := newBench(t)
	b.eng.Ingest = status.IngestStatus{}
	at := noon
	step := func(d time.Duration, n uint64) {
		at = at.Add(d)
		b.now = at
		b.eng.Ingest.Accepted += n * 8 / 10
		b.eng.Ingest.Rejected += n * 2 / 10
		b.eng.Ingest.Received += n
		b.web.engine.sampleRates()
	}
	for range 360 { // half an hour at 100 a second, looked at every second
		for range 5 {
			step(time.Second, 100)
		}
	}
	require.Len(t, b.web.engine.rates.samples, 360, "one every five seconds")
	c := b.web.engine.rateChart(b.web.View())
	require.Equal(t, []string{"100.0/s", "100.0/s", "100.0/s"}, []string{c.Now, c.Mean, c.Peak})
	require.Equal(t, "80.0/s", c.Rows[0].Accepted)
	require.Equal(t, "20.0/s", c.Rows[0].Rejected)
	require.Len(t, c.Rows, 12)
	require.Equal(t, format.NoValue, c.Rows[11].Accepted, "before the first sample nothing is known")
	require.NotEmpty(t, c.Gap)

	// A machine that slept: what came in has no time, and gets none.
	step(10*time.Minute, 1_000_000)
	for range 24 {
		step(5*time.Second, 1000)
	}
	c = b.web.engine.rateChart(b.web.View())
	require.Equal(t, "200.0/s", c.Now)
	require.Equal(t, "200.0/s", c.Peak)
	require.NotContains(t, c.Mean, "k")
	page := b.get("/engine").Body.String()
	check(t, page)
	require.Contains(t, page, "on average, 200.0/s at most")

	for range 2000 {
		step(5*time.Second, 0)
	}
	require.LessOrEqual(t, len(b.web.engine.rates.samples), rateKept)
	require.Equal(t, "No event arrived in the last hour.", b.web.engine.rateChart(b.web.View()).Note)
	at = at.Add(-2 * time.Hour) // the clock is set back
	step(0, 5)
	require.Len(t, b.web.engine.rates.samples, 1)
}

// The first seconds may fill less than half a bar. They are no reason for a maximum below the mean.
func TestPeakRateAfterAStart(t *testing.T) {
	b := newBench(t)
	b.eng.Ingest = status.IngestStatus{}
	for _, at := range []struct {
		second time.Duration
		events uint64
	}{{12, 0}, {17, 10_000}, {22, 10_010}} {
		b.now = noon.Truncate(time.Minute).Add(at.second * time.Second)
		b.eng.Ingest.Accepted, b.eng.Ingest.Received = at.events, at.events
		b.web.engine.sampleRates()
	}
	c := b.web.engine.rateChart(b.web.View())
	require.Equal(t, c.Mean, c.Peak)
	require.NotEqual(t, format.NoValue, c.Mean)
}

func TestRatesAreSampledByRun(t *testing.T) {
	l := newLiveBench(t, nil)
	require.Eventually(t, func() bool {
		l.web.engine.rates.mu.Lock()
		defer l.web.engine.rates.mu.Unlock()
		return len(l.web.engine.rates.samples) == 1
	}, testkit.Patience, 10*time.Millisecond)
}

func deadLetterRows(t *testing.T, body string) (ids []string) {
	for n := range check(t, body).Descendants() {
		if n.Data == "input" {
			kind, value := "", ""
			for _, a := range n.Attr {
				switch a.Key {
				case "type":
					kind = a.Val
				case "value":
					value = a.Val
				}
			}
			if kind == "checkbox" && value != "" {
				ids = append(ids, value)
			}
		}
	}
	return ids
}

func TestDeadLetterList(t *testing.T) {
	l := newDeadLetterStore(t, manyDeadLetters(60)...)
	b := newBench(t, func(o *site.Options) { o.DLQ = l })
	var seen []string
	target := site.DeadLetterListPath + "?service=s1"
	for range 5 {
		rec := b.get(target)
		require.Equal(t, http.StatusOK, rec.Code)
		require.Equal(t, "no-store", rec.Header().Get("Cache-Control"))
		seen = append(seen, deadLetterRows(t, rec.Body.String())...)
		require.NotContains(t, rec.Body.String(), "data-stream", "a list to choose from stands still")
		next := regexp.MustCompile(`<a href="([^"]+)" rel="next">`).FindStringSubmatch(rec.Body.String())
		if next == nil {
			break
		}
		target = html.UnescapeString(next[1])
		require.Contains(t, target, "service=s1")
	}
	require.Len(t, seen, 20)
	require.Equal(t, "sink-w-0058-0", seen[0])
	require.Equal(t, "sink-w-0001-0", seen[19])

	for query, code := range map[string]int{"?origin=x": 400, "?from=x": 400, "?cursor=%21": 400,
		"?from=2026-11-20T10:00:00Z&to=2026-11-20T09:00:00Z": 400, "?sink=none": 200, "?type=%3Cb%3E": 200, "?unknown=1": 200,
		"?sink=" + strings.Repeat("x", 2000): 400} {
		rec := b.get(site.DeadLetterListPath + query)
		require.Equal(t, code, rec.Code, query)
		check(t, rec.Body.String())
	}
	require.Contains(t, b.get(site.DeadLetterListPath+"?sink=none").Body.String(), "No dead letter matches this filter")

	b.web.Opt.DLQ = broken{errors.New("busy")}
	require.Contains(t, b.get(site.DeadLetterListPath).Body.String(), "could not be read")
	b.eng.State = status.Recovering
	require.Contains(t, b.get(site.DeadLetterListPath).Body.String(), "once the engine has recovered")
	require.Equal(t, http.StatusServiceUnavailable, b.get(site.DeadLetterPath+"?id=a").Code)
	b.web.Opt.DLQ = nil
	for _, path := range []string{site.DeadLetterListPath, site.DeadLetterPath + "?id=a",
		site.DeadLetterConfirmPath + "?action=replay&all=true"} {
		require.Equal(t, http.StatusNotImplemented, b.get(path).Code, path)
	}
}

// sparse gives empty pages before the one that has something.
type sparse struct {
	broken
	pages int
}

func (s *sparse) Stats(context.Context) (dlq.Stats, error) { return dlq.Stats{Count: 1}, nil }

func (s *sparse) List(context.Context, dlq.Query) (dlq.Page, error) {
	if s.pages--; s.pages > 0 {
		return dlq.Page{Next: "more"}, nil
	}
	return dlq.Page{Entries: []dlq.Entry{{ID: "found", Origin: dlq.Fold, Reason: "r"}}}, nil
}

func TestDeadLetterListLooksFurther(t *testing.T) {
	b := newBench(t, func(o *site.Options) { o.DLQ = &sparse{pages: 7} })
	require.Equal(t, []string{"found"}, deadLetterRows(t, b.get(site.DeadLetterListPath).Body.String()))
}

func TestDeadLetterDetails(t *testing.T) {
	b := newBench(t)
	page := b.get(site.DeadLetterPath + "?id=sink-warehouse-900-0").Body.String()
	check(t, page)
	for _, want := range []string{"no answer within 5s", "timeout", "counted, but not delivered to its sink",
		"&#34;product&#34;: &#34;&lt;b&gt;&#34;", "\n  &#34;type&#34;", "record 900",
		`href="/api/v1/dlq/sink-warehouse-900-0"`} {
		require.Contains(t, page, want)
	}
	require.Contains(t, b.get(site.DeadLetterPath+"?id=sink-warehouse-950~990").Body.String(),
		"records that are no longer in the log")
	for _, id := range []string{"none", "", "%3Cscript%3E", "a%00b", strings.Repeat("a", 300)} {
		rec := b.get(site.DeadLetterPath + "?id=" + id)
		require.Equal(t, http.StatusNotFound, rec.Code, id)
		check(t, rec.Body.String())
	}
}

func TestHostileDeadLetters(t *testing.T) {
	for i, bad := range hostile {
		event, err := json.Marshal(map[string]any{"service": bad, "attributes": map[string]string{bad: bad}})
		require.NoError(t, err)
		entries := []dlq.Entry{
			{ID: "a-1", Origin: dlq.Sink, Sink: "s" + bad, Reason: "r" + bad, Error: bad, Class: bad, Service: bad, Type: bad,
				Severity: bad, Event: event, Saved: noon},
			{ID: "a-2", Origin: dlq.Admission, Reason: "r" + bad, Raw: []byte(strings.Repeat(bad+"\n", 40)), Saved: noon},
		}
		b := newBench(t, func(o *site.Options) { o.DLQ = newDeadLetterStore(t, entries...) })
		esc := url.QueryEscape("r" + bad)
		for _, target := range []string{"/engine", site.DeadLetterListPath, site.DeadLetterPath + "?id=a-1",
			site.DeadLetterPath + "?id=a-2", site.DeadLetterListPath + "?reason=" + esc,
			site.DeadLetterListPath + "?type=" + url.QueryEscape(bad),
			site.DeadLetterConfirmPath + "?action=discard&reason=" + esc, site.DeadLetterConfirmPath + "?action=" + esc} {
			rec := b.get(target)
			require.Less(t, rec.Code, 500, "%d %s", i, target)
			check(t, rec.Body.String())
			for _, forbidden := range []string{"<img src=x", "\u202e", "\u2066", "\u200f", "\x00", "\x1b"} {
				require.False(t, strings.Contains(rec.Body.String(), forbidden), "%q in %s", forbidden, target)
			}
			require.Less(t, len(links.ReplaceAllString(rec.Body.String(), "")), 250_000)
		}
	}
}

// fields are the hidden fields of the form that does it.
func fields(t *testing.T, body string) url.Values {
	out := url.Values{}
	for n := range check(t, body).Descendants() {
		if n.Data != "input" {
			continue
		}
		attr := map[string]string{}
		for _, a := range n.Attr {
			attr[a.Key] = a.Val
		}
		if attr["type"] == "hidden" {
			out.Add(attr["name"], attr["value"])
		}
	}
	return out
}

func TestConfirmIsADryRun(t *testing.T) {
	var audit []string
	l := newDeadLetterStore(t, manyDeadLetters(30)...)
	b := newBench(t, func(o *site.Options) {
		o.DLQ = l
		o.Audit = func(_ *gin.Context, action, detail string, err error) {
			audit = append(audit, auditLine(action, detail, err))
		}
	})
	for query, want := range map[string][]string{
		"action=replay&id=sink-w-0003-0&id=none": {"Replay 1 dead letter?", "sink-w-0003-0",
			">Replay 1 dead letter</button>", "Gone"},
		"action=replay&service=s1": {"Replay 10 dead letters?",
			"newer ones are not affected"},
		"action=discard&all=true": {"Discard 30 dead letters?",
			"all dead letters stored now", "cannot be restored"},
		"action=purge&older_than=20m3s": {"Purge 10 dead letters?", "20m 3s ago"},
		"action=discard&sink=nowhere": {"Discard 0 dead letters?",
			"nothing to discard any more"},
		"action=replay&to=2026-11-20T11:31:00Z":                              {"Replay 1 dead letter?"},
		"action=discard&id=" + strings.Repeat("sink-w-0003-0&id=", 30) + "x": {"Discard 1 dead letter?"},
	} {
		rec := b.get(site.DeadLetterConfirmPath + "?" + query)
		require.Equal(t, http.StatusOK, rec.Code, query)
		require.Equal(t, "same-origin", rec.Header().Get("Referrer-Policy"), "so that the form's origin can be told")
		for _, w := range want {
			require.Contains(t, rec.Body.String(), w, query)
		}
		if !strings.Contains(query, "nowhere") {
			// What the form sends is read as the same choice.
			action, r, err := deadletters.ReadAction(fields(t, rec.Body.String()), b.now)
			require.NoError(t, err, query)
			require.Equal(t, strings.TrimPrefix(strings.SplitN(query, "&", 2)[0], "action="), action)
			require.False(t, r.All)
			if !r.ByIDs && action != deadletters.ActPurge {
				require.False(t, r.Query.To.IsZero(), "bounded by the time of the look")
			}
		} else {
			require.NotContains(t, rec.Body.String(), `<button type="submit"`)
		}
	}
	for _, query := range []string{"", "action=replay", "action=eat&all=true", "all=true", "action=replay&all=true&sink=w",
		"action=replay&sink=%zz&all=true", "action=purge&id=a", "action=replay&id=%3Cb%3E",
		"action=discard&reason=a%E2%80%AEb"} {
		rec := b.get(site.DeadLetterConfirmPath + "?" + query)
		require.Equal(t, http.StatusBadRequest, rec.Code, query)
		check(t, rec.Body.String())
	}
	require.Empty(t, l.taken)
	require.Empty(t, audit)
	s, err := l.Stats(context.Background())
	require.NoError(t, err)
	require.Equal(t, int64(30), s.Count)

	// What comes in after the look is not touched.
	asked := fields(t, b.get(site.DeadLetterConfirmPath+"?action=discard&all=true").Body.String())
	late := manyDeadLetters(1)[0]
	late.ID, late.Saved = "late", b.now.Add(time.Second)
	require.NoError(t, l.store.Save(context.Background(), []dlq.Entry{late}))
	rec := b.send("/engine/dlq", asked.Encode(), "Content-Type", "application/x-www-form-urlencoded",
		"Sec-Fetch-Site", "same-origin")
	require.Equal(t, http.StatusSeeOther, rec.Code, rec.Body)
	_, err = l.Get(context.Background(), "late")
	require.NoError(t, err)
	require.Len(t, audit, 1)

	b.web.Opt.DLQ = broken{errors.New("busy")}
	require.Equal(t, http.StatusServiceUnavailable, b.get(site.DeadLetterConfirmPath+"?action=discard&all=true").Code)
	b.web.Opt.DLQ = broken{context.DeadlineExceeded}
	require.Contains(t, b.get(site.DeadLetterConfirmPath+"?action=discard&all=true").Body.String(), "Counting took longer")
}

// slowDeadLetters replays some, then runs out of time.
type slowDeadLetters struct{ broken }

func (slowDeadLetters) Replay(ctx context.Context, _ dlq.Query, _ bool) (dlq.ReplayResult, error) {
	<-ctx.Done()
	return dlq.ReplayResult{Replayed: 5}, fmt.Errorf("list: %w", ctx.Err())
}

func TestFormThatRunsOutOfTime(t *testing.T) {
	b := newBench(t, func(o *site.Options) { o.DLQ = slowDeadLetters{} })
	b.router = gin.New()
	b.router.Use(func(c *gin.Context) {
		ctx, cancel := context.WithTimeout(c.Request.Context(), 10*time.Millisecond)
		defer cancel()
		c.Request = c.Request.WithContext(ctx)
		c.Next()
	})
	b.web.Register(b.router)
	rec := b.send("/engine/dlq", "action=replay&all=true", "Content-Type", "application/x-www-form-urlencoded",
		"Sec-Fetch-Site", "same-origin")
	require.Equal(t, site.DeadLetterListPath+"?did=replay&done=5&more=1", rec.Header().Get("Location"))
}

func TestWhoSeesButtons(t *testing.T) {
	l := newDeadLetterStore(t, manyDeadLetters(3)...)
	may := map[site.Permission]bool{site.Read: true}
	b := newBench(t, func(o *site.Options) {
		o.DLQ = l
		o.May = func(_ *gin.Context, p site.Permission) bool { return may[p] }
		o.Allow = func(p site.Permission) gin.HandlerFunc {
			return func(c *gin.Context) {
				if !may[p] {
					c.AbortWithStatus(http.StatusForbidden)
				}
			}
		}
	})
	confirm := site.DeadLetterConfirmPath + "?action=discard&all=true"
	for _, path := range []string{site.DeadLetterListPath, site.DeadLetterPath + "?id=sink-w-0001-0", "/engine"} {
		require.Equal(t, http.StatusOK, b.get(path).Code)
		require.NotContains(t, b.get(path).Body.String(), `name="action"`, path)
	}
	require.Empty(t, deadLetterRows(t, b.get(site.DeadLetterListPath).Body.String()))
	require.Equal(t, http.StatusForbidden, b.get(confirm).Code)
	may[site.Operate] = true
	require.Len(t, deadLetterRows(t, b.get(site.DeadLetterListPath).Body.String()), 3)
	require.Contains(t, b.get(site.DeadLetterPath+"?id=sink-w-0001-0").Body.String(), `name="action"`)
	require.Equal(t, http.StatusOK, b.get(confirm).Code)
	may[site.Read] = false
	for _, path := range []string{site.DeadLetterListPath, site.DeadLetterPath + "?id=sink-w-0001-0", "/engine"} {
		require.Equal(t, http.StatusForbidden, b.get(path).Code, path)
	}

	open, err := New(site.Options{Numbers: site.Numbers{Report: b.opt.Report},
		Condition: site.Condition{Engine: b.opt.Engine}, Now: b.opt.Now, DLQ: l})
	require.NoError(t, err)
	b.router = gin.New()
	open.Register(b.router)
	rec := b.get(site.DeadLetterPath + "?id=sink-w-0001-0")
	require.Equal(t, http.StatusOK, rec.Code, "without Allow and May everybody may read")
	require.NotContains(t, rec.Body.String(), `name="action"`)
}

// TestWholeStatusOnlyWhereItIsShown: asking all parts of an engine takes their locks, which a public page must not.
func TestWholeStatusOnlyWhereItIsShown(t *testing.T) {
	whole := 0
	b := newBench(t, func(o *site.Options) {
		o.Brief, o.Engine = o.Engine, func() status.Engine { whole++; return readyStatus() }
	})
	for _, path := range []string{"/", "/slas", "/report", "/services", "/public", "/public.json",
		"/badge/mdm/availability.svg", "/metrics", "/api/v1/slos", "/-/healthy", "/nothing"} {
		b.get(path)
		require.Zero(t, whole, path)
	}
	for i, path := range []string{"/engine", "/api/v1/engine", "/-/ready"} {
		require.Equal(t, http.StatusOK, b.get(path).Code, path)
		require.Equal(t, i+1, whole, path)
	}
}

// golden compares an answer with a file, but for the hashes in the names of assets.
func golden(t *testing.T, b *bench, target, name string) {
	t.Helper()
	rec := b.get(target)
	require.Equal(t, http.StatusOK, rec.Code)
	got := regexp.MustCompile(`\.[0-9a-f]{8}\.`).ReplaceAllString(rec.Body.String(), ".HASH.")
	testkit.Golden(t, filepath.Join("testdata", name), got)
}
