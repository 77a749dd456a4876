package fsys

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
)

// FormatFile holds the format number of a folder. It is read before anything else is, and raised
// with every change that an older program would misread, in any file of the folder.
const FormatFile = "FORMAT"

// Newer ends the message about a file or folder of a newer version.
const Newer = "a newer version of sloengine wrote it; start that version, or restore a backup from before the " +
	"upgrade; nothing was changed"

// ErrNewer is wrapped by [Format.Check] for a folder of a newer version.
var ErrNewer = errors.New(Newer)

// Format is the newest format of a kind of folder that this program knows.
type Format struct {
	Kind   string // such as "data directory"
	Number int
}

// restoring stands in FormatFile while a restore writes the folder.
const restoring = "sloengine restore in progress\n"

func (f Format) text(number int) string {
	return fmt.Sprintf("sloengine %s format %d\n", f.Kind, number)
}

// Check reads the format number and changes nothing. A folder without one is of a version that
// did not write it yet, and is accepted.
func (f Format) Check(fsys FS, dir string) error {
	_, err := f.read(fsys, dir)
	return err
}

// read returns 0 if there is no number.
func (f Format) read(fsys FS, dir string) (number int, err error) {
	name := filepath.Join(dir, FormatFile)
	file, err := fsys.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read format: %w", err)
	}
	raw, err := io.ReadAll(io.LimitReader(file, 256))
	if err = errors.Join(err, file.Close()); err != nil {
		return 0, fmt.Errorf("read format %s: %w", name, err)
	}
	if string(raw) == restoring {
		return 0, fmt.Errorf(
			"%s %s holds part of a backup: the restore was interrupted; delete the folder and restore again", f.Kind, dir)
	}
	if n, err := fmt.Sscanf(string(raw), "sloengine "+f.Kind+" format %d", &number); n != 1 || err != nil || number < 1 {
		return 0, fmt.Errorf("%s does not hold the format of a %s: %q; is %s the right folder?", name, f.Kind, raw, dir)
	}
	if number > f.Number {
		return number, fmt.Errorf("%s %s has format %d, and this program reads formats up to %d: %w", f.Kind, dir,
			number, f.Number, ErrNewer)
	}
	return number, nil
}

// Mark writes the number into a folder that has none or an older one. On a full disk, which must
// not prevent reading the folder, that is left to the next start.
func (f Format) Mark(fsys FS, dir string) error {
	number, err := f.read(fsys, dir)
	if err != nil || number == f.Number {
		return err
	}
	if err = f.write(fsys, dir, f.text(f.Number)); Classify(err) == NoSpace {
		return nil
	}
	return err
}

// BeginRestore makes Check refuse the folder until EndRestore.
func (f Format) BeginRestore(fsys FS, dir string) error { return f.write(fsys, dir, restoring) }

// EndRestore writes the format that the backup had; "" is that of a version without a number.
func (f Format) EndRestore(fsys FS, dir, text string) error {
	if text != "" {
		return f.write(fsys, dir, text)
	}
	return ChangeDir(fsys, dir, SiteAtomicDir, func() error { return fsys.Remove(filepath.Join(dir, FormatFile)) })
}

func (f Format) write(fsys FS, dir, text string) error {
	return Replace(fsys, filepath.Join(dir, FormatFile), []byte(text))
}
