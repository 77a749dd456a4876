package remote

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/alerts/backtest"
	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/web/api"
)

// TestBacktest: the same request is repeated until there is a result, and an error ends it.
func TestBacktest(t *testing.T) {
	t.Parallel()
	answers := []api.BacktestAnswer{{Progress: 0.5, Busy: true}, {Progress: 1, Result: &backtest.Result{Ticks: 7}}}
	var bodies []api.BacktestRequest
	var mu sync.Mutex // of both
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		var q api.BacktestRequest
		if json.NewDecoder(r.Body).Decode(&q) != nil || r.URL.Path != api.BacktestPath || len(answers) == 0 {
			w.WriteHeader(http.StatusUnprocessableEntity)
			return
		}
		bodies = append(bodies, q)
		if answers[0].Result == nil {
			w.WriteHeader(http.StatusAccepted)
		}
		_ = json.NewEncoder(w).Encode(answers[0])
		answers = answers[1:]
	}))
	defer server.Close()
	var engine cli.Engine
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	engine.AddOptional(flags, "running", "")
	require.NoError(t, flags.Parse([]string{"--running", server.URL}))
	var shown []string
	q := &api.BacktestRequest{Spec: "a", Last: "30d"}
	got, err := Backtest(t.Context(), engine, q, func(_ float64, text string) { shown = append(shown, text) })
	require.NoError(t, err)
	require.Equal(t, 7, got.Ticks)
	mu.Lock()
	require.Equal(t, []api.BacktestRequest{*q, *q}, bodies)
	mu.Unlock()
	require.Equal(t, []string{"replayed for somebody else, yours is next", ""}, shown)
	_, err = Backtest(t.Context(), engine, q, func(float64, string) {})
	require.ErrorContains(t, err, "422")
}
