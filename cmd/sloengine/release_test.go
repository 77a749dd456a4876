package main

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestReleaseIsPrepared holds the image that the manifests run against the changelog: it is that of the newest version
// there, or, before the first one, the same everywhere.
func TestReleaseIsPrepared(t *testing.T) {
	changes, err := os.ReadFile("../../CHANGELOG.md")
	require.NoError(t, err)
	require.Regexp(t, `(?m)^## Unreleased$`, string(changes))
	want := ""
	if m := regexp.MustCompile(`(?m)^## (\d+\.\d+\.\d+) - \d{4}-\d\d-\d\d$`).FindSubmatch(changes); m != nil {
		want = string(m[1])
	}
	image := regexp.MustCompile(`ghcr\.io/sloengine/sloengine:(\S+)`)
	seen := 0
	require.NoError(
		t, filepath.WalkDir(filepath.Join(deployDir, "kubernetes"), func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			require.NoError(t, err)
			for _, m := range image.FindAllSubmatch(data, -1) {
				if want == "" {
					want = string(m[1])
				}
				require.Equal(t, want, string(m[1]), path)
				seen++
			}
			return nil
		}))
	require.GreaterOrEqual(t, seen, 3)
}
