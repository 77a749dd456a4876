package main

import (
	"fmt"
	"net"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
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
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			defer l.Close()
			env.Setenv("PORT", fmt.Sprint(l.Addr().(*net.TCPAddr).Port))
			env.Setenv("TESTDATA", specs)
			return nil
		},
	})
}
