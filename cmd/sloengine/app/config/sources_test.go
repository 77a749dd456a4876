package config

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	httpconfig "github.com/prometheus/common/config"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/ingest/source"
	"github.com/sloengine/sloengine/ingest/source/kafka"
	"github.com/sloengine/sloengine/ingest/source/series"
	"github.com/sloengine/sloengine/reliability/remotewrite"
	"github.com/sloengine/sloengine/slo"
)

// What engine.yaml says about a source reaches it.
func TestSourceConnection(t *testing.T) {
	dir := t.TempDir()
	secretsIn(t, dir)
	c := mustLoad(t, dir, `
sources:
  - name: orders
    format: json
    headers: {tenant: X-Tenant}
    backfill: never
    max_message: 1MiB
    map: {service: shop, type: .kind, failure_if: 'text(".x") == "1"', attributes: {a: .b}}
    kafka:
      brokers: ["kafka-1:9092", "kafka-2:9092"]
      topics: [orders]
      tls: {ca_file: redis-ca.pem, cert_file: client.pem, key_file: client-key.pem, server_name: kafka.internal}
      sasl: {mechanism: PLAIN, username: u, password_file: redis.password}
      version: "2.8"
      client_id: slo
      request_timeout: 1s
      backoff: 2s
      start: latest
      engines: 3
      ordinal: 2
      fetch: {min_bytes: 1MiB, max_wait: 1s}
  - {name: rest, kafka: {brokers: ["k:9092"], topics_regex: "^shop[.]", ownership: group, group: slo, tls: {},
      sasl: {username: u, password_file: redis.password}}}
`)
	require.Len(t, c.Sources, 2)
	one, two := c.Sources[0], c.Sources[1]
	require.Equal(t, "kafka", one.Kind())
	require.Equal(t, source.BackfillNever, one.Backfill)
	require.EqualValues(t, 1<<20, one.MaxMessage)
	require.Equal(t, "shop", one.Map.Service)
	require.Equal(t, []any{"latest", 3, "2", time.Second},
		[]any{one.Kafka.Start, one.Kafka.Engines, one.Kafka.Ordinal, one.Kafka.Fetch.MaxWait})
	require.Equal(t, source.Defaults(), two.Settings)
	want := kafka.Defaults()
	want.TopicsRegex, want.Ownership, want.Group = "^shop[.]", kafka.Group, "slo"
	require.Equal(t, want, two.Kafka.Settings)

	o, err := one.Kafka.Client("source:orders")
	require.NoError(t, err)
	require.Equal(t, []string{"kafka-1:9092", "kafka-2:9092"}, o.Brokers)
	require.Equal(t, []string{"PLAIN", "u", filepath.Join(dir, "redis.password")},
		[]string{o.SASL.Mechanism, o.SASL.Username, o.SASL.PasswordFile})
	require.Equal(t, "kafka.internal", o.TLS.ServerName)
	require.Len(t, o.TLS.Certificates, 1)
	require.Equal(t, []any{"2.8", "slo", time.Second, 2 * time.Second},
		[]any{o.Version, o.ClientID, o.RequestTimeout, o.Backoff})
	o, err = two.Kafka.Client("source:rest")
	require.NoError(t, err)
	require.NotNil(t, o.TLS, "tls: {} is TLS")
	require.NoError(t, os.Remove(filepath.Join(dir, "redis.password")))
	_, err = two.Kafka.Client("source:rest")
	require.ErrorContains(t, err, "password_file")
}

// What reaches a Prometheus is what reaches an Alertmanager.
func TestPrometheusClient(t *testing.T) {
	t.Setenv("SLO_TEST_SECRET", "x")
	dir := t.TempDir()
	server := httpAccess{BasicAuth: &basicAuthConfig{Username: "a", PasswordEnv: "SLO_TEST_SECRET"},
		TLS: tlsConfig{CAFile: "ca", CertFile: "cert", KeyFile: "key", ServerName: "name", Insecure: true}}
	got := server.client()
	require.Equal(t, httpconfig.TLSConfig{CAFile: "ca", CertFile: "cert", KeyFile: "key", ServerName: "name",
		InsecureSkipVerify: true}, got.TLSConfig)
	require.EqualValues(t, "x", got.BasicAuth.Password)
	server = httpAccess{BearerTokenEnv: "SLO_TEST_SECRET"}
	require.EqualValues(t, "x", server.client().Authorization.Credentials)
	file := filepath.Join(dir, "token")
	require.NoError(t, os.WriteFile(file, []byte("y"), 0o600))
	server = httpAccess{BearerTokenFile: file}
	require.Equal(t, file, server.client().Authorization.CredentialsFile)
	require.False(t, server.client().FollowRedirects)
	client, err := (&PrometheusSource{httpAccess: server}).Client()
	require.NoError(t, err)
	require.NotNil(t, client.Transport)
}

// A server of remote write gets the headers and credentials of its settings, and no redirect is followed.
func TestRemoteWriteClient(t *testing.T) {
	t.Setenv("SLO_TEST_SECRET", "x")
	var got http.Header
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	}))
	defer srv.Close()
	c, err := Read("engine.yaml", []byte("remote_write: [{name: m, url: '"+srv.URL+"', headers: {X-Scope-OrgID: shop}, "+
		"bearer_token_env: SLO_TEST_SECRET}]"))
	require.NoError(t, err)
	client, err := c.RemoteWrite[0].Client()
	require.NoError(t, err)
	res, err := client.Get(srv.URL)
	require.NoError(t, err)
	res.Body.Close()
	require.Equal(t, http.StatusTemporaryRedirect, res.StatusCode)
	require.Equal(t, "Bearer x", got.Get("Authorization"))
	require.Equal(t, map[string]string{"X-Scope-OrgID": "shop"}, c.RemoteWrite[0].Headers)
	want := remotewrite.Defaults()
	want.Headers = c.RemoteWrite[0].Headers
	require.Equal(t, want, c.RemoteWrite[0].Settings)
}

// The first source that reads a service reads its SLOs on series, whatever they count.
func TestAssignSources(t *testing.T) {
	var slos []*slo.SLO
	for _, id := range []slo.ID{"bank/a", "shop/a", "shop/b", "shop/c"} {
		s := &slo.SLO{ID: id, Indicator: slo.Indicator{Kind: slo.KindPrometheus, PromTotal: "all", PromBad: "bad"}}
		switch id.Name() {
		case "a":
			if id.Service() == "shop" {
				s.Alerting.By = slo.AlertsBoth
			}
		case "b":
			s.Indicator = slo.Indicator{Kind: slo.KindPrometheus, PromErrorRatioQuery: "x[$window]"}
		case "c":
			s.Budgeting = slo.Budgeting{Method: slo.Timeslices, Slice: time.Minute}
		}
		slos = append(slos, s)
	}
	c := Config{Sources: []Source{{Name: "kafka"}, {Name: "one", Prometheus: &PrometheusSource{Services: []string{"shop"},
		Alerts: "live", Settings: series.Settings{Interval: 45 * time.Second}}},
		{Name: "two", Prometheus: &PrometheusSource{Alerts: "rules"}}}}
	c.AssignSources(slos)
	var got []string
	for _, s := range slos {
		got = append(got, fmt.Sprintf("%s %q %v %s", s.ID, s.Indicator.PromSource, s.Indicator.PromAlerts,
			s.Indicator.PromEvery))
	}
	require.Equal(t, []string{`bank/a "two" rules 0s`, `shop/a "one" both 0s`, `shop/b "one" live 45s`,
		`shop/c "one" live 0s`}, got)
}
