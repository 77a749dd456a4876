package delivery

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/sla/report"
	"github.com/sloengine/sloengine/slo"
)

// TestSendNow sends a report that is not due, twice, and leaves what is known of the scheduled one as it is.
func TestSendNow(t *testing.T) {
	h := newHook(t)
	w := newWorld(t, "2026-11-20T12:00:00Z", func(*Settings) {})
	w.change = func(s *Settings) {
		s.Reports = []Report{
			{Name: "w", Every: slo.Week, Formats: []Format{HTML}, Folder: w.folder(), Webhooks: []Webhook{{URL: h.URL}}}}
	}
	w.restart()
	w.step(t.Context())
	before, err := os.ReadFile(w.opt.File)
	require.NoError(t, err)
	for _, period := range []string{"", "last-week"} {
		p, got, err := w.SendNow(t.Context(), "w", period, w.build)
		require.NoError(t, err)
		require.Equal(t, "2026-W46", p.String())
		require.Len(t, got, 2)
		for _, r := range got {
			require.NoError(t, r.Err, "%s %s", r.Kind, r.Name)
		}
	}
	require.Equal(t, []string{"w-2026-W46.html"}, w.sent())
	after, err := os.ReadFile(w.opt.File)
	require.NoError(t, err)
	require.Equal(t, string(before), string(after))
	require.Equal(t, "0", w.metric(`sloengine_reports_sent_total{report="w",kind="folder"}`),
		"those are the scheduled ones")

	_, _, err = w.SendNow(t.Context(), "x", "", w.build)
	require.ErrorIs(t, err, ErrUnknown)
	_, _, err = w.SendNow(t.Context(), "w", "2026-W60", w.build)
	require.ErrorIs(t, err, ErrPeriod)
	w.fails = errors.New("busy")
	_, _, err = w.SendNow(t.Context(), "w", "", w.build)
	require.ErrorIs(t, err, w.fails)
	w.fails = nil
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, got, err := w.SendNow(gone, "w", "", w.build)
	require.NoError(t, err)
	require.ErrorIs(t, got[0].Err, context.Canceled, "who asked has gone")

	asking := func(ctx context.Context, r *Report, p report.Period) (*Content, error) {
		_, _, err := w.SendNow(ctx, "w", "", w.build) // while the first is on its way
		return nil, err
	}
	_, _, err = w.SendNow(t.Context(), "w", "", asking)
	require.ErrorIs(t, err, ErrBusy)
}
