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

// outDir writes generated files below a folder, each whole or not at all, one at a
// time, and as they come: nothing is kept but their sums.
type outDir struct {
	dir       string
	log       io.Writer
	old, next map[string]string // path: sum of the content
	written   int
}

// openOut begins a generation into a folder.
func openOut(dir string, log io.Writer) (*outDir, error) {
	old, err := readManifest(dir)
	if err != nil {
		return nil, err
	}
	return &outDir{dir: dir, log: log, old: old, next: map[string]string{}}, nil
}

// add writes one file, unless it is as it should be already.
func (o *outDir) add(f outFile) error {
	name := filepath.Join(o.dir, filepath.FromSlash(f.path))
	if _, twice := o.next[f.path]; twice {
		return fmt.Errorf("write %s: two services make this file, whose names differ only in '.', '_' and '-'; rename one of them", name)
	}
	sum := sha256.Sum256(f.data)
	o.next[f.path] = hex.EncodeToString(sum[:])
	if have, err := os.ReadFile(name); err == nil && bytes.Equal(have, f.data) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return fmt.Errorf("make output folder: %w", err)
	}
	err := fsys.WriteAtomic(fsys.OS(), name, func(w io.Writer) error { _, err := w.Write(f.data); return err })
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	o.written++
	return nil
}

// close ends the generation. Files that an earlier run wrote and this one did
// not are stale: they are removed with prune and named otherwise. scope limits
// what counts as stale to the folders of this run.
func (o *outDir) close(scope []string, prune bool) error {
	made := len(o.next)
	removed, err := pruneStale(o.dir, o.old, o.next, scope, prune, o.log)
	if err != nil {
		return err
	}
	if err := writeManifest(o.dir, o.next); err != nil {
		return err
	}
	fmt.Fprintf(o.log, "%s: %s written, %d unchanged, %d removed\n", o.dir, plural(o.written, "file"), made-o.written, removed)
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
