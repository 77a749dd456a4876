package backtest

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts/incident"
	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/ingest/event"
	"github.com/sloengine/sloengine/reliability/fsys"
	"github.com/sloengine/sloengine/slo/spec"
)

// recent writes a day of orders of two services that ends now, all of which fail for ten minutes.
func recent(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	end := time.Now().UTC()
	begin := end.Add(-24 * time.Hour)
	w.start(begin, load(t, shop(t)))
	for now := begin.Add(10 * time.Second); now.Before(end); now = now.Add(10 * time.Second) {
		e := &event.Event{Service: "shop", Type: "order", Time: now.Add(-time.Second), Count: 10}
		if ago := end.Sub(now); ago < 5*time.Hour && ago > 5*time.Hour-10*time.Minute {
			e.Outcome = event.Failure
		}
		e.Set("bank", "b")
		w.Event(e)
		w.Event(&event.Event{Service: "secret", Type: "order", Time: now, Count: 1})
		w.Flush(now.Add(-time.Millisecond))
	}
	w.save()
	return w
}

// TestRunner: an engine replays for one request at a time, gives the same answer again, and shows nothing of services
// that the candidate does not have.
func TestRunner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := recent(t)
		source, err := engine.OpenLog(fsys.OS(), w.dir)
		require.NoError(t, err)
		before := load(t, shop(t))
		before.Agreements = nil
		after := load(t, strings.Replace(shop(t), "99.5", "60", 1))
		after.Agreements = nil
		book := incident.NewBook()
		for _, service := range []string{"shop", "secret"} {
			payload, err := (&incident.Batch{Operations: []incident.Operation{{Kind: incident.OpenByHand, Key: service,
				Service: service, Severity: incident.Critical, Title: service, Onset: time.Now().Add(-5 * time.Hour),
				By: "ann"}}}).Encode()
			require.NoError(t, err)
			require.NoError(t, book.Apply(time.Now().Add(-5*time.Hour), payload))
		}
		r := NewRunner(RunnerOptions{Source: source, Now: time.Now, Interval: 10 * time.Second,
			InForce: func() *spec.Spec { return before }, Incidents: book.View, LogError: func(_ string, err error) {
				t.Error(err)
			}})
		ctx, stop := context.WithCancel(t.Context())
		go func() { require.NoError(t, r.Run(ctx)) }()
		ask := Request{Key: "a", After: after, Last: 10 * time.Hour, Zone: time.UTC, Own: true, Within: time.Hour}
		other := ask
		other.Key, other.Within = "b", -1 // it is over before it begins

		require.Equal(t, Status{Began: true}, r.Try(ask))
		require.True(t, r.Try(other).Busy)
		got := wait(r, ask)
		require.NoError(t, got.Err)
		require.Same(t, got.Result, r.Try(ask).Result, "it is remembered")
		require.Len(t, got.Result.Incidents, 1, "of the service")
		require.InDelta(t, 8640, got.Result.Events, 2, "of the service")
		s := got.Result.Subjects[0]
		require.Equal(t, "shop/checkout", s.ID)
		require.Positive(t, s.Before.Score.Pages)
		require.Zero(t, s.After.Score.Pages)
		require.Equal(t, 1.0, *s.Before.Score.Recall)
		require.InDelta(t, 10, len(s.After.Hours), 1)

		got = wait(r, other)
		require.ErrorIs(t, got.Err, ErrTooLong)

		// Of the spec in force, nothing of other services is compared: no SLO that one of the candidate was, and no
		// agreement that has one of theirs.
		whole := load(t, shop(t)+"---\n"+strings.ReplaceAll(shop(t), "service: shop", "service: secret"))
		whole.Agreements[0].Components[0].SLO = "secret/latency"
		r.opt.InForce = func() *spec.Spec { return whole }
		renamed := ask
		renamed.Key, renamed.After = "f", load(t, shop(t))
		renamed.After.SLOs[0].Was = "secret/checkout"
		got = wait(r, renamed)
		require.NoError(t, got.Err)
		for _, s := range got.Result.Subjects {
			require.True(t, strings.HasPrefix(s.ID, "shop/"), s.ID)
			if s.Kind == KindAgreement {
				require.Nil(t, s.Before)
			}
		}
		require.Zero(t, got.Result.Records)

		// A request that is not repeated makes room.
		ask.Key, other.Key = "c", "d"
		require.Equal(t, Status{Began: true}, r.Try(ask))
		r.mu.Lock()
		r.job.asked = time.Now().Add(-time.Minute)
		r.mu.Unlock()
		require.Error(t, wait(r, other).Err)
		r.mu.Lock()
		for _, j := range r.done {
			require.NotEqual(t, "c", j.Key, "it was abandoned")
		}
		r.mu.Unlock()

		bad := ask
		bad.Key, bad.After = "e", nil // a panic
		r.opt.LogError = func(string, error) {}
		require.ErrorContains(t, wait(r, bad).Err, "replay failed")
		stop()
		synctest.Wait()
	})
}

func wait(r *Runner, q Request) (s Status) {
	for s.Result == nil && s.Err == nil {
		time.Sleep(time.Second) //nolint:forbidigo // simulated
		s = r.Try(q)
	}
	return s
}
