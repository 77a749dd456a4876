package engine

import (
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
	return e.checkpoints().CheckFormat()
}
