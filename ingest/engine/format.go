package engine

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/sloengine/sloengine/reliability/fsys"
)

// DataFormat is the format of the data folder as a whole. Raise its number together with that of
// any file in the folder, so that an older program refuses the folder before it touches anything.
// Folders of version 0.1.0 have no number.
var DataFormat = fsys.Format{Kind: "data directory", Number: 1}

// checkFormats refuses a folder of a newer version and changes nothing. The log checks its own
// segments before it changes any.
func (e *Engine) checkFormats() error {
	if err := DataFormat.Check(e.opt.FS, e.opt.Dir); err != nil {
		return err
	}
	c := e.checkpointFiles()
	numbers, err := c.manifests()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, number := range numbers {
		if _, err := c.readManifest(number); errors.Is(err, errNewerFormat) { // any other damage is judged later
			return fmt.Errorf("checkpoint %s: %w", c.path(manifestName(number)), err)
		}
	}
	return nil
}
