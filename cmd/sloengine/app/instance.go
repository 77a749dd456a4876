package app

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"regexp"

	"github.com/sloengine/sloengine/ingest/engine"
	"github.com/sloengine/sloengine/reliability/fsys"
)

var instanceName = regexp.MustCompile(`^[0-9a-f]{12}$`)

// instanceOf is the random name of the engine of a data folder, which tells apart the
// dead letters of engines that share a store. It is made with the folder.
func instanceOf(f fsys.FS, dir string) (string, error) {
	name := filepath.Join(dir, engine.InstanceFile)
	file, err := f.Open(name)
	if err == nil {
		data, err := io.ReadAll(io.LimitReader(file, 64))
		if err = errors.Join(err, file.Close()); err != nil {
			return "", fmt.Errorf("read %s: %w", name, err)
		}
		if !instanceName.Match(data) {
			return "", fmt.Errorf("%s contains no instance name of 12 hexadecimal digits (remove the file; dead letters of this engine that a crash interrupted may then be stored twice)", name)
		}
		return string(data), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read %s: %w", name, err)
	}
	var b [6]byte
	_, _ = rand.Read(b[:]) // never fails
	id := hex.EncodeToString(b[:])
	if err := fsys.Replace(f, name, []byte(id)); err != nil {
		return "", fmt.Errorf("write %s: %w", name, err)
	}
	return id, nil
}
