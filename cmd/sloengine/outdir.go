package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sloengine/sloengine/reliability/fsys"
)

// outFile is one generated file, by its path below the output folder.
type outFile struct {
	path string
	data []byte
}

// outManifest remembers what was generated into a folder, so that --prune takes
// away only what sloengine wrote and nobody changed.
const outManifest = ".sloengine-generated.json"

// writeOut writes the files below dir, each whole or not at all, one at a time.
// Files that are as they should be are left alone. Files that an earlier run
// wrote and this one did not are stale: they are removed with prune and named
// otherwise. scope limits what counts as stale to the folders of this run.
func writeOut(dir string, files []outFile, scope []string, prune bool, log io.Writer) error {
	old, err := readManifest(dir)
	if err != nil {
		return err
	}
	next := map[string]string{}
	written := 0
	for _, f := range files {
		name := filepath.Join(dir, filepath.FromSlash(f.path))
		sum := sha256.Sum256(f.data)
		next[f.path] = hex.EncodeToString(sum[:])
		if have, err := os.ReadFile(name); err == nil && bytes.Equal(have, f.data) {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return fmt.Errorf("make output folder: %w", err)
		}
		err := fsys.WriteAtomic(fsys.OS(), name, func(w io.Writer) error { _, err := w.Write(f.data); return err })
		if err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
		written++
	}
	removed, err := pruneStale(dir, old, next, scope, prune, log)
	if err != nil {
		return err
	}
	if err := writeManifest(dir, next); err != nil {
		return err
	}
	fmt.Fprintf(log, "%s: %s written, %d unchanged, %d removed\n", dir, plural(written, "file"), len(files)-written, removed)
	return nil
}

// pruneStale removes, or names, what is in the old manifest and not in the next.
// What stays is carried over into the next.
func pruneStale(dir string, old, next map[string]string, scope []string, prune bool, log io.Writer) (removed int, err error) {
	var stale []string
	for path := range old {
		if _, again := next[path]; !again {
			stale = append(stale, path)
		}
	}
	slices.Sort(stale)
	for _, path := range stale {
		if !inScope(path, scope) {
			next[path] = old[path]
			continue
		}
		name := filepath.Join(dir, filepath.FromSlash(path))
		data, err := os.ReadFile(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return removed, fmt.Errorf("look at stale file: %w", err)
		}
		sum := sha256.Sum256(data)
		switch {
		case !prune:
			fmt.Fprintf(log, "stale: %s is no longer generated; --prune removes it\n", name)
			next[path] = old[path]
		case hex.EncodeToString(sum[:]) != old[path]:
			fmt.Fprintf(log, "kept: %s is no longer generated, but somebody changed it\n", name)
		default:
			if err := os.Remove(name); err != nil {
				return removed, fmt.Errorf("prune: %w", err)
			}
			removed++
		}
	}
	return removed, nil
}

func inScope(path string, scope []string) bool {
	for _, s := range scope {
		if path == s || strings.HasPrefix(path, s+"/") {
			return true
		}
	}
	return false
}

func readManifest(dir string) (map[string]string, error) {
	data, err := os.ReadFile(filepath.Join(dir, outManifest))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read list of generated files: %w", err)
	}
	var m map[string]string
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, fmt.Errorf("read list of generated files %s: %w", filepath.Join(dir, outManifest), err)
	}
	for path := range m {
		if !filepath.IsLocal(filepath.FromSlash(path)) {
			return nil, fmt.Errorf("list of generated files %s: %q leaves the folder", filepath.Join(dir, outManifest), path)
		}
	}
	return m, nil
}

func writeManifest(dir string, m map[string]string) error {
	data, err := json.MarshalIndent(m, "", "  ") // maps are written in the order of their keys
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make output folder: %w", err)
	}
	name := filepath.Join(dir, outManifest)
	if have, err := os.ReadFile(name); err == nil && bytes.Equal(have, append(data, '\n')) {
		return nil
	}
	err = fsys.WriteAtomic(fsys.OS(), name, func(w io.Writer) error { _, err := w.Write(append(data, '\n')); return err })
	if err != nil {
		return fmt.Errorf("write list of generated files: %w", err)
	}
	return nil
}
