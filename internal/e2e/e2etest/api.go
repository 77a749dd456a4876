package e2etest

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/sloengine/sloengine/internal/testkit"
	"github.com/sloengine/sloengine/web/incidents"
	"github.com/stretchr/testify/require"
)

// ListIncidents are the critical incidents.
func ListIncidents(t *testing.T, p *Process) (list incidents.List) {
	t.Helper()
	Call(t, http.MethodGet, p.Base+"/api/v1/incidents?severity=critical", "", &list)
	return list
}

// OwnSLOs are the budgets of the engine's own objectives, by name.
func OwnSLOs(t testing.TB, p *Process) map[string]struct{ Good, Bad int } {
	t.Helper()
	var list struct {
		Items []struct {
			Service, SLO string
			Events       struct{ Good, Bad int }
		}
	}
	require.NoError(t, json.Unmarshal(Get(t, p.Base+"/api/v1/slos?service=sloengine"), &list))
	out := map[string]struct{ Good, Bad int }{}
	for _, s := range list.Items {
		if s.Service == "sloengine" {
			out[s.SLO] = s.Events
		}
	}
	return out
}

// SLOList is what the tests read of the list of SLOs.
type SLOList struct {
	Report struct{ Version uint64 }
	Total  int
	Items  []struct {
		ID     string
		Group  map[string]string
		Budget struct {
			SLI, Remaining *float64
			Counts         struct{ Valid uint64 }
		}
		State string
	}
}

// ListSLOs reads the list of SLOs.
func ListSLOs(t *testing.T, p *Process) SLOList {
	t.Helper()
	res, err := http.Get(p.Base + "/api/v1/slos?limit=500")
	require.NoError(t, err)
	defer res.Body.Close()
	var out SLOList
	require.NoError(t, json.NewDecoder(res.Body).Decode(&out))
	return out
}

// Answered adds up the answers of the engine.
type Answered struct {
	Received, Accepted, Duplicates, Limited, Sampled, Rejected int
	DeadLettered                                               int `json:"dead_lettered"`
	Safe                                                       []string
}

// DeadLetterCount is how many dead letters there are.
func DeadLetterCount(t testing.TB, p *Process) int {
	t.Helper()
	var stats struct{ Count int }
	Call(t, http.MethodGet, p.Base+"/api/v1/dlq/stats", "", &stats)
	return stats.Count
}

// ReplayAll replays dead letters until there are none.
func ReplayAll(t testing.TB, p *Process) (replayed int) {
	t.Helper()
	for deadline := time.Now().Add(testkit.Patience); time.Now().Before(deadline) && DeadLetterCount(t, p) > 0; {
		var result struct{ Replayed, Failed int }
		Call(t, http.MethodPost, p.Base+"/api/v1/dlq/replay", `{"all":true}`, &result)
		replayed += result.Replayed
	}
	require.Zero(t, DeadLetterCount(t, p), "dead letters that no replay brings back")
	return replayed
}
