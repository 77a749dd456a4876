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

	"github.com/sloengine/sloengine/cmd/sloengine/cli"
	"github.com/sloengine/sloengine/reliability/fsys"
)

// outFile is one generated file, by its path below the output folder.
type outFile struct {
	path string
	data []byte
}

// outManifest lists what was generated into a folder, so that --prune removes only files that sloengine wrote and
// that were not changed since.
const outManifest = ".sloengine-generated.json"

// outDir writes generated files below a folder, each atomically and as it comes. It holds only their checksums.
type outDir struct {
	dir       string
	log       io.Writer
	old, next map[string]string // path: checksum of the content
	written   int
}

// openOut begins to generate into a folder.
func openOut(dir string, log io.Writer) (*outDir, error) {
	old, err := readManifest(dir)
	if err != nil {
		return nil, err
	}
	return &outDir{dir: dir, log: log, old: old, next: map[string]string{}}, nil
}

// add writes one file, unless it already has this content.
func (o *outDir) add(f outFile) error {
	name, err := below(o.dir, f.path)
	if err != nil {
		return err
	}
	if _, twice := o.next[f.path]; twice {
		return fmt.Errorf(
			"write %s: two services generate this file because their names differ only in '.', '_' and '-' (rename one of them)",
			name)
	}
	sum := sha256.Sum256(f.data)
	o.next[f.path] = hex.EncodeToString(sum[:])
	changed, err := writeChanged(name, f.data)
	if changed {
		o.written++
	}
	return err
}

// below is the name of a file below a folder. A link on the way to it, or in place of its temporary file, would lead
// out of the folder.
func below(dir, path string) (string, error) {
	name := filepath.Join(dir, filepath.FromSlash(path))
	for at := name + fsys.TempSuffix; at != filepath.Clean(dir); at = filepath.Dir(at) {
		if st, err := os.Lstat(at); err == nil && st.Mode()&fs.ModeSymlink != 0 {
			return "", fmt.Errorf(
				"write %s: %s is a link, which generate does not follow (remove it, or set --out to where it leads)", name, at)
		}
	}
	return name, nil
}

// writeChanged writes a file and its folder, unless the file already has this content.
func writeChanged(name string, data []byte) (changed bool, err error) {
	if have, err := fsys.ReadFile(name, fsys.MaxStateBytes); err == nil && bytes.Equal(have, data) {
		return false, nil
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return false, fmt.Errorf("create output folder: %w", err)
	}
	if err := writeAtomic(name, data); err != nil {
		return false, fmt.Errorf("write %s: %w", name, err)
	}
	return true, nil
}

func writeAtomic(name string, data []byte) error {
	return fsys.Replace(fsys.OS(), name, data)
}

// close ends the run. Files that an earlier run wrote and this one did not are stale. With prune, close removes
// them, otherwise it reports them. scope limits what counts as stale to the folders of this run.
func (o *outDir) close(scope []string, prune bool) error {
	made := len(o.next)
	removed, err := pruneStale(o.dir, o.old, o.next, scope, prune, o.log)
	if err != nil {
		return err
	}
	if err := writeManifest(o.dir, o.next); err != nil {
		return err
	}
	fmt.Fprintf(o.log, "%s: %s written, %d unchanged, %d removed\n", o.dir, cli.Plural(o.written, "file"),
		made-o.written, removed)
	return nil
}

// pruneStale removes or reports the files that are in the old manifest and not in the next. It copies the entries
// of files that stay into the next.
func pruneStale(dir string, old, next map[string]string, scope []string, prune bool,
	log io.Writer) (removed int, err error) {
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
		name, err := below(dir, path)
		if err != nil {
			return removed, err
		}
		data, err := fsys.ReadFile(name, fsys.MaxStateBytes)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return removed, fmt.Errorf("read stale file: %w", err)
		}
		sum := sha256.Sum256(data)
		switch {
		case !prune:
			fmt.Fprintf(log, "stale: %s is no longer generated; --prune removes it\n", name)
			next[path] = old[path]
		case hex.EncodeToString(sum[:]) != old[path]:
			fmt.Fprintf(log, "not removed: %s is no longer generated, but it was changed since\n", name)
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
	data, err := fsys.ReadFile(filepath.Join(dir, outManifest), fsys.MaxStateBytes)
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
	data, err := json.MarshalIndent(m, "", "  ") // a map is encoded in the order of its keys
	if err != nil {
		return err
	}
	name, err := below(dir, outManifest)
	if err == nil {
		_, err = writeChanged(name, append(data, '\n'))
	}
	return err
}
