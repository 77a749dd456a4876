package rejects

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/reliability/fsys/fsystest"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// clock is a table with a clock that the test sets.
type clock struct {
	*Table
	now  time.Time
	hide bool
}

func newClock() *clock {
	c := &clock{now: noon}
	c.Table = New(func() bool { return c.hide }, func() time.Time { return c.now })
	return c
}

// send decodes lines and records their problems.
func (c *clock) send(t testing.TB, s Sender, lines ...string) {
	t.Helper()
	body := []byte(strings.Join(lines, "\n"))
	var d event.Decoder
	var b event.Batch
	require.NoError(t, d.Decode(event.NDJSON, body, event.DecodeOptions{Now: c.now}, &b))
	c.Events(s, body, &b)
}

func TestWhoAndHowMany(t *testing.T) {
	c := newClock()
	shop := Sender{Token: "shop"}
	c.send(t, shop, `{"service":"shop","type":"order"}`)
	require.Empty(t, c.Snapshot(), "a good event leaves nothing")

	old := `{"service":"shop","type":"order","time":"2020-01-01T00:00:00Z","attributes":{"customer":"Ann"}}`
	c.send(t, shop, old, old, `{"service":"web","type":"x","time":"2020-01-01T00:00:00Z"}`)
	c.now = noon.Add(time.Minute)
	c.send(t, Sender{Address: "192.0.2.1"}, strings.Split(strings.Repeat("{}\n", 1000), "\n")...)
	c.Request(Sender{Address: "192.0.2.9"}, "unauthorized", "missing token")

	got := c.Snapshot()
	require.Len(t, got, 3)
	byCode := map[string]Code{}
	for _, x := range got {
		byCode[x.Code] = x
	}
	missing := byCode["missing_field"]
	require.EqualValues(t, 1000, missing.Events, "those beyond the listed errors, too")
	require.Equal(t, Sender{Address: "192.0.2.1"}, missing.Senders[0].Sender)
	require.EqualValues(t, 1000, missing.Senders[0].Count)
	require.Equal(t, "{}", missing.Senders[0].Sample)
	tooOld := byCode["time_too_old"]
	require.Equal(t, "time_too_old", got[2].Code, "the latest first")
	require.EqualValues(t, 3, tooOld.Events)
	require.Len(t, tooOld.Senders, 2)
	for _, r := range tooOld.Senders {
		require.Equal(t, shop, r.Sender)
		require.EqualValues(t, map[string]uint64{"shop": 2, "web": 1}[r.Service], r.Count)
		require.Contains(t, r.Detail, "is more than 24h0m0s ago")
	}
	require.EqualValues(t, 1, byCode["unauthorized"].Requests)
	require.Zero(t, byCode["unauthorized"].Events)

	var none *Table
	none.Request(shop, "x", "y")
	require.Nil(t, none.Snapshot())
}

func TestSamplesAreRedacted(t *testing.T) {
	c := newClock()
	c.hide = true
	c.send(t, Sender{Token: "a"},
		`{"service":"shop","type":"order","id":"ann@example.org","time":"2020-01-01T00:00:00Z","severity":"critical",`+
			`"attributes":{"customer":"Ann"}}`)
	c.send(t, Sender{Token: "b"}, `{"service":"shop","type":"order","user":{"name":"Ann"}}`)
	c.send(t, Sender{Token: "c"}, `{"service":"shop","customer":"Ann`)
	all := fmt.Sprintf("%+v", c.Snapshot())
	require.NotContains(t, strings.ToLower(all), "ann")
	require.Contains(t, all,
		`{"time":"2020-01-01T00:00:00Z","service":"shop","type":"order","severity":"critical",`+
			`"attributes":{"customer":"(redacted)"}}`)
}

func TestTheTableIsBounded(t *testing.T) {
	c := newClock()
	long := strings.Repeat("ü", 5_000)
	n := 0
	for code := range 100 {
		for sender := range 50 {
			c.now = c.now.Add(time.Second)
			c.Request(Sender{Address: fmt.Sprint(sender)}, fmt.Sprint("code", code), long)
			n++
		}
	}
	rows := 0
	var counted uint64
	for _, x := range c.Snapshot() {
		require.LessOrEqual(t, len(x.Senders), maxPerCode)
		rows += len(x.Senders)
		counted += x.Others
		for _, r := range x.Senders {
			counted += r.Count
			require.LessOrEqual(t, len(r.Detail), maxDetail+len("…"))
		}
		require.EqualValues(t, 50, x.Requests)
	}
	require.Equal(t, maxRows, rows)
	require.EqualValues(t, 50*maxCodes, counted, "evicted senders are counted")

	c = newClock()
	c.send(t, Sender{}, `{"service":"shop","type":"order","colour":"`+long+`"}`)
	require.LessOrEqual(t, len(c.Snapshot()[0].Senders[0].Sample), maxSample+len("…"))
}

// The cost of a flood of bad events for each batch of a thousand.
func BenchmarkEvents(b *testing.B) {
	body := []byte(strings.Repeat(`{"service":"shop","type":"order","time":"2020-01-01T00:00:00Z"}`+"\n", 1000))
	var d event.Decoder
	var batch event.Batch
	if err := d.Decode(event.NDJSON, body, event.DecodeOptions{Now: noon}, &batch); err != nil {
		b.Fatal(err)
	}
	c := newClock()
	for b.Loop() {
		c.Events(Sender{Token: "shop"}, body, &batch)
	}
}

// opened is a table with a file on disk.
func opened(t *testing.T, disk *fsystest.Mem, last uint64) (*clock, *testkit.Buffer) {
	t.Helper()
	c, log := newClock(), new(testkit.Buffer)
	require.NoError(t, c.Open(disk, "rejects.json", last, metrics.NewSet(), slog.New(slog.NewTextHandler(log, nil))))
	return c, log
}

