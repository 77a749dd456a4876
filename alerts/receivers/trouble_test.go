package receivers

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts/silence"
	"github.com/sloengine/sloengine/internal/testkit"
)

// TestReloadWhileHanging changes the settings while one receiver hangs: the others are told in time, and it is told
// once.
func TestReloadWhileHanging(t *testing.T) {
	release := make(chan struct{})
	letGo := sync.OnceFunc(func() { close(release) })
	defer letGo()
	hangs := newHook(t, func(http.ResponseWriter, *http.Request) { <-release })
	fine := newHook(t, nil)
	routes := routing(`
route:
  receiver: r0
  group_by: [alertname]
  group_wait: 0s
  group_interval: 50ms
  repeat_interval: 1h
  routes: [{matchers: ['severity="ticket"'], receiver: r1}]
receivers: [{name: r0}, {name: r1}]
`)
	d, _ := run(t, Options{Settings: Settings{Text: hooks(t, hangs, fine), Routing: routes, Timeout: time.Minute}})
	var a alarms
	d.Update(a.fire("A", "severity=page").now())
	testkit.Eventually(t, "it hangs", func() bool { return len(hangs.all()) == 1 })
	for i := range 3 {
		apply, err := d.Prepare(Settings{Text: hooks(t, hangs, fine), Routing: routes, Timeout: time.Minute,
			ExternalLabels: map[string]string{"round": fmt.Sprint(i)}})
		require.NoError(t, err)
		apply()
		d.Update(a.fire(fmt.Sprint("B", i), "severity=ticket").fire(fmt.Sprint("C", i), "severity=page").now())
		testkit.Eventually(t, "the other receiver is notified", func() bool { return len(fine.all()) == i+1 })
	}
	require.Len(t, hangs.all(), 1)
	letGo()
	testkit.Eventually(t, "then it gets the rest", func() bool {
		return len(hangs.all()) == 4 && status(t, d, "r0/webhook[0]").Pending == 0
	})
	require.Equal(t, "A=firing", hangs.told()[0])
	require.ElementsMatch(t, []string{"C0=firing", "C1=firing", "C2=firing"}, hangs.told()[1:])
	require.Empty(t, hangs.all()[0].Alerts[0].Labels["round"], "it was sent under the old settings")
	require.Equal(t, "2", hangs.all()[1].Alerts[0].Labels["round"])
	require.ElementsMatch(t, []string{"B0=firing", "B1=firing", "B2=firing"}, fine.told())
}

// TestSilencesDuringReloads adds and ends silences while the settings change all the time.
func TestSilencesDuringReloads(t *testing.T) {
	h := newHook(t, nil)
	o := Options{File: t.TempDir() + "/notifications.json", Settings: Settings{Text: hooks(t, h), Routing: routing(quick)}}
	d, stop := run(t, o)
	var reloads sync.WaitGroup
	over := make(chan struct{})
	reloads.Go(func() {
		for {
			select {
			case <-over:
				return
			default:
			}
			apply, err := d.Prepare(o.Settings)
			if err != nil {
				t.Error(err)
				return
			}
			testkit.Pause(time.Millisecond) // what is added meanwhile is in force afterwards
			apply()
		}
	})
	const n = 10
	var a alarms
	var ids []string
	for i := range n {
		s, err := d.AddSilence(silence.Silence{Matchers: fmt.Sprintf(`service="s%d"`, i), Ends: time.Now().Add(time.Hour),
			Author: "me", Comment: "known"})
		require.NoError(t, err)
		ids = append(ids, s.ID)
		d.Update(a.fire("Quiet", fmt.Sprintf("service=s%d", i)).fire("Loud", fmt.Sprintf("service=loud%d", i)).now())
	}
	testkit.Eventually(t, "all others are notified", func() bool { return len(h.all()) == n })
	for _, told := range h.told() {
		require.Equal(t, "Loud=firing", told)
	}
	for _, id := range ids[:n/2] {
		_, err := d.ExpireSilence(id)
		require.NoError(t, err)
	}
	testkit.Eventually(t, "those whose silence ended are notified", func() bool { return len(h.all()) == n+n/2 })
	close(over)
	reloads.Wait()
	testkit.Eventually(t, "and nothing waits", func() bool { return status(t, d, "r0/webhook[0]").Pending == 0 })
	stop()
	d, _ = run(t, o)
	d.Update(a.now())
	require.Len(t, d.Silences(), n, "all are on disk")
	for _, id := range ids[n/2:] {
		_, err := d.ExpireSilence(id)
		require.NoError(t, err)
	}
	testkit.Eventually(t, "the rest is notified", func() bool { return len(h.all()) == 2*n })
	for _, told := range h.told()[n:] {
		require.Equal(t, "Quiet=firing", told)
	}
}

// TestUnwritable notifies although the file cannot be written, and writes it as soon as that works, before anything
// else happens.
func TestUnwritable(t *testing.T) {
	h := newHook(t, nil)
	dir := filepath.Join(t.TempDir(), "data")
	require.NoError(t, os.Mkdir(dir, 0o700))
	o := Options{
		File: filepath.Join(dir, "notifications.json"), Settings: Settings{Text: hooks(t, h), Routing: routing(quick)}}
	d, stop := run(t, o)
	require.NoError(t, os.Rename(dir, dir+".away"))
	var a alarms
	d.Update(a.fire("A", "service=shop").fire("B", "service=pay").now())
	testkit.Eventually(t, "both are notified", func() bool {
		return len(h.all()) == 2 && status(t, d, "r0/webhook[0]").Pending == 0
	})
	require.False(t, d.UnsavedSince().IsZero())
	_, err := d.AddSilence(
		silence.Silence{Matchers: `service="shop"`, Ends: time.Now().Add(time.Hour), Author: "me", Comment: "known"})
	require.ErrorContains(t, err, "save silence")
	require.Empty(t, d.Silences())
	d.Update(a.fire("C", "service=web").now())
	testkit.Eventually(t, "it continues", func() bool {
		return len(h.all()) == 3 && status(t, d, "r0/webhook[0]").Pending == 0
	})

	require.NoError(t, os.Rename(dir+".away", dir))
	testkit.Eventually(t, "it is saved with the next evaluation", func() bool {
		d.Update(a.now())
		return d.UnsavedSince().IsZero()
	})
	stop()
	d, _ = run(t, o)
	d.Update(a.fire("D", "service=new").now())
	testkit.Eventually(t, "only what is new is sent after a restart", func() bool {
		return len(h.all()) == 4 && status(t, d, "r0/webhook[0]").Pending == 0
	})
	require.ElementsMatch(t, []string{"A=firing", "B=firing", "C=firing", "D=firing"}, h.told())
	require.Empty(t, d.Silences())
}
