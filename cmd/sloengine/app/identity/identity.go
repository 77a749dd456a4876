// Package identity is what an engine makes once with its data directory: its name, and the key of the links that it signs.
package identity

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/reliability/fsys"
)

// Instance is the random name of the engine of a data directory. It distinguishes the dead letters of engines that share a
// store.
func Instance(f fsys.FS, dir string) (string, error) {
	return file{
		name: engine.InstanceFile, what: "instance name", digits: 12,
		lost: "dead letters of this engine that a crash interrupted may then be stored twice",
	}.readOrMake(f, dir)
}

// file holds random hexadecimal digits.
type file struct {
	name, what string
	digits     int
	private    bool   // only the owner may read it
	lost       string // without the file
}

// readOrMake makes the file with the first start.
func (i file) readOrMake(f fsys.FS, dir string) (string, error) {
	name := filepath.Join(dir, i.name)
	r, err := f.Open(name)
	if err == nil {
		data, err := io.ReadAll(io.LimitReader(r, 128))
		if err = errors.Join(err, r.Close()); err != nil {
			return "", fmt.Errorf("read %s: %w", name, err)
		}
		if len(data) != i.digits || strings.Trim(string(data), "0123456789abcdef") != "" {
			return "", fmt.Errorf("%s contains no %s of %d hexadecimal digits (remove the file; %s)", name, i.what, i.digits, i.lost)
		}
		return string(data), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	b := make([]byte, i.digits/2)
	_, _ = rand.Read(b) // never fails
	text := hex.EncodeToString(b)
	err = fsys.WriteAtomic(f, name, func(w io.Writer) error {
		if i.private {
			if err := os.Chmod(name+fsys.TempSuffix, 0o600); err != nil { // nothing is in it yet
				return err
			}
		}
		_, err := io.WriteString(w, text)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("write %s: %w", name, err)
	}
	return text, nil
}
