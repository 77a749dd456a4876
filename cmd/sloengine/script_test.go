package main

import (
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/sloengine/sloengine/reliability/nettest"
)

// TestScripts runs the stories of testdata/script. Each has a free port in $PORT
// and the example specs in $SPECS.
func TestScripts(t *testing.T) {
	t.Parallel()
	specs, err := filepath.Abs("../../testdata")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("PORT", nettest.FreePort(t))
			env.Setenv("TESTDATA", specs)
			return nil
		},
	})
}
