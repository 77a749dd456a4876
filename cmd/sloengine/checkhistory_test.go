package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"

	"github.com/sloengine/sloengine/cmd/sloengine/remote"
	"github.com/sloengine/sloengine/slo/spec"
	examples "github.com/sloengine/sloengine/testdata/specs"
)

// check warns of a running engine whose history cannot reach back for the longest window, and of no other.
func TestCheckShortHistory(t *testing.T) {
	t.Parallel()
	sp, problems := spec.Load([]spec.File{{Name: "insurance.yaml", Data: examples.Insurance}})
	require.NoError(t, problems.Err())
	for limit, want := range map[int64]bool{10 << 30: true, 40 << 30: false} {
		engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/api/v1/engine" {
				http.NotFound(w, r)
				return
			}
			fmt.Fprintf(w, `{"log":{"history_bytes":%d,"history_limit_bytes":%d,"history_from":%q}}`, 10<<30, limit,
				time.Now().Add(-10*24*time.Hour).Format(time.RFC3339))
		}))
		t.Cleanup(engine.Close)
		var c remote.Client
		flags := pflag.NewFlagSet("check", pflag.ContinueOnError)
		c.AddOptional(flags, "running", "")
		require.NoError(t, flags.Parse([]string{"--running", engine.URL}))
		found, err := shortHistory(t.Context(), &c, "", "", sp)
		require.NoError(t, err)
		if !want {
			require.Empty(t, found)
			continue
		}
		require.Len(t, found, 1)
		require.Contains(t, found[0].Message, "history reaches back 10 of the 31 days that insurance-unpaid/")
		require.Contains(t, found[0].Message, "; 21.1 GiB more would do")
		require.Equal(t, spec.Warning, found[0].Severity)
		require.Equal(t, "insurance.yaml", found[0].File)
	}
	var none remote.Client
	found, err := shortHistory(t.Context(), &none, filepath.Join(t.TempDir(), "data"), "", sp)
	require.NoError(t, err, "no engine has run there yet")
	require.Empty(t, found)
}
