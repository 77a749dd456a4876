package operating

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts/backtest"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/internal/e2e/e2etest"
	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/internal/testkit/pastlog"
	"github.com/sloengine/sloengine/slo/spec"
)

// storyShop is the spec of a shop: what is bad, and the burn-rate alert.
const storyShop = `version: sloengine/v1
service: shop
slos:
  - name: checkout
    objective: 99.9
    window: 30d
    indicator: {events: {valid: '{type="order"}', bad: '{%s}'}}
    alerting: {tiers: [{severity: page, long: 1h, short: 5m, budget: %s}]}
`

// storySpec has a second service: the type of its events.
const storySpec = storyShop + `---
version: sloengine/v1
service: mail
admit_unknown_types: true
slos:
  - name: sent
    objective: 99
    window: 30d
    indicator: {events: {valid: '{type="%s"}', bad: '{outcome="failure"}'}}
`

// What is bad, and a matcher of an attribute that no event has.
const (
	right = `outcome="failure"`
	wrong = `status="failed"`
)

// pastShop is two weeks of orders and mails until now.
type pastShop struct {
	began, now time.Time
	incidents  []backtest.Incident
	blips      []time.Time

	orders, failed, mails, bounced int
}

// writePastShop writes what an engine logged whose spec has the wrong matcher and the wrong type. Seven blips of three
// minutes hit two banks of four, and two incidents of half an hour bank d.
func writePastShop(t *testing.T, dir string) *pastShop {
	t.Helper()
	const day = 24 * time.Hour
	w := &pastShop{now: time.Now().UTC().Truncate(10 * time.Second)}
	w.began = w.now.Add(-14 * day)
	for i, ago := range []time.Duration{10 * day, 90 * time.Minute} {
		onset := w.now.Add(-ago)
		end := onset.Add(30 * time.Minute)
		w.incidents = append(w.incidents, backtest.Incident{ID: fmt.Sprintf("INC-%d", i+1), Service: "shop",
			Onset: onset, End: &end})
	}
	for i := range 7 {
		w.blips = append(w.blips, w.now.Add(-13*day+time.Duration(i)*41*time.Hour))
	}
	data := filepath.Join(dir, "data")
	require.NoError(t, os.Mkdir(data, 0o700))
	log, err := pastlog.New(data)
	require.NoError(t, err)
	sp, problems := spec.Load([]spec.File{{Name: "spec.yaml", Data: fmt.Appendf(nil, storySpec, wrong, "2", "send")}})
	require.NoError(t, problems.Err())
	require.NoError(t, log.Start(w.began, sp))
	for now := w.began.Add(10 * time.Second); !now.After(w.now); now = now.Add(10 * time.Second) {
		blip, incident := false, false
		for _, at := range w.blips {
			blip = blip || !now.Before(at) && now.Before(at.Add(3*time.Minute))
		}
		for i := range w.incidents {
			incident = incident || !now.Before(w.incidents[i].Onset) && now.Before(*w.incidents[i].End)
		}
		for i, bank := range []string{"a", "b", "c", "d"} {
			e := event.Event{Service: "shop", Type: "order", Time: now.Add(-2 * time.Second), Count: 5}
			if blip && i < 2 || incident && bank == "d" {
				e.Outcome = event.Failure
				w.failed += 5
			}
			w.orders += 5
			e.Set("bank", bank)
			log.Event(&e)
		}
		mail := event.Event{Service: "mail", Type: "sent", Time: now.Add(-2 * time.Second), Count: 1}
		if w.mails++; w.mails%1000 == 0 {
			mail.Outcome = event.Failure
			w.bounced++
		}
		log.Event(&mail)
		log.Flush(now.Add(-time.Millisecond))
	}
	require.NoError(t, log.Close())
	return w
}

// countsOf are the events of an SLO's window, as its API says.
func countsOf(t *testing.T, p *e2etest.Process, id string) (good, bad int) {
	t.Helper()
	var list struct {
		Items []struct {
			ID     string
			Budget struct {
				Counts struct{ Good, Bad int }
			}
		}
	}
	require.NoError(t, json.Unmarshal(e2etest.Get(t, p.Base+"/api/v1/slos"), &list))
	for _, x := range list.Items {
		if x.ID == id {
			return x.Budget.Counts.Good, x.Budget.Counts.Bad
		}
	}
	return -1, -1
}

