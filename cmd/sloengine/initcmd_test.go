package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/slo/spec"
	"github.com/sloengine/sloengine/web/api"
)

func TestSpecsFromTraffic(t *testing.T) {
	answer := `{"items":[
		{"name":"shop","spec":"version: sloengine/v1\nservice: \"shop\"\n"},
		{"name":"nightly"},
		{"name":"cart","spec":"version: sloengine/v1\nservice: \"cart\"\n"}]}`
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		require.Equal(t, api.SeenPath, r.URL.Path)
		_, _ = io.WriteString(w, answer)
	}))
	defer engine.Close()
	run := func(args ...string) (string, error) {
		var out bytes.Buffer
		root := newRoot(cli.Streams{Out: &out, Err: io.Discard})
		root.SetArgs(append([]string{"init", "--from-traffic", engine.URL}, args...))
		root.SilenceErrors, root.SilenceUsage = true, true
		err := root.Execute()
		return out.String(), err
	}
	text, err := run()
	require.NoError(t, err)
	got, problems := spec.Load([]spec.File{{Name: "specs.yaml", Data: []byte(text)}})
	require.NoError(t, problems.Err())
	require.Len(t, got.Services, 2)

	text, err = run("--service", "cart")
	require.NoError(t, err)
	require.Equal(t, "version: sloengine/v1\nservice: \"cart\"\n", text)
	_, err = run("--service", "nightly")
	require.ErrorContains(t, err, "no spans of service nightly in the last hour")

	file := filepath.Join(t.TempDir(), "specs.yaml")
	_, err = run("--out", file)
	require.NoError(t, err)
	require.FileExists(t, file)
	_, err = run("--out", file)
	require.ErrorIs(t, err, os.ErrExist, "it may be handwritten")

	answer = `{"items":[]}`
	_, err = run()
	require.ErrorContains(t, err, "send spans to its /v1/traces")
}

func TestSpecsFromPrometheus(t *testing.T) {
	t.Setenv(cli.EnvToken, "of-the-engine")
	prometheus := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer t0ken" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		result := ""
		if strings.Contains(r.URL.Query().Get("query"), "traefik_service_requests_total") {
			result = `{"metric":{"service":"cart@docker","code":"200"},"value":[1,"5"]}`
		}
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[%s]}}`, result)
	}))
	defer prometheus.Close()
	run := func(args ...string) (string, error) {
		var out bytes.Buffer
		root := newRoot(cli.Streams{Out: &out, Err: io.Discard})
		root.SetArgs(append([]string{"init", "--from-prometheus", prometheus.URL}, args...))
		root.SilenceErrors, root.SilenceUsage = true, true
		err := root.Execute()
		return out.String(), err
	}
	_, err := run()
	require.ErrorContains(t, err, "403 Forbidden")
	require.ErrorContains(t, err, "no token was sent (set --token-file)")
	_, err = run("--from-traffic", prometheus.URL)
	require.ErrorContains(t, err, "--from-traffic and --from-prometheus exclude each other")

	token := filepath.Join(t.TempDir(), "token")
	require.NoError(t, os.WriteFile(token, []byte("t0ken"), 0o600))
	text, err := run("--token-file", token)
	require.NoError(t, err)
	got, problems := spec.Load([]spec.File{{Name: "specs.yaml", Data: []byte(text)}})
	require.NoError(t, problems.Err())
	require.Equal(t, `traefik_service_requests_total{service="cart@docker"}`, got.SLOs[0].Indicator.PromTotal)
	_, err = run("--token-file", token, "--service", "shop")
	require.ErrorContains(t, err, "names a service shop")
}
