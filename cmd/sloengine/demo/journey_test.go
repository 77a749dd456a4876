package demo

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/event"
)

// way is what was sent of one journey.
type way struct {
	events []event.Event
	ends   int
}

func (w *way) last() *event.Event { return &w.events[len(w.events)-1] }

// ways sorts events by journey, and checks that each was sent once and that a journey begins with its start.
func ways(t *testing.T, events []event.Event) map[string]*way {
	t.Helper()
	ids, out := map[string]bool{}, map[string]*way{}
	for _, e := range events {
		require.False(t, ids[e.ID], "%s was sent twice", e.ID)
		ids[e.ID] = true
		w := out[e.Attr("application")]
		if w == nil {
			require.Equal(t, typeStarted, e.Type)
			w = &way{}
			out[e.Attr("application")] = w
		}
		require.False(t, len(w.events) > 0 && e.Time.Before(w.last().Time), "%s is out of order", e.ID)
		w.events = append(w.events, e)
		if e.HasDuration {
			w.ends++
			require.Equal(t, e.Time.Sub(w.events[0].Time).Round(time.Millisecond), e.Duration.Round(time.Millisecond))
		}
		require.LessOrEqual(t, w.ends, 1)
	}
	return out
}

// Applications begin, go from stage to stage and end, also over a restart of the process that sends them.
func TestJourneysOverRestart(t *testing.T) {
	m := New(now.Add(-24*time.Hour), 5) // its incidents are over
	j, sent := m.Resume(time.Time{}, now)
	backlog := ways(t, sent)
	require.Greater(t, len(backlog), 3000, "the last hour")
	at := now
	for range 600 {
		at = at.Add(time.Second)
		sent = append(sent, j.Until(at)...)
	}
	again := at.Add(10 * time.Minute)
	j, missed := m.Resume(at, again)
	sent = append(sent, missed...)
	for range 3600 {
		again = again.Add(time.Second)
		sent = append(sent, j.Until(again)...)
	}
	open, ended, stages := 0, 0, map[string]int{}
	for _, w := range ways(t, sent) {
		if w.events[0].Time.After(again.Add(-30 * time.Minute)) {
			continue // still on its way
		}
		if ended += w.ends; w.ends == 0 {
			open++
			stages[w.last().Attr("stage")]++
		}
	}
	require.InDelta(t, lostShare, float64(open)/float64(open+ended), lostShare/2, "some are never heard of again")
	require.Greater(t, len(stages), 2)
}

// While mdm fails, applications pile up in the stage that asks it. Some fail, most go on afterwards, and some are lost.
func TestJourneysInAnOutage(t *testing.T) {
	m := New(now, 6)
	outage := m.Incidents[1]
	j, sent := m.Resume(time.Time{}, now)
	waiting := func(until time.Time) (n int) {
		for j.planned.Before(until) {
			sent = append(sent, j.Until(j.planned)...)
		}
		for _, w := range ways(t, sent) {
			if w.ends == 0 && w.last().Attr("stage") == "GET_CLIENT_INFO" && until.Sub(w.last().Time) > 3*time.Minute {
				n++
			}
		}
		return n
	}
	before, during, after := waiting(outage.From), waiting(outage.To), waiting(outage.To.Add(20*time.Minute))
	require.Greater(t, during, before+50)
	require.Less(t, after, during/2)
	require.Greater(t, after, before+5, "lost ones stay")
	ends := map[string]int{}
	for _, w := range ways(t, sent) {
		if at := w.events[0].Time; !at.Before(outage.From) && at.Before(outage.To) {
			ends[w.last().Type]++
		}
	}
	require.Greater(t, ends[typeFailed], 50)
	require.Greater(t, ends[typeIssued], 200)
	require.Greater(t, ends[typeDeclined], 50)
}

// History ends where journeys begin, so that no application is in both.
func TestSalesEndWhereJourneysBegin(t *testing.T) {
	m := New(now, 1)
	m.SalesUntil = now.Add(-LongestJourney)
	started, issued := uint32(0), uint32(0)
	for _, e := range collect(t, m, now.Add(-25*time.Hour), now) {
		switch e.Type {
		case typeStarted:
			started += e.Count
			require.True(t, e.Time.Before(m.SalesUntil))
		case typeIssued:
			issued += e.Count
		}
	}
	require.InDelta(t, 0.70, float64(issued)/float64(started), 0.03)
	_, missed := m.Resume(time.Time{}, now)
	for _, e := range missed {
		if e.Type == typeStarted {
			require.False(t, e.Time.Before(m.SalesUntil))
		}
	}
}

// Only the crawler is over the limit of 60 views in ten seconds.
func TestViewsOfACrawler(t *testing.T) {
	m := New(now, 2)
	perPeriod, pings := map[string]map[int64]int{}, 0
	begin := now.Add(12 * time.Minute)
	for at := begin; at.Before(begin.Add(10 * time.Minute)); at = at.Add(500 * time.Millisecond) {
		for _, e := range m.Views(at, at.Add(500*time.Millisecond), "t") {
			if e.Type == typePing {
				pings++
				continue
			}
			if perPeriod[e.Attr("client")] == nil {
				perPeriod[e.Attr("client")] = map[int64]int{}
			}
			perPeriod[e.Attr("client")][e.Time.Unix()/10]++
		}
	}
	for client, n := range perPeriod {
		most := 0
		for _, k := range n {
			most = max(most, k)
		}
		require.Equal(t, client == Crawler, most > 60, "%s: %d", client, most)
	}
	require.Len(t, perPeriod, 41)
	require.InDelta(t, 10*60*2+4*10*7, pings, 150)
	for _, e := range m.Views(now, begin, "t") {
		require.NotEqual(t, Crawler, e.Attr("client"), "not while mdm fails")
	}
}

func TestWarehouseDown(t *testing.T) {
	m := New(now, 1)
	down := time.Duration(0)
	for at := now.Add(-time.Hour); at.Before(now.Add(5 * time.Hour)); at = at.Add(time.Second) {
		if m.WarehouseDown(at) {
			require.GreaterOrEqual(t, at.Sub(now), 12*time.Minute, "not before the incident of the story")
			down += time.Second
		}
	}
	require.Equal(t, 4*time.Minute, down)
}
