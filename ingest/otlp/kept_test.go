package otlp_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/otlp"
	"github.com/sloengine/sloengine/ingest/otlp/otlpwire"
)

func TestKept(t *testing.T) {
	k := otlp.Kept{Attributes: []string{"region", "trace_id"}, NamedSince: now,
		Keep: []string{"http.route", "k8s.*.name", "http.method"}, KeepSince: now.Add(-time.Hour)}
	for name, want := range map[string]time.Time{
		"region": now, "trace_id": now, "http_route": k.KeepSince, "k8s_pod_name": k.KeepSince,
		"http_request_method": k.KeepSince, "http_method": {}, "k8s_pod_uid": {}, "operation": {}, "": {},
	} {
		at, ok := k.Since(name)
		require.Equal(t, !want.IsZero(), ok, name)
		if ok {
			require.Equal(t, want, at, name)
		}
	}
	k.Keep = []string{"*"}
	_, ok := k.Since("operation")
	require.False(t, ok, "it is the name of the span, and no attribute of it")

	at := now
	f := otlp.NewFindings(otlp.FindingsOptions{Now: func() time.Time { return at }})
	m := otlp.NewMapper(&otlp.Settings{}, nil, f)
	for _, service := range []string{"shop", "pay", "shop"} {
		m.Begin(nil, nil)
		require.NoError(t,
			otlpwire.New(otlpwire.Limits{}).TracesJSON(request(attrs("service.name="+service), span(`"kind":2`)),
				func(s *otlpwire.Span) error { m.Span(s); return nil }))
	}
	require.Equal(t, []string{"pay", "shop"}, f.SpanFed())
	at = at.Add(time.Hour)
	require.Empty(t, f.SpanFed())
}