// sendTo sends for a catalogue with the service shop and the type order.
func (c *clock) sendTo(t *testing.T, lines ...string) {
	t.Helper()
	body := []byte(strings.Join(lines, "\n"))
	var d event.Decoder
	var b event.Batch
	require.NoError(t, d.Decode(event.NDJSON, body, event.DecodeOptions{Now: c.now,
		Catalog: event.NewCatalog(map[string][]string{"shop": {"order"}})}, &b))
	c.Events(Sender{Address: "192.0.2.1"}, body, &b)
}

func TestTheTableOutlastsTheProcess(t *testing.T) {
	disk := fsystest.New()
	c, _ := opened(t, disk, 0)
	var lines []string
	for range 300 { // more than the errors of a batch that are listed
		lines = append(lines, `{"service":"shop","type":"ordr","count":2}`)
	}
	c.sendTo(t, append(lines, `{"service":"shpo","type":"order"}`)...)
	c.Stored(7, noon.Add(-time.Second), []event.Unknown{{Service: "shop", Type: "visit", Code: Uncounted, N: 5}})
	c.now = noon.Add(time.Hour)
	c.DeadLetters([]event.Unknown{{Service: "shop", Type: "ordr", Code: event.CodeUnknownType, N: 3}})
	before := c.Types()
	require.Equal(t, []Type{
		{Code: Uncounted, Service: "shop", Type: "visit", Events: 5, First: noon.Add(-time.Second),
			Last: noon.Add(-time.Second)},
		{Code: event.CodeUnknownService, Service: "shpo", Type: "order", Events: 1, First: noon, Last: noon},
		{Code: event.CodeUnknownType, Service: "shop", Type: "ordr", Events: 603, DeadLetters: 3, First: noon,
			Last: noon.Add(time.Hour)},
	}, before)
	c.save()
	c.sendTo(t, lines...) // lost by a kill

	c, log := opened(t, disk, 7)
	require.Equal(t, before, c.Types())
	code := c.Snapshot()[1]
	require.Equal(t, Code{Code: "unknown_type", Events: 300, Since: noon, Last: noon, Senders: []Row{}, Others: 300}, code)
	require.NotContains(t, saved(t, disk), "192.0.2.1", "senders are not saved")
	c.Stored(7, noon, []event.Unknown{{Service: "shop", Type: "visit", Code: Uncounted, N: 5}}) // read again
	require.Equal(t, before, c.Types())
	c.Stored(8, noon, []event.Unknown{{Service: "shop", Type: "visit", Code: Uncounted, N: 1}})
	require.EqualValues(t, 6, c.Types()[0].Events)
	require.Empty(t, log.String())

	c, _ = opened(t, disk, 5) // the log is an older one
	c.Stored(6, noon, []event.Unknown{{Service: "shop", Type: "visit", Code: Uncounted, N: 1}})
	require.EqualValues(t, 6, c.Types()[0].Events)
}

// TestDamagedTable cuts the file, and makes its rows contradict themselves.
func TestDamagedTable(t *testing.T) {
	disk := fsystest.New()
	c, _ := opened(t, disk, 0)
	c.sendTo(t, `{"service":"shop","type":"ordr"}`)
	c.save()
	good := saved(t, disk)
	for _, damaged := range []string{"", good[:len(good)/2], strings.Replace(good, `"events":1`, `"events":0`, 1),
		strings.Replace(good, "ordr", strings.Repeat("x", 1000), 1), `{"version":0}`} {
		require.NoError(t, disk.WriteFile("rejects.json", []byte(damaged)))
		c, log := opened(t, disk, 0)
		require.Empty(t, c.Types())
		require.Empty(t, c.Snapshot())
		require.Equal(t, 1, strings.Count(log.String(), "\n"), damaged)
		require.Contains(t, log.String(), "starting with an empty one")
		c.sendTo(t, `{"service":"shop","type":"ordr"}`)
		require.Len(t, c.Types(), 1)
	}
	require.NoError(t, disk.WriteFile("rejects.json", []byte(`{"version":2}`)))
	require.ErrorIs(t, newClock().Open(disk, "rejects.json", 0, metrics.NewSet(), slog.Default()), fsys.ErrNewer)
}

func TestTypesAreBounded(t *testing.T) {
	c, _ := opened(t, fsystest.New(), 0)
	c.sendTo(t, `{"service":"shop","type":"ordr"}`)
	for i := range 20 {
		c.now = c.now.Add(time.Minute)
		var lines []string
		for j := range 100 {
			lines = append(lines, fmt.Sprintf(`{"service":"shop","type":"t%d"}`, 100*i+j))
		}
		c.sendTo(t, lines[:50]...) // two thirds of these are beyond the bound of a batch
		c.sendTo(t, lines[50:]...)
	}
	c.sendTo(t, `{"service":"shop","type":"ordr"}`)
	all := c.Types()
	require.Len(t, all, maxTypes)
	sum := uint64(0)
	for _, x := range all {
		sum += x.Events
	}
	require.EqualValues(t, 2002, sum, "none is lost")
	require.Equal(t, event.OtherTypes, all[0].Type)
	require.Equal(t, noon, all[0].First)
	c.save()
	again, log := opened(t, c.file.Files.(*fsystest.Mem), 0)
	require.Equal(t, all, again.Types())
	require.Empty(t, log.String())
}

func saved(t *testing.T, disk *fsystest.Mem) string {
	t.Helper()
	data, err := disk.ReadFile("rejects.json")
	require.NoError(t, err)
	return string(data)
}
