package incident

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func firing(name string, fired time.Time) Firing {
	return Firing{Alert: *page(name, "shop/a", fired).Alert, Onset: fired.Add(-time.Minute), Title: name}
}

func reconcile(t require.TestingT, b *Book, now *Alerts) bool {
	batch, ok := b.View().Reconcile(now, func(*Firing) {})
	if ok {
		payload, err := batch.Encode()
		require.NoError(t, err)
		require.NoError(t, b.Apply(now.Time, payload))
	}
	return ok
}

func TestReconcile(t *testing.T) {
	b := NewBook()
	old := firing("old", start.Add(-time.Hour))
	old.Resolved = start.Add(-time.Minute)
	// The first look opens incidents for what fires, and none for what is history.
	require.True(t, reconcile(
		t, b, &Alerts{Time: start, Firing: []Firing{firing("p1", start.Add(-time.Minute))}, Resolved: []Firing{old}}))
	require.Equal(t, []string{"INC-2026-11-0001 critical open 1"}, ids(b))
	require.Equal(t, OnsetByAlert, b.View().Get("INC-2026-11-0001").OnsetBy)
	require.Same(t, b.View().Get("INC-2026-11-0001"), b.View().Of("p1"))
	now := &Alerts{Time: start.Add(10 * time.Second), Firing: []Firing{firing("p1", start.Add(-time.Minute))}}
	require.False(t, reconcile(t, b, now), "nothing new")
	// One that fired and ended while nothing could be written is not lost.
	short := firing("p2", start.Add(time.Hour))
	short.Resolved = start.Add(61 * time.Minute)
	over := firing("p1", start.Add(-time.Minute))
	over.Resolved = start.Add(30 * time.Minute)
	require.True(t, reconcile(t, b, &Alerts{Time: start.Add(2 * time.Hour), Resolved: []Firing{over, short}}))
	require.Equal(t, []string{"INC-2026-11-0002 critical resolved 1", "INC-2026-11-0001 critical resolved 1"}, ids(b))
	require.Equal(t, start.Add(30*time.Minute), b.View().Get("INC-2026-11-0001").Resolved.Time)
	require.False(t, reconcile(t, b, &Alerts{Time: start.Add(3 * time.Hour), Resolved: []Firing{over, short}}))
	// A clock that was set back hides no alert.
	require.True(
		t, reconcile(t, b, &Alerts{Time: start.Add(-time.Hour), Firing: []Firing{firing("p3", start.Add(-time.Hour))}}))
	require.Equal(t, "INC-2026-11-0003 critical open 1", ids(b)[0])
}

// TestReconcileRenamed: new labels of a firing alert neither resolve its incident nor open another.
func TestReconcileRenamed(t *testing.T) {
	b := NewBook()
	p1 := firing("p1", start.Add(-time.Minute))
	require.True(t, reconcile(t, b, &Alerts{Time: start, Firing: []Firing{p1}}))
	p1.Fingerprint = "other labels"
	require.False(t, reconcile(t, b, &Alerts{Time: start.Add(time.Minute), Firing: []Firing{p1}}))
	require.Equal(t, []string{"INC-2026-11-0001 critical open 1"}, ids(b))
	require.True(t, reconcile(t, b, &Alerts{Time: start.Add(2 * time.Minute)}))
	require.Equal(t, []string{"INC-2026-11-0001 critical resolved 1"}, ids(b))
}

// However often the engine dies between the alerts, the record and the checkpoint, each alert opens or joins exactly
// once.
func TestReconcileAfterCrashes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b, calm := NewBook(), NewBook()
		now := Alerts{Time: start}
		active := map[string]Firing{}
		for range rapid.IntRange(1, 40).Draw(t, "ticks") {
			now.Time = now.Time.Add(time.Duration(rapid.IntRange(10, 900).Draw(t, "seconds")) * time.Second)
			name := rapid.SampledFrom([]string{"p1", "p2", "p3"}).Draw(t, "alert")
			if a, ok := active[name]; ok {
				delete(active, name)
				a.Resolved = now.Time
				now.Resolved = append(now.Resolved, a)
			} else {
				active[name] = firing(name, now.Time)
			}
			now.Firing = nil
			for _, name := range []string{"p1", "p2", "p3"} {
				if a, ok := active[name]; ok {
					now.Firing = append(now.Firing, a)
				}
			}
			before := restored(t, b)
			reconcile(t, b, &now)
			reconcile(t, calm, &now)
			switch rapid.IntRange(0, 2).Draw(t, "crash") {
			case 0: // after the record: the restart applies it, and looks at the same alerts again
				b = restored(t, b)
				require.False(t, reconcile(t, b, &now))
			case 1: // before the record
				b = before
				require.True(t, reconcile(t, b, &now))
			}
			require.Equal(t, saved(calm), saved(b))
		}
	})
}