// TestHistoryStory: an SLO was wrong for two weeks and gets its history right, its alert is tuned on it, and the cause
// of an incident is named. scripts/history-story shows it with the time that each step takes.
func TestHistoryStory(t *testing.T) {
	t.Parallel()
	began := time.Now()
	say := func(text string, args ...any) {
		fmt.Fprintf(t.Output(), "%6.1f s  %s\n", time.Since(began).Seconds(), fmt.Sprintf(text, args...))
	}
	dir := t.TempDir()
	w := writePastShop(t, dir)
	say("a log of two weeks: %d orders of which %d failed, %d mails of which %d bounced", w.orders, w.failed, w.mails,
		w.bounced)
	file := e2etest.WriteFile(t, dir, "spec.yaml", fmt.Sprintf(storySpec, wrong, "2", "send"))
	p := e2etest.Serve(t, dir, file, "log: {retain: 35d}\ndisk: {low_water: 1MiB}\n")
	t.Cleanup(func() { p.Stop(t) })
	testkit.Eventually(t, "the SLO is counted", func() bool {
		good, _ := countsOf(t, p, "shop/checkout")
		return good > 0
	})
	good, bad := countsOf(t, p, "shop/checkout")
	mails, bounced := countsOf(t, p, "mail/sent")
	say(`wrong for two weeks: shop/checkout has %d good, %d bad; mail/sent has %d good, %d bad`, good, bad, mails, bounced)
	require.Zero(t, bad)
	require.Equal(t, w.orders, good)
	require.Equal(t, [2]int{}, [2]int{mails, bounced})

	reload := func(text, id string, wantGood, wantBad int) {
		t.Helper()
		e2etest.WriteFile(t, dir, "spec.yaml", text)
		status, answer := e2etest.Post(t, p.Base+"/-/reload", "", "")
		require.Equal(t, http.StatusOK, status, answer)
		testkit.Eventually(t, "the history of "+id+" is right", func() bool {
			good, bad := countsOf(t, p, id)
			return good == wantGood && bad == wantBad
		})
		good, bad := countsOf(t, p, id)
		say("%s has its history: %d good, %d bad", id, good, bad)
	}
	say("the matcher {%s} becomes {%s}", wrong, right)
	reload(fmt.Sprintf(storySpec, right, "2", "send"), "shop/checkout", w.orders-w.failed, w.failed)
	say(`the misspelt {type="send"} becomes {type="sent"}`)
	reload(fmt.Sprintf(storySpec, right, "2", "sent"), "mail/sent", w.mails-w.bounced, w.bounced)

	incidents, err := json.Marshal(w.incidents)
	require.NoError(t, err)
	candidate := e2etest.WriteFile(t, dir, "new.yaml", fmt.Sprintf(storyShop, right, "6"))
	out, errs, code := e2etest.Command(t, "backtest", "-f", candidate, "--running", p.Base, "--from", "14d", "-o", "json",
		"--incidents", e2etest.WriteFile(t, dir, "incidents.json", string(incidents)))
	require.Zero(t, code, errs)
	var result backtest.Result
	require.NoError(t, json.Unmarshal([]byte(out), &result))
	for _, s := range result.Subjects {
		if s.ID != "shop/checkout" {
			continue
		}
		for _, side := range []struct {
			name  string
			score backtest.Score
		}{{"before", s.Before.Score}, {"after ", s.After.Score}} {
			x := side.score
			require.NotNil(t, x.Precision)
			require.NotNil(t, x.Recall)
			say("backtest, %s: %d pages, precision %.2f, recall %.2f (%d of %d), median detection %s", side.name, x.Pages,
				*x.Precision, *x.Recall, x.Found, x.Incidents, time.Duration(*x.Detection)*time.Second)
		}
		require.Equal(t, [2]int{9, 2}, [2]int{s.Before.Score.Pages, s.After.Score.Pages})
		require.Equal(t, [2]float64{1, 1}, [2]float64{*s.After.Score.Precision, *s.After.Score.Recall})
	}

	out, errs, code = e2etest.Command(t, "events", "--slo", "shop/checkout", "--last", "3h", "--why", "--limit", "1",
		"--url", p.Base)
	require.Zero(t, code, errs)
	say("sloengine events --slo shop/checkout --last 3h --why:\n%s", strings.TrimSpace(out))
	require.Contains(t, out, "Without bank=d the burn rate would be 0")
}
