package web

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/web/status"
)

// What a source reads, and what fails in it, is on the page, in the API and in readiness, which tells no secrets.
func TestSourcesAreShown(t *testing.T) {
	b := newBench(t)
	k := newContract(t, b)
	b.eng.Sources = []status.SourceStatus{
		{
			Name: "orders", Kind: "kafka", Messages: 12_000, Bytes: 3 << 20, Accepted: 11_990, Rejected: 4, DeadLetters: 4,
			Lag: 1500, LastBatch: noon.Add(-time.Second),
			Topics: []status.SourceTopic{{Name: "order-events", Partitions: 12, Owned: 4, Lag: 1500}},
		},
		{Name: "payments", Kind: "kafka", Troubles: []status.SourceTrouble{
			{Kind: "credentials", Brief: "the brokers refuse the user name or password (check sasl)",
				Reason: "SASL_AUTHENTICATION_FAILED: secret", Since: noon.Add(-time.Minute), Count: 7},
		}},
	}
	for i := range 7 {
		b.eng.Sources[1].Troubles = append(b.eng.Sources[1].Troubles,
			status.SourceTrouble{
				Kind: "topic", Name: fmt.Sprintf("t-%d", i), Brief: "the topic does not exist (create it)", Since: noon})
	}
	b.eng.Sources = append(b.eng.Sources,
		status.SourceStatus{Name: "metrics", Kind: "prometheus",
			Reading: &status.SourceReading{Indicators: 12, Complete: 3, Share: 0.374, LeftSeconds: 245}},
		status.SourceStatus{Name: "mimir", Kind: "prometheus",
			Reading: &status.SourceReading{Indicators: 1, Complete: 1, Share: 1}})
	page := b.get("/engine").Body.String()
	check(t, page)
	for _, want := range []string{"12,000 messages, 3.0 MiB", "11,990 accepted",
		"4 of 12 partitions here, 1,500 messages behind", "credentials, for", "37.4% read",
		"3 of 12 indicators up to now, about 4m 5s left", "1 indicator up to now", "SASL_AUTHENTICATION_FAILED: secret"} {
		require.Contains(t, page, want)
	}
	require.Contains(t, string(k.answer(b, http.MethodGet, "/api/v1/engine", 200)), `"lag_messages":1500`)
	before := b.eng.Ingest
	require.Equal(t, []uint64{before.Received + 11_994, before.Accepted + 11_990, before.Rejected + 4},
		[]uint64{b.eng.Arrived().Received, b.eng.Arrived().Accepted, b.eng.Arrived().Rejected})
	b.eng.Ingest = status.IngestStatus{}
	require.Contains(t, b.get("/engine").Body.String(), `title="11,990"`)
	require.NotContains(t, b.get("/engine").Body.String(), "No event has arrived")
	b.eng.Ingest = before
	ready := string(k.answer(b, http.MethodGet, "/-/ready", 200))
	require.Contains(t, ready,
		`{"part":"source","name":"payments","reason":"the brokers refuse the user name or password (check sasl), since `)
	require.Contains(t, ready, "and 3 more failures")
	require.NotContains(t, ready, "secret", "anybody may ask")

	for want, s := range map[string]status.SourceStatus{
		"paused":    {Paused: true, Troubles: []status.SourceTrouble{{Kind: "engine"}}},
		"failing":   {Troubles: []status.SourceTrouble{{Kind: "tls"}}},
		"see below": {Troubles: []status.SourceTrouble{{Kind: "position"}}}, "no message yet": {},
		"reading": {LastBatch: noon},
	} {
		require.Equal(t, want, sourceMark(&s).Word)
	}
}
