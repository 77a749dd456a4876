package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
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
