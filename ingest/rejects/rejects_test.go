package rejects

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/event"
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
